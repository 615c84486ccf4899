//! Errors of certificates, keys and authorities.

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem;
use thiserror::Error;

/// What is wrong with the content of a file or of a PEM text. [`FileError`] adds the name of the file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file cannot be read.
    #[error("cannot read it: {0}")]
    Unreadable(#[source] io::Error),
    /// The file is longer than this maximum in bytes.
    #[error("it has more than {0} bytes")]
    TooLong(u64),
    /// The file is not PEM.
    #[error("it is not PEM: {0}")]
    NotPem(#[source] pem::Error),
    /// The file or text has no certificate.
    #[error("it holds no certificates (PEM)")]
    NoCertificate,
    /// The file or text has no private key.
    #[error("it has no private key (BEGIN PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY)")]
    NoKey,
    /// The private key is encrypted, and a service cannot prompt for its passphrase.
    #[error(
        "its private key is encrypted: store it without a passphrase, readable for its owner only"
    )]
    EncryptedKey,
    /// A certificate is not valid X.509, or has extensions that are not supported.
    #[error("certificate {number} in it is not valid: {reason}")]
    BadCertificate {
        /// The number of the certificate in its file, counted from 1.
        number: usize,
        /// What is wrong with the certificate, for people.
        reason: String,
    },
    /// A revocation list is not valid.
    #[error("a revocation list in it is not valid: {0}")]
    BadRevocations(String),
    /// The private key has a form or an algorithm that is not supported.
    #[error("its private key cannot be used: {0}")]
    BadKey(#[source] rustls::Error),
    /// The private key is not the one that the certificate certifies.
    #[error("it is not the key of the certificate")]
    KeyMismatch,
    /// The certificate that would replace the present one expired at this time.
    #[error("its certificate expired at {0}")]
    Expired(String),
    /// rustls refuses the settings.
    #[error("TLS cannot be set up: {0}")]
    Refused(#[source] rustls::Error),
}

/// The error of a file.
#[derive(Debug, Error)]
#[error("{}: {error}", path.display())]
pub struct FileError {
    /// The file as the configuration names it.
    pub path: PathBuf,
    /// What is wrong with the file.
    #[source]
    pub error: TlsError,
}

impl FileError {
    /// The error of a file.
    pub fn new(path: &Path, error: TlsError) -> Self {
        Self {
            path: path.to_owned(),
            error,
        }
    }
}
