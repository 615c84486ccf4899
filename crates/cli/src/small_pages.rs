//! Memory of the roles that hold a state, in small pages.

/// Tells the system to give this process memory in small pages only, as Redis does for itself
/// (`disable-thp`). Called before the first thread starts, by roles that start no other program:
/// one would inherit it.
///
/// The allocator asks for huge pages, and the first touch of one makes whoever touches it wait until
/// 2 MiB are there. In a virtual machine whose unused memory the host takes back that is 5 ms: several
/// pauses of all clients while a new service takes up its first thousand hosts, a quarter of the time
/// (measured with `tests/sidebyside/run`). Larger pages are missed nowhere: claims and decisions are
/// as fast without, and the state takes less.
pub(crate) fn use_small_pages() {
    #[cfg(target_os = "linux")]
    {
        // A system that refuses is slower at times and otherwise as good.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
}
