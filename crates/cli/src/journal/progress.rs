//! The progress of a backup, restore or copy, shown on standard error if standard error is a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use placewright_journal::backup::BackupProgress;

/// The shortest time between two updates of the line.
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);

/// A line that is overwritten with each update, and removed at the end.
pub(super) struct Progress {
    is_terminal: bool,
    updated_at: Instant,
    is_shown: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            is_terminal: io::stderr().is_terminal(),
            updated_at: Instant::now(),
            is_shown: false,
        }
    }

    pub(super) fn show(&mut self, progress: &BackupProgress) {
        if !self.is_terminal || self.updated_at.elapsed() < UPDATE_INTERVAL {
            return;
        }
        self.updated_at = Instant::now();
        self.is_shown = true;
        let BackupProgress { entry, end, bytes } = *progress;
        // The snapshot is written after the last entry.
        let text = match entry < end {
            true => format!("entry {entry} of {end}, {}", size(bytes)),
            false => format!("entry {end}, the snapshot, {}", size(bytes)),
        };
        // An error only means that nobody sees the progress.
        let _ = write!(io::stderr(), "\r{text}\x1b[K");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// A number of bytes for people.
pub(super) fn size(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "only one decimal is printed")]
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    format!("{mebibytes:.1} MiB")
}
