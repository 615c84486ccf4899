//! How far a copy is, on standard error if somebody watches.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use placewright_journal::backup::BackupStep;

const TELL_EVERY: Duration = Duration::from_millis(250);

/// A line that is written over and over, and removed at the end.
pub(super) struct Progress {
    is_watched: bool,
    told: Instant,
    has_told: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            is_watched: io::stderr().is_terminal(),
            told: Instant::now(),
            has_told: false,
        }
    }

    pub(super) fn tell(&mut self, step: &BackupStep) {
        if !self.is_watched || self.told.elapsed() < TELL_EVERY {
            return;
        }
        self.told = Instant::now();
        self.has_told = true;
        let BackupStep { entry, end, bytes } = *step;
        let text = match entry < end {
            true => format!("entry {entry} of {end}, {}", size(bytes)),
            false => format!("entry {end}, the snapshot, {}", size(bytes)),
        };
        // Whether anybody sees it changes nothing.
        let _ = write!(io::stderr(), "\r{text}\x1b[K");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.has_told {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// A number of bytes for people.
pub(super) fn size(bytes: u64) -> String {
    #[allow(
        clippy::cast_precision_loss,
        reason = "only one decimal of it is printed"
    )]
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    format!("{mebibytes:.1} MiB")
}
