//! A lock on a file that one process at a time may use.

use std::fs::{File, TryLockError};

/// An exclusive lock on a file, released when this is dropped.
#[derive(Debug)]
pub(crate) struct FileLock(File);

impl FileLock {
    /// Locks the file.
    ///
    /// # Errors
    ///
    /// [`TryLockError::WouldBlock`] if it is locked already; an error of the file system.
    pub(crate) fn take(file: File) -> Result<Self, TryLockError> {
        file.try_lock()?;
        Ok(Self(file))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Between fork and exec a child process shares the open file, and would hold the lock after this process has
        // closed the file. So it is released explicitly. If that fails, the lock goes with the last copy of the file.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_lock_is_free_although_a_copy_of_the_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let file = File::create(&path).unwrap();
        // Shares the open file, as a forked child does.
        let _copy = file.try_clone().unwrap();
        let lock = FileLock::take(file).unwrap();
        let second = || FileLock::take(File::open(&path).unwrap());
        assert!(matches!(second(), Err(TryLockError::WouldBlock)));
        drop(lock);
        second().unwrap();
    }
}
