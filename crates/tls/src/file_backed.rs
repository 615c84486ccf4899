//! Values that are made of files, and are made again when these change.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

/// What a look at the files has brought.
#[derive(Debug)]
pub enum Outcome<E> {
    /// Nothing changed since the last time that they were read.
    Unchanged,
    /// They were changed just now, perhaps not all of them yet: the next look reads them.
    Changing,
    /// They were read, and from now on the new value is in force.
    Replaced,
    /// They were read and are wrong. The value of before stays in force.
    Kept(E),
}

/// Makes the value from the files; it gets the one in force.
type Load<T, E> = dyn Fn(Option<&T>) -> Result<T, E> + Send + Sync;

/// A value that is made of files. [`current`](Self::current) is cheap; everything else reads files,
/// so it belongs on a thread that may block.
pub struct FileBacked<T, E> {
    files: Vec<PathBuf>,
    load: Box<Load<T, E>>,
    current: RwLock<Arc<T>>,
    looks: Mutex<Looks>,
}

/// What was seen of the files.
#[derive(Debug)]
struct Looks {
    /// When they were read last, whatever came of it.
    read: Stamps,
    /// At the last look.
    last: Stamps,
}

/// Tells the states of files apart: device, inode, length and times of each; none of a missing one.
type Stamps = Vec<Option<[i64; 7]>>;

impl<T, E> FileBacked<T, E> {
    /// Makes the value for the first time.
    ///
    /// # Errors
    ///
    /// As `load` says.
    pub fn load(
        files: Vec<PathBuf>,
        load: impl Fn(Option<&T>) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        let seen = stamps(&files);
        let current = RwLock::new(Arc::new(load(None)?));
        Ok(Self {
            files,
            load: Box::new(load),
            current,
            looks: Mutex::new(Looks {
                read: seen.clone(),
                last: seen,
            }),
        })
    }

    /// The value in force.
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.current.read())
    }

    /// The files that it is made of.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Reads the files again if they have changed, and have not changed since the last look: of a
    /// certificate and its key one is always written first. Wrong files are read, and told, once.
    pub fn look(&self) -> Outcome<E> {
        let mut looks = self.looks.lock();
        let seen = stamps(&self.files);
        let is_settled = seen == looks.last;
        looks.last.clone_from(&seen);
        if seen == looks.read {
            return Outcome::Unchanged;
        }
        if !is_settled {
            return Outcome::Changing;
        }
        self.replace(&mut looks, seen)
    }

    /// Reads the files again if they have changed, without waiting until they stay as they are.
    pub fn reread_if_changed(&self) -> Outcome<E> {
        let mut looks = self.looks.lock();
        let seen = stamps(&self.files);
        looks.last.clone_from(&seen);
        if seen == looks.read {
            return Outcome::Unchanged;
        }
        self.replace(&mut looks, seen)
    }

    /// Reads the files again now, whether they have changed or not.
    pub fn reread(&self) -> Outcome<E> {
        let mut looks = self.looks.lock();
        let seen = stamps(&self.files);
        looks.last.clone_from(&seen);
        self.replace(&mut looks, seen)
    }

    fn replace(&self, looks: &mut Looks, seen: Stamps) -> Outcome<E> {
        looks.read = seen;
        let current = self.current();
        match (self.load)(Some(&current)) {
            Ok(value) => {
                *self.current.write() = Arc::new(value);
                Outcome::Replaced
            }
            Err(error) => Outcome::Kept(error),
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

fn stamps(files: &[PathBuf]) -> Stamps {
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
    fn changed_files_are_read_once_they_stay_as_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let number = number(&directory);
        assert!(matches!(number.look(), Outcome::Unchanged));
        fs::write(directory.path().join("number"), "22").unwrap();
        assert!(matches!(number.look(), Outcome::Changing));
        assert_eq!(*number.current(), 1);
        assert!(matches!(number.look(), Outcome::Replaced));
        assert!(matches!(number.look(), Outcome::Unchanged));
        assert_eq!(*number.current(), 22);
    }

    #[test]
    fn wrong_files_are_told_once_and_change_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let number = number(&directory);
        fs::write(directory.path().join("number"), "many").unwrap();
        assert!(matches!(number.look(), Outcome::Changing));
        assert!(matches!(number.look(), Outcome::Kept(_)));
        assert!(matches!(number.look(), Outcome::Unchanged));
        assert!(matches!(number.reread(), Outcome::Kept(_)));
        assert_eq!(*number.current(), 1);
        fs::write(directory.path().join("number"), "333").unwrap();
        assert!(matches!(number.reread(), Outcome::Replaced));
        assert!(matches!(number.reread_if_changed(), Outcome::Unchanged));
        assert_eq!(*number.current(), 333);
        fs::write(directory.path().join("number"), "4444").unwrap();
        assert!(matches!(number.reread_if_changed(), Outcome::Replaced));
        assert!(matches!(number.look(), Outcome::Unchanged));
    }
}
