//! A file of the operator that is read again when it changes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

/// How often the file is checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A file with the content that was last read from it. If the file becomes invalid, the last valid content stays.
///
/// A disk may take long to answer, so [`Self::look_up`] never reads it. Only [`Self::refresh`] does.
pub(crate) struct OperatorFile<T, E> {
    path: PathBuf,
    read: fn(&Path) -> Result<T, E>,
    content: Mutex<T>,
    last_check: Mutex<LastCheck>,
}

/// The last check of the file for changes.
struct LastCheck {
    /// The version of the file that was read last; `None` if there was no file. If that read failed, the content is of
    /// an earlier version.
    version: Option<FileVersion>,
    /// When the check was made; `None` makes the next one due at once.
    at: Option<Instant>,
}

/// When the file was last modified, and its length. The file is read again when either changes.
type FileVersion = (SystemTime, u64);

impl<T, E> fmt::Debug for OperatorFile<T, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OperatorFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl<T, E: fmt::Display> OperatorFile<T, E> {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub(crate) fn load(path: PathBuf, read: fn(&Path) -> Result<T, E>) -> Result<Self, E> {
        let version = file_version(&path);
        let content = read(&path)?;
        Ok(Self {
            path,
            read,
            content: Mutex::new(content),
            last_check: Mutex::new(LastCheck {
                version,
                at: Some(Instant::now()),
            }),
        })
    }

    /// Looks something up in the content of the file.
    pub(crate) fn look_up<R>(&self, look_up: impl FnOnce(&T) -> R) -> R {
        look_up(&self.content.lock())
    }

    /// Whether the file was last checked longer than a second ago, and no other thread is checking it now.
    pub(crate) fn is_due(&self) -> bool {
        (self.last_check.try_lock()).is_some_and(|last_check| is_due(&last_check))
    }

    /// Reads the file again if it has changed and no other thread is reading it now. Waits for the disk.
    pub(crate) fn refresh(&self) {
        let Some(mut last_check) = self.last_check.try_lock() else {
            return;
        };
        if !is_due(&last_check) {
            return;
        }
        last_check.at = Some(Instant::now());
        let present_version = file_version(&self.path);
        if present_version == last_check.version {
            return;
        }
        last_check.version = present_version;
        let path = self.path.display();
        match (self.read)(&self.path) {
            Ok(content) => {
                tracing::info!(%path, "the file was read again");
                *self.content.lock() = content;
            }
            Err(error) => {
                tracing::warn!(%path, %error, "the changed file is not valid: its last valid content stays in use");
            }
        }
    }

    /// Makes the next refresh check the file, however short ago the last check was.
    #[cfg(test)]
    pub(crate) fn check_next_time(&self) {
        self.last_check.lock().at = None;
    }
}

fn is_due(last_check: &LastCheck) -> bool {
    last_check
        .at
        .is_none_or(|at| at.elapsed() >= CHECK_INTERVAL)
}

fn file_version(path: &Path) -> Option<FileVersion> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
