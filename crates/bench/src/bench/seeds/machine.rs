//! Describes the machine on which the experiments ran, and the commit of the program.

use std::fs;
use std::process::Command;

/// The machine in one sentence: processor, cores, memory, kernel, and how busy it was.
pub(super) fn describe() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':'));
        value.map_or_else(
            || "unknown".to_owned(),
            |(_, value)| value.trim().to_owned(),
        )
    };
    let processor = field(&read("/proc/cpuinfo"), "model name");
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let memory_kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split_whitespace().next().unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!(
        "{processor}, {cores} cores, {} GiB, Linux {}; load average {load} when the command began",
        memory_kib.div_ceil(1 << 20),
        kernel.trim()
    )
}

/// The commit that is checked out in this folder, and whether there are changes besides.
pub(super) fn commit() -> String {
    let git = |arguments: &[&str]| -> Option<String> {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    match git(&["rev-parse", "--short=12", "HEAD"]) {
        None => "unknown".to_owned(),
        Some(commit) => match git(&["status", "--porcelain", "--untracked-files=no"]) {
            Some(changes) if changes.is_empty() => commit,
            _ => format!("{commit} with changes"),
        },
    }
}

/// The date of today.
pub(super) fn date() -> String {
    jiff::Zoned::now().date().to_string()
}

/// Whether the program was built without optimization, so that its figures mean little.
pub(super) fn is_debug_build() -> bool {
    cfg!(debug_assertions)
}
