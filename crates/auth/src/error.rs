//! Why a caller is not known, and why authentication could not be set up.

use std::path::PathBuf;
use std::time::Duration;

/// Why a request has no identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The caller gave no credentials, or wrong ones: 401.
    #[error("the request needs authentication")]
    Unauthorized {
        /// The value of `WWW-Authenticate`; `noauth2` sends none, like the reference.
        challenge: Option<String>,
    },
    /// What the caller says of itself is larger than anything that can be meant: 431.
    #[error("{reason}")]
    TooLarge {
        /// Which limit it is about, fit for the caller's eyes.
        reason: String,
    },
    /// Too many credentials of the caller's address were wrong, or wait to be checked: 429.
    #[error("{reason}")]
    TooMany {
        /// Which limit it is about, fit for the caller's eyes.
        reason: String,
        /// When it is worth to ask again.
        retry_after: Duration,
    },
    /// Whether the credentials are right cannot be found out now: 503.
    #[error("{reason}")]
    Unavailable {
        /// What is the matter, fit for the caller's eyes.
        reason: String,
        /// When it is worth to ask again.
        retry_after: Duration,
    },
}

/// Why authentication could not be set up. The program should not start.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A strategy lacks an option that it cannot do without.
    #[error("{strategy} needs the option {option}")]
    Missing {
        /// The strategy's name.
        strategy: &'static str,
        /// The option's name below the strategy's section.
        option: &'static str,
    },
    /// An option has a value that cannot work.
    #[error("{option}: {reason}")]
    Invalid {
        /// The option's name below the strategy's section.
        option: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A line of the password file is wrong.
    #[error("{path}, line {line}: {reason}")]
    Htpasswd {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// What is wrong. Never shows the line itself.
        reason: String,
    },
    /// The HTTP client could not be made.
    #[error("cannot set up the connection to Keystone")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The system gave no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}
