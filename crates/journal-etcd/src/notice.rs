//! Conditions of a cluster that an operator should know of.

use std::fmt;

/// A condition found when a store was opened. No such condition prevents the use of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtcdNotice {
    /// A member runs a release with a known fault.
    OldRelease {
        /// The address at which the member was asked.
        endpoint: String,
        /// The release that the member reports.
        version: String,
    },
    /// A member did not answer.
    NoAnswer {
        /// The address at which the member was asked.
        endpoint: String,
        /// The error of the member, or of the connection to it.
        reason: String,
    },
    /// A member's database is near its quota, at which all writes stop.
    NearQuota {
        /// The address at which the member was asked.
        endpoint: String,
        /// The bytes in use.
        bytes: u64,
        /// The quota in bytes; etcd's default if the member does not report it.
        bytes_max: u64,
    },
    /// There is a user and a password, but the cluster has no authentication: everybody who reaches it can read
    /// and write the store.
    NoAuthentication,
}

impl EtcdNotice {
    /// Whether the operator should do something about the condition.
    pub fn is_warning(&self) -> bool {
        true
    }
}

impl fmt::Display for EtcdNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OldRelease { endpoint, version } => write!(
                f,
                "etcd at {endpoint} is release {version}, whose members may come to differ after a crash: use \
                 3.5.14 or newer"
            ),
            Self::NoAnswer { endpoint, reason } => {
                write!(f, "etcd at {endpoint} does not answer: {reason}")
            }
            Self::NearQuota {
                endpoint,
                bytes,
                bytes_max,
            } => write!(
                f,
                "the database of etcd at {endpoint} uses {bytes} bytes of {bytes_max}, at which writes stop: \
                 compact and defragment it, or raise --quota-backend-bytes"
            ),
            Self::NoAuthentication => f.write_str(
                "etcd has no authentication, although the store's address names a user: enable it with \
                 `etcdctl auth enable`",
            ),
        }
    }
}
