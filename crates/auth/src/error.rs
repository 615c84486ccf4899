//! Errors of authentication and of its setup.

use std::path::PathBuf;
use std::time::Duration;

/// Why a request has no identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The caller sent no credentials, or wrong ones: 401.
    #[error("the request needs authentication")]
    Unauthorized {
        /// The value of `WWW-Authenticate`; `None` with `noauth2` and `identity`, which send no such header.
        challenge: Option<String>,
    },
    /// The caller's claims exceed a limit: 431.
    #[error("{reason}")]
    TooLarge {
        /// The limit that is exceeded; may be shown to the caller.
        reason: String,
    },
    /// Too many credentials from the caller's address were wrong, or wait to be checked: 429.
    #[error("{reason}")]
    TooMany {
        /// The limit that is exceeded; may be shown to the caller.
        reason: String,
        /// The time after which a retry is useful.
        retry_after: Duration,
    },
    /// The credentials cannot be verified at present: 503.
    #[error("{reason}")]
    Unavailable {
        /// The cause; may be shown to the caller.
        reason: String,
        /// The time after which a retry is useful.
        retry_after: Duration,
    },
}

/// Why authentication could not be set up. The program should not start.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A required option of a strategy is missing.
    #[error("{strategy} needs the option {option}")]
    Missing {
        /// The name of the strategy in the configuration.
        strategy: &'static str,
        /// The name of the option within the strategy's section.
        option: &'static str,
    },
    /// An option has an invalid value.
    #[error("{option}: {reason}")]
    Invalid {
        /// The name of the option within the strategy's section.
        option: &'static str,
        /// What is wrong with the value.
        reason: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        source: std::io::Error,
    },
    /// The file with the authorities of Keystone's certificate is wrong.
    #[error("cafile: {0}")]
    Authorities(#[from] placewright_tls::FileError),
    /// A line of the password file is wrong.
    #[error("{path}, line {line}: {reason}")]
    Htpasswd {
        /// The path of the file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// What is wrong. Never includes the line itself.
        reason: String,
    },
    /// The HTTP client could not be created.
    #[error("cannot set up the connection to Keystone")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The system's random number generator failed.
    #[error("the system gives no random numbers")]
    Random,
}
