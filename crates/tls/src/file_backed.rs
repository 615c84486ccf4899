//! Values that are loaded from files, and loaded again when the files change.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

/// The result of checking the files.
#[derive(Debug)]
pub enum Outcome<E> {
    /// The files did not change since they were read last.
    Unchanged,
    /// The files have changed since the last check, and may still be being written. The next check reads them unless
    /// they have changed again.
    Changing,
    /// The files were read, and the new value is in effect.
    Replaced,
    /// The files were read and are not valid. The previous value stays in effect.
    Invalid(E),
}

/// Loads the value from the files; it gets the present value, if there is one.
type Load<T, E> = dyn Fn(Option<&T>) -> Result<T, E> + Send + Sync;

/// A value that is loaded from files. [`current`](Self::current) is cheap. [`load`](Self::load),
/// [`check`](Self::check), [`reread`](Self::reread) and [`reread_if_changed`](Self::reread_if_changed) read files, so
/// they have to be called on a thread that may block.
pub struct FileBacked<T, E> {
    files: Vec<PathBuf>,
    load: Box<Load<T, E>>,
    current: RwLock<Arc<T>>,
    checks: Mutex<FileChecks>,
}

/// The states of the files at earlier times.
#[derive(Debug)]
struct FileChecks {
    /// The states when the files were read last, with or without success.
    at_read: FileStates,
    /// The states when the files were checked last.
    at_check: FileStates,
}

/// The state of each file: device, inode, length, and the times of the last modification and the last change of status,
/// each in seconds and nanoseconds. `None` for a missing file.
type FileStates = Vec<Option<[i64; 7]>>;

impl<T, E> FileBacked<T, E> {
    /// Loads the value for the first time.
    ///
    /// # Errors
    ///
    /// The errors of `load`.
    pub fn load(
        files: Vec<PathBuf>,
        load: impl Fn(Option<&T>) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        let states = file_states(&files);
        let current = RwLock::new(Arc::new(load(None)?));
        Ok(Self {
            files,
            load: Box::new(load),
            current,
            checks: Mutex::new(FileChecks {
                at_read: states.clone(),
                at_check: states,
            }),
        })
    }

    /// The value from the files as they were when they were last read and valid.
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.current.read())
    }

    /// The files that the value is loaded from.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Reads changed files again once they have been the same in two checks, because a certificate and its key
    /// are written one after the other. Files that are not valid are read, and reported, once.
    pub fn check(&self) -> Outcome<E> {
        let mut checks = self.checks.lock();
        let states = file_states(&self.files);
        let is_stable = states == checks.at_check;
        checks.at_check.clone_from(&states);
        if states == checks.at_read {
            return Outcome::Unchanged;
        }
        if !is_stable {
            return Outcome::Changing;
        }
        self.replace(&mut checks, states)
    }

    /// Reads the files again if they have changed, even if they may still be changing.
    pub fn reread_if_changed(&self) -> Outcome<E> {
        let mut checks = self.checks.lock();
        let states = file_states(&self.files);
        checks.at_check.clone_from(&states);
        if states == checks.at_read {
            return Outcome::Unchanged;
        }
        self.replace(&mut checks, states)
    }

    /// Reads the files again, whether they have changed or not.
    pub fn reread(&self) -> Outcome<E> {
        let mut checks = self.checks.lock();
        let states = file_states(&self.files);
        checks.at_check.clone_from(&states);
        self.replace(&mut checks, states)
    }

    fn replace(&self, checks: &mut FileChecks, states: FileStates) -> Outcome<E> {
        checks.at_read = states;
        let current = self.current();
        match (self.load)(Some(&current)) {
            Ok(value) => {
                *self.current.write() = Arc::new(value);
                Outcome::Replaced
            }
            Err(error) => Outcome::Invalid(error),
        }
    }
}

impl<T: fmt::Debug, E> fmt::Debug for FileBacked<T, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FileBacked")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

fn file_states(files: &[PathBuf]) -> FileStates {
    files
        .iter()
        .map(|file| {
            let metadata = fs::metadata(file).ok()?;
            Some([
                metadata.dev().cast_signed(),
                metadata.ino().cast_signed(),
                metadata.len().cast_signed(),
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.ctime(),
                metadata.ctime_nsec(),
            ])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(directory: &tempfile::TempDir) -> FileBacked<u32, std::num::ParseIntError> {
        let path = directory.path().join("number");
        fs::write(&path, "1").unwrap();
        FileBacked::load(vec![path.clone()], move |_| {
            fs::read_to_string(&path).unwrap().parse()
        })
        .unwrap()
    }

    #[test]
    fn changed_files_are_read_when_they_do_not_change_any_more() {
        let directory = tempfile::tempdir().unwrap();
        let number = number(&directory);
        assert!(matches!(number.check(), Outcome::Unchanged));
        fs::write(directory.path().join("number"), "22").unwrap();
        assert!(matches!(number.check(), Outcome::Changing));
        assert_eq!(*number.current(), 1);
        assert!(matches!(number.check(), Outcome::Replaced));
        assert!(matches!(number.check(), Outcome::Unchanged));
        assert_eq!(*number.current(), 22);
    }

    #[test]
    fn invalid_files_are_reported_once_and_change_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let number = number(&directory);
        fs::write(directory.path().join("number"), "many").unwrap();
        assert!(matches!(number.check(), Outcome::Changing));
        assert!(matches!(number.check(), Outcome::Invalid(_)));
        assert!(matches!(number.check(), Outcome::Unchanged));
        assert!(matches!(number.reread(), Outcome::Invalid(_)));
        assert_eq!(*number.current(), 1);
        fs::write(directory.path().join("number"), "333").unwrap();
        assert!(matches!(number.reread(), Outcome::Replaced));
        assert!(matches!(number.reread_if_changed(), Outcome::Unchanged));
        assert_eq!(*number.current(), 333);
        fs::write(directory.path().join("number"), "4444").unwrap();
        assert!(matches!(number.reread_if_changed(), Outcome::Replaced));
        assert!(matches!(number.check(), Outcome::Unchanged));
    }
}
