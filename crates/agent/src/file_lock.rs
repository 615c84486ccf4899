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
    /// [`TryLockError::WouldBlock`] if another process has locked it; an error of the file system.
    pub(crate) fn take(file: File) -> Result<Self, TryLockError> {
        file.try_lock()?;
        Ok(Self(file))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that is just being started still has it open, until it runs its
        // program. An error is ignored, because closing the file remains.
        let _ = self.0.unlock();
    }
}
