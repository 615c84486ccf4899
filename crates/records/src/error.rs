//! Why a record or a snapshot cannot be read.

use std::io;

use thiserror::Error;

use crate::form::FormError;

/// Why a record or snapshot cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The reader failed, or the data ended early.
    #[error("the data cannot be read")]
    Io(#[from] io::Error),
    /// A newer release wrote the data.
    #[error("the data has version {found}; this release reads versions up to {supported}")]
    NewerVersion {
        /// The version in the data.
        found: u8,
        /// The newest version that this release reads.
        supported: u8,
    },
    /// The content is not valid.
    #[error("the data is damaged: {0}")]
    Damaged(String),
}

impl From<FormError> for ReadError {
    fn from(error: FormError) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// Refuses versions that this release does not know.
pub(crate) fn check_version(found: u8, supported: u8) -> Result<(), ReadError> {
    if found > supported {
        return Err(ReadError::NewerVersion { found, supported });
    }
    Ok(())
}
