//! The errors of keys, of sealing, and of opening. None of them contains anything secret.

use std::path::PathBuf;

use thiserror::Error;

use crate::key_id::KeyId;

/// Why there is no keyring.
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
    /// The key file to make exists.
    #[error("{} exists; a key that is in use is not overwritten", .0.display())]
    Exists(PathBuf),
    /// The command that gives keys cannot be run.
    #[error("the key command {program}: {source}")]
    NotRun {
        /// The program that was to run.
        program: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The command that gives keys took too long, and was killed.
    #[error("the key command {program} took more than {seconds} s, and was killed")]
    TimedOut {
        /// The program that was killed.
        program: String,
        /// The time that it had, in seconds.
        seconds: u64,
    },
    /// The command that gives keys failed.
    #[error("the key command {program} failed ({how}): {why}")]
    Failed {
        /// The program that failed.
        program: String,
        /// Its exit code, or that a signal ended it.
        how: String,
        /// The end of its standard error.
        why: String,
    },
    /// There is no key in what was read.
    #[error("{origin} has no key")]
    NoKey {
        /// The file or command that was read.
        origin: String,
    },
    /// A line is no key.
    #[error("{origin}, line {line}: a key is 32 bytes, in base 64 or as 64 hexadecimal digits")]
    NotAKey {
        /// The file or command that was read.
        origin: String,
        /// The number of the line, from 1 on.
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
    /// The secret is larger than the cipher admits.
    #[error("the secret is too large to be sealed")]
    TooLarge,
}

/// Why a sealed secret cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The keyring does not have the key.
    #[error("the key {0} is not in the keyring")]
    UnknownKey(KeyId),
    /// It was sealed with another key or for another record, or it was changed.
    #[error("it was sealed for another record, or was changed")]
    NotAuthentic,
    /// The text is no sealed secret.
    #[error("it is no sealed secret that this release can read")]
    Unreadable,
}
