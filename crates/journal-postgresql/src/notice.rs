//! Conditions of servers that an operator should know of.

use std::fmt;

/// A condition found when a store was opened. No such condition prevents the use of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostgresqlNotice {
    /// A server did not answer.
    NoAnswer {
        /// The address of this server, with its port.
        host: String,
        /// The error of the connection, or of the server that refused it.
        reason: String,
    },
    /// The primary acknowledges writes that no standby has.
    Asynchronous {
        /// The address of the primary, with its port.
        host: String,
    },
    /// Writes wait for every named standby, often a single one. While one of them is down, nothing can be written.
    EveryStandby {
        /// The address of the primary, with its port.
        host: String,
        /// The setting as the primary has it.
        names: String,
    },
    /// The server does not write full pages to its log, so a page that was half written at a power failure cannot be
    /// restored.
    NoFullPageWrites {
        /// The address of this server, with its port.
        host: String,
    },
    /// The server has no data checksums, so damage of its disk is not noticed in the tables `head` and `snapshot`.
    /// Batches and chunks have checksums of their own.
    NoDataChecksums {
        /// The address of this server, with its port.
        host: String,
    },
}

impl PostgresqlNotice {
    /// Whether the operator should do something about the condition.
    pub fn is_warning(&self) -> bool {
        !matches!(self, Self::NoDataChecksums { .. })
    }
}

impl fmt::Display for PostgresqlNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnswer { host, reason } => {
                write!(f, "PostgreSQL at {host} does not answer: {reason}")
            }
            Self::Asynchronous { host } => write!(
                f,
                "PostgreSQL at {host} has no synchronous standby, and the store's address allows that: what is \
                 acknowledged is lost with its disk"
            ),
            Self::EveryStandby { host, names } => write!(
                f,
                "PostgreSQL at {host} waits for every standby in synchronous_standby_names = '{names}': without one \
                 of them nothing is written until another one is named; ANY 1 (…) with several needs only one"
            ),
            Self::NoFullPageWrites { host } => write!(
                f,
                "PostgreSQL at {host} runs with full_page_writes = off: after a power cut its pages may be damaged"
            ),
            Self::NoDataChecksums { host } => write!(
                f,
                "PostgreSQL at {host} has no data checksums: enable them with pg_checksums, so that damage of its \
                 disk is noticed"
            ),
        }
    }
}
