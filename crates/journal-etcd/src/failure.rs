//! Why a request failed, and whether the failure proves that the request did nothing.

use placewright_errors::{chain, sources};
use tonic::{Code, ConnectError, Status};

/// The cause of the failure of a request, which tells whether the request may have been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Nothing was done, because the request was not sent or was turned away at once. Another member, or a later
    /// attempt, may succeed.
    NotDone,
    /// Nothing is certain: the request may have been carried out, or may still be.
    Unknown,
    /// Nothing was done, because the database is at its quota.
    NoSpace,
    /// Nothing was done, because the user does not have the right to do it.
    Denied,
    /// Nothing was done, because the token of the authentication is not valid any more.
    BadToken,
    /// Nothing was done, because the request cannot be carried out as it is.
    Refused,
    /// Nothing was done to the store, because the member belongs to another cluster.
    OtherCluster,
}

/// The failure of a request.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    /// The error of the server or of the connection, with the member's address.
    pub(crate) reason: String,
    /// Whether the connection may be broken, so that the next request to this member has to open a new one.
    pub(crate) is_connection_doubtful: bool,
}

impl Failure {
    /// The failure of a request to which no answer came in time.
    pub(crate) fn timed_out(endpoint: &str) -> Self {
        Self {
            cause: Cause::Unknown,
            reason: format!("{endpoint} did not answer in time"),
            is_connection_doubtful: true,
        }
    }

    /// The failure of a request that a member of another cluster than before answered.
    pub(crate) fn other_cluster(endpoint: &str) -> Self {
        Self {
            cause: Cause::OtherCluster,
            reason: format!(
                "{endpoint} belongs to another cluster than the members before it, or the cluster was \
                 restored from a backup"
            ),
            is_connection_doubtful: false,
        }
    }

    /// A failure that proves that nothing was done.
    pub(crate) fn refused(reason: String) -> Self {
        Self {
            cause: Cause::Refused,
            reason,
            is_connection_doubtful: false,
        }
    }

    /// The failure that a status stands for.
    pub(crate) fn from_status(endpoint: &str, status: &Status) -> Self {
        let source = std::error::Error::source(status);
        let said = match source {
            Some(source) => chain(source),
            None => status.message().to_owned(),
        };
        let cause = match source {
            Some(_) if was_never_sent(status) => Cause::NotDone,
            _ => cause_of(status),
        };
        Self {
            cause,
            reason: format!("{endpoint}: {said}"),
            is_connection_doubtful: source.is_some(),
        }
    }
}

/// Whether a request failed before any byte of it was sent: no connection could be made, or the connection had
/// been lost unnoticed.
fn was_never_sent(status: &Status) -> bool {
    sources(status).any(|error| {
        let is_canceled = error
            .downcast_ref::<hyper::Error>()
            .is_some_and(hyper::Error::is_canceled);
        is_canceled || error.is::<ConnectError>()
    })
}

/// The cause of a failure, from the status that the server sent. The texts are those of etcd's package `rpctypes`.
fn cause_of(status: &Status) -> Cause {
    let says = |text: &str| status.message().contains(text);
    match status.code() {
        Code::ResourceExhausted if says("database space exceeded") => Cause::NoSpace,
        // The member is too far behind to accept requests.
        Code::ResourceExhausted if says("too many requests") => Cause::NotDone,
        Code::PermissionDenied => Cause::Denied,
        Code::Unauthenticated => Cause::BadToken,
        Code::InvalidArgument if says("auth store is old") || says("invalid auth token") => {
            Cause::BadToken
        }
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::ResourceExhausted
        | Code::DataLoss => Cause::Refused,
        // One of these statuses is "request timed out", after which etcd may still carry the request out.
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Unknown
        | Code::Aborted
        | Code::Internal
        | Code::Ok => Cause::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_etcd_says_proves_that_nothing_was_done() {
        for (status, cause) in [
            (
                Status::unavailable("etcdserver: request timed out"),
                Cause::Unknown,
            ),
            (
                Status::unavailable("etcdserver: leader changed"),
                Cause::Unknown,
            ),
            (Status::cancelled("context canceled"), Cause::Unknown),
            (Status::unknown("raft proposal dropped"), Cause::Unknown),
            (
                Status::resource_exhausted("etcdserver: mvcc: database space exceeded"),
                Cause::NoSpace,
            ),
            (
                Status::resource_exhausted("etcdserver: too many requests"),
                Cause::NotDone,
            ),
            (
                Status::invalid_argument("etcdserver: request is too large"),
                Cause::Refused,
            ),
            (
                Status::invalid_argument("etcdserver: revision of auth store is old"),
                Cause::BadToken,
            ),
            (
                Status::unauthenticated("etcdserver: invalid auth token"),
                Cause::BadToken,
            ),
            (
                Status::permission_denied("etcdserver: permission denied"),
                Cause::Denied,
            ),
        ] {
            assert_eq!(cause_of(&status), cause, "{status}");
            let failure = Failure::from_status("a:1", &status);
            assert_eq!(failure.cause, cause);
            assert!(failure.reason.starts_with("a:1: "));
        }
    }
}
