//! Errors of certificates.

use std::io;
use std::path::Path;

use placewright_identity::NameError;
use thiserror::Error;

/// Why a certificate cannot be made, read or used.
#[derive(Debug, Error)]
pub enum PkiError {
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The path of the file.
        path: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The content of a file is not valid.
    #[error("{path}: {why}")]
    Content {
        /// The path of the file.
        path: String,
        /// What is wrong with the content, for people.
        why: String,
    },
    /// A certificate is not valid, or lacks a field that is needed.
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
    /// Names are not allowed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The request is refused. It changed nothing, except that a wrong secret of an invitation was counted.
    #[error("{0}")]
    Refused(String),
    /// A key, certificate or revocation list cannot be made or signed.
    #[error("it cannot be signed: {0}")]
    Signing(#[from] rcgen::Error),
    /// TLS refuses a certificate, key or list.
    #[error("TLS refuses it: {0}")]
    Tls(#[from] rustls::Error),
    /// The system has no random numbers.
    #[error("no random numbers: {0}")]
    Random(getrandom::Error),
}

impl PkiError {
    pub(crate) fn file(path: &Path, error: io::Error) -> Self {
        Self::File {
            path: path.display().to_string(),
            error,
        }
    }

    pub(crate) fn content(path: &Path, why: impl ToString) -> Self {
        Self::Content {
            path: path.display().to_string(),
            why: why.to_string(),
        }
    }
}
