//! Refusals for want of rights: one place that tells of each.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::SystemTime;

use placewright_audit_log::{Caller, Event, Noted, Outcome, Reason};
use tonic::Status;

/// The most lines of the log in one second. Whoever is refused must not fill the disk.
const LINES_A_SECOND: u32 = 20;

/// A call that was refused because of who made it.
pub(crate) fn call(remote: Option<SocketAddr>, why: &impl Display) -> Status {
    refused_call(remote, None, why.to_string())
}

/// A call that was refused because of who made it: the holder of a certificate with this name.
pub(crate) fn call_of(remote: SocketAddr, name: &impl Display, why: &impl Display) -> Status {
    refused_call(Some(remote), Some(name.to_string()), why.to_string())
}

fn refused_call(remote: Option<SocketAddr>, name: Option<String>, text: String) -> Status {
    note(remote, "a call was refused", &text);
    audit(remote, name, ("call", "PERMISSION_DENIED"), &text);
    Status::permission_denied(text)
}

/// A call that was refused because its caller did not say who it is, or not any more.
pub(crate) fn unknown_caller(remote: Option<SocketAddr>, why: &impl Display) -> Status {
    let text = why.to_string();
    note(remote, "a caller was refused", &text);
    audit(remote, None, ("authenticate", "UNAUTHENTICATED"), &text);
    Status::unauthenticated(text)
}

/// A connection that was refused in its handshake.
pub(crate) fn handshake(remote: SocketAddr, why: &impl Display) {
    let text = why.to_string();
    note(Some(remote), "a connection was refused", &text);
    audit(Some(remote), None, ("connect", "UNAUTHENTICATED"), &text);
}

/// Tells the audit log of the process, which has a line for each refusal.
fn audit(remote: Option<SocketAddr>, name: Option<String>, (what, code): (&str, &str), text: &str) {
    let Some(log) = placewright_audit_log::for_process() else {
        return;
    };
    log.offer(Event {
        at: SystemTime::now(),
        service: "roles",
        method: what.to_owned(),
        route: None,
        path: String::new(),
        request_id: None,
        global_request_id: None,
        caller: Caller {
            certificate: name,
            address: remote,
            ..Caller::default()
        },
        outcome: Outcome::Failure,
        reason: Reason {
            kind: "gRPC",
            code: Some(code.to_owned()),
            text: Some(text.to_owned()),
        },
        location: None,
        noted: Noted::default(),
    });
}

fn note(remote: Option<SocketAddr>, what: &'static str, why: &str) {
    static SECOND: AtomicI64 = AtomicI64::new(0);
    static LINES: AtomicU32 = AtomicU32::new(0);
    let now = placewright_pki::now();
    let before = SECOND.swap(now, Ordering::Relaxed);
    let lines = if before == now {
        LINES.fetch_add(1, Ordering::Relaxed)
    } else {
        let left_out = LINES
            .swap(1, Ordering::Relaxed)
            .saturating_sub(LINES_A_SECOND);
        if left_out > 0 {
            tracing::warn!(left_out, "further refusals were not logged");
        }
        0
    };
    if lines < LINES_A_SECOND {
        tracing::warn!(remote = remote.map(tracing::field::display), why, "{what}");
    }
}
