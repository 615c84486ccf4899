//! The journal's form of one command's changes.
//!
//! A version byte, then the changes in postcard's encoding. Readers know all versions up to their
//! own; a newer one is an error that says so.

use thiserror::Error;

use crate::change::Change;

/// The version that this release writes.
pub const RECORD_VERSION: u8 = 1;

/// Why a record cannot be read.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The record is empty.
    #[error("the record is empty")]
    Empty,
    /// A newer release wrote the record.
    #[error("the record has version {found}; this release reads versions up to {RECORD_VERSION}")]
    NewerVersion {
        /// The record's version byte, above [`RECORD_VERSION`].
        found: u8,
    },
    /// The bytes are no changes.
    #[error("the record does not hold changes")]
    Malformed(#[source] postcard::Error),
}

/// Appends the record of some changes to a buffer.
pub fn encode(changes: &[Change], out: &mut Vec<u8>) {
    out.push(RECORD_VERSION);
    let start = std::mem::take(out);
    *out = postcard::to_extend(changes, start)
        .expect("plain data written to memory always has an encoding");
}

/// Reads the changes of a record.
///
/// # Errors
///
/// [`RecordError`] when the bytes are not a record that this release knows.
pub fn decode(record: &[u8]) -> Result<Vec<Change>, RecordError> {
    let (version, body) = record.split_first().ok_or(RecordError::Empty)?;
    if *version != RECORD_VERSION {
        return Err(RecordError::NewerVersion { found: *version });
    }
    postcard::from_bytes(body).map_err(RecordError::Malformed)
}
