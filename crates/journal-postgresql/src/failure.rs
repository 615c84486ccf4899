//! Why a request failed, and whether the failure proves that the request did nothing.

use placewright_errors::{chain, sources};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

/// The cause of the failure of a request, which tells whether the request may have been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Nothing was done, because the request was not sent or was turned away. Another server, or a later attempt, may
    /// succeed.
    NotDone,
    /// Nothing is certain: the request may have been carried out, or may still be.
    Unknown,
    /// Nothing was done, because the disk is full.
    NoSpace,
    /// Nothing was done, because the user may not do it.
    Denied,
    /// Nothing was done, because the table is not there.
    NoTable,
    /// Nothing was done, because the server found damage.
    Damaged,
    /// Nothing was done, because the request cannot be carried out as it is.
    Refused,
}

/// The failure of a request.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    /// The error of the server or of the connection, with the server's address.
    pub(crate) reason: String,
}

impl Failure {
    pub(crate) fn new(cause: Cause, reason: impl Into<String>) -> Self {
        Self {
            cause,
            reason: reason.into(),
        }
    }

    /// The failure of a request to which no answer came in time.
    pub(crate) fn timed_out(address: &str) -> Self {
        let reason = format!(
            "{address} did not answer in time; it may be waiting for a synchronous standby"
        );
        Self::new(Cause::Unknown, reason)
    }

    /// The failure that an error of the library stands for.
    pub(crate) fn from_error(address: &str, error: &Error) -> Self {
        match error.as_db_error() {
            Some(error) => Self::new(
                cause_of(error.code()),
                format!("{address}: {}", text(error)),
            ),
            None => Self::new(Cause::Unknown, format!("{address}: {}", chain(error))),
        }
    }

    /// The failure of an attempt to begin a session. An error that comes neither from the server nor from the network
    /// is about the client's own configuration, such as a missing password.
    pub(crate) fn of_session_start(address: &str, error: &Error) -> Self {
        let is_of_network = error.is_closed()
            || sources(error).any(|source| source.downcast_ref::<std::io::Error>().is_some());
        let failure = Self::from_error(address, error);
        match error.as_db_error() {
            None if !is_of_network => Self::new(Cause::Refused, failure.reason),
            _ => failure,
        }
    }

    /// Whether the session, or its server, is of no use any more.
    pub(crate) fn ends_session(&self) -> bool {
        matches!(self.cause, Cause::NotDone | Cause::Unknown)
    }
}

/// The message of the server with the error's code. The details of the error are left out, because they may repeat the
/// values of the statement.
fn text(error: &DbError) -> String {
    format!("{} ({})", error.message(), error.code().code())
}

/// The cause of a failure, from an error of the server.
fn cause_of(code: &SqlState) -> Cause {
    // The server ends the session. It does so even while it waits for a standby, which is after the commit.
    if code.code().starts_with("57P") && *code != SqlState::CANNOT_CONNECT_NOW {
        return Cause::Unknown;
    }
    match code.code() {
        // The disk is full.
        "53100" => Cause::NoSpace,
        // Too many connections, no memory; the server is starting; a lock, a deadlock; the server is a standby; the
        // statement was cancelled.
        "53000" | "53200" | "53300" | "53400" | "57P03" | "55P03" | "40001" | "40P01" | "25006"
        | "55000" | "57014" => Cause::NotDone,
        "42501" => Cause::Denied,
        // No table, no schema.
        "42P01" | "3F000" => Cause::NoTable,
        "XX001" | "XX002" => Cause::Damaged,
        // Failures of the server itself, of its disk, and of the connection.
        code if ["08", "58", "XX"]
            .iter()
            .any(|class| code.starts_with(class)) =>
        {
            Cause::Unknown
        }
        _ => Cause::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_aborted_statement_proves_that_nothing_was_done() {
        for (code, cause) in [
            ("57P01", Cause::Unknown),
            ("57P02", Cause::Unknown),
            ("58030", Cause::Unknown),
            ("57P03", Cause::NotDone),
            ("25006", Cause::NotDone),
            ("55P03", Cause::NotDone),
            ("53100", Cause::NoSpace),
            ("42501", Cause::Denied),
            ("28P01", Cause::Refused),
            ("3D000", Cause::Refused),
            ("42P01", Cause::NoTable),
            ("XX001", Cause::Damaged),
        ] {
            assert_eq!(cause_of(&SqlState::from_code(code)), cause, "{code}");
        }
    }
}
