//! Disables huge pages for the roles that hold a state in memory.

/// Makes the system give this process memory in small pages only, as Redis does for itself (`disable-thp`). It is
/// called before the first thread starts, by all roles but the agent, whose executables would inherit the setting.
///
/// The allocator asks for huge pages, and the first access to one waits until 2 MiB are available. In a virtual machine
/// whose unused memory the host reclaims, this wait takes 5 ms: while the first thousand hosts were added to a new
/// service, its clients spent a quarter of the time in such waits (measured with `tests/sidebyside/run`). Claims and
/// decisions are as fast with small pages, and the state needs less memory.
pub fn use_small_pages() {
    #[cfg(target_os = "linux")]
    {
        // If the system refuses, some requests are slower, and nothing else is affected.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
}
