//! The errors of reading keys, of sealing, and of opening. None of them contains a secret.

use std::path::PathBuf;

use thiserror::Error;

use crate::key_id::KeyId;

/// Why a keyring cannot be read or written.
#[derive(Debug, Error)]
pub enum KeyError {
    /// The key file cannot be read or written.
    #[error("the key file {}: {source}", file.display())]
    File {
        /// The path of the file.
        file: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The key file to create exists already.
    #[error("{} exists; a key that is in use is not overwritten", .0.display())]
    Exists(PathBuf),
    /// The key command cannot be run.
    #[error("the key command {program}: {source}")]
    NotRun {
        /// The program that was to run.
        program: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The key command exceeded its time-out and was killed.
    #[error("the key command {program} took more than {seconds} s, and was killed")]
    TimedOut {
        /// The program that was killed.
        program: String,
        /// Its time-out in seconds.
        seconds: u64,
    },
    /// The key command failed.
    #[error("the key command {program} failed ({how}): {why}")]
    Failed {
        /// The program that failed.
        program: String,
        /// Its exit code, or that a signal ended it.
        how: String,
        /// The end of its standard error.
        why: String,
    },
    /// The file or the output contains no key.
    #[error("{origin} has no key")]
    NoKey {
        /// The file or command that was read.
        origin: String,
    },
    /// A line is not a valid key.
    #[error("{origin}, line {line}: a key is 32 bytes, in base 64 or as 64 hexadecimal digits")]
    NotAKey {
        /// The file or command that was read.
        origin: String,
        /// The number of the line, counted from 1.
        line: usize,
    },
    /// Two lines have the same key.
    #[error("{origin} has the key {id} twice")]
    Twice {
        /// The file or command that was read.
        origin: String,
        /// The id of the key.
        id: KeyId,
    },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    NoRandomness,
}

/// Why a secret cannot be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SealError {
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    NoRandomness,
    /// The secret is larger than the cipher can encrypt.
    #[error("the secret is too large to be sealed")]
    TooLarge,
}

/// Why a sealed secret cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The keyring does not have the key.
    #[error("the key {0} is not in the keyring")]
    UnknownKey(KeyId),
    /// Authentication failed: the secret was sealed with another key or for another record, or was changed.
    #[error("it was sealed for another record, or was changed")]
    NotAuthentic,
    /// The text is not a sealed secret in a known format.
    #[error("it is no sealed secret that this release can read")]
    Unreadable,
}
