//! Refusals of callers without the necessary rights: each is logged, and goes to the audit log.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::SystemTime;

use placewright_audit_log::{Caller, Event, Outcome, Reason, RequestNotes};
use tonic::Status;

/// The most refusals that are logged in one second, so that refused callers cannot fill the disk.
const LINES_PER_SECOND_MAX: u32 = 20;

/// Refuses a call that its caller may not make.
pub(crate) fn refuse_call(remote: Option<SocketAddr>, why: &impl Display) -> Status {
    refuse_and_record(remote, None, why.to_string())
}

/// Refuses a call that the holder of a certificate with this name may not make.
pub(crate) fn refuse_call_of_holder(
    remote: SocketAddr,
    name: &impl Display,
    why: &impl Display,
) -> Status {
    refuse_and_record(Some(remote), Some(name.to_string()), why.to_string())
}

fn refuse_and_record(remote: Option<SocketAddr>, name: Option<String>, text: String) -> Status {
    log_refusal(remote, "a call was refused", &text);
    audit(remote, name, ("call", "PERMISSION_DENIED"), &text);
    Status::permission_denied(text)
}

/// Refuses a call whose caller is not authenticated, or not any more.
pub(crate) fn refuse_unauthenticated(remote: Option<SocketAddr>, why: &impl Display) -> Status {
    let text = why.to_string();
    log_refusal(remote, "a caller was refused", &text);
    audit(remote, None, ("authenticate", "UNAUTHENTICATED"), &text);
    Status::unauthenticated(text)
}

/// Records that a connection was refused in its handshake.
pub(crate) fn record_refused_handshake(remote: SocketAddr, why: &impl Display) {
    let text = why.to_string();
    log_refusal(Some(remote), "a connection was refused", &text);
    audit(Some(remote), None, ("connect", "UNAUTHENTICATED"), &text);
}

/// Writes a refusal to the audit log of the process, if it has one.
fn audit(
    remote: Option<SocketAddr>,
    name: Option<String>,
    (method, code): (&str, &str),
    text: &str,
) {
    let Some(log) = placewright_audit_log::process_log() else {
        return;
    };
    log.offer(Event {
        at: SystemTime::now(),
        service: "roles",
        method: method.to_owned(),
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
        noted: RequestNotes::default(),
    });
}

/// Logs a refusal, unless too many were logged in this second.
fn log_refusal(remote: Option<SocketAddr>, what: &'static str, why: &str) {
    static LAST_SECOND: AtomicI64 = AtomicI64::new(0);
    // Counts all refusals of that second, also those that were not logged.
    static REFUSALS_IN_SECOND: AtomicU32 = AtomicU32::new(0);
    let now = placewright_pki::now();
    let last_second = LAST_SECOND.swap(now, Ordering::Relaxed);
    let refusals_before = if last_second == now {
        REFUSALS_IN_SECOND.fetch_add(1, Ordering::Relaxed)
    } else {
        // This refusal is the first one of its second.
        let left_out = REFUSALS_IN_SECOND
            .swap(1, Ordering::Relaxed)
            .saturating_sub(LINES_PER_SECOND_MAX);
        if left_out > 0 {
            tracing::warn!(left_out, "further refusals were not logged");
        }
        0
    };
    if refusals_before < LINES_PER_SECOND_MAX {
        tracing::warn!(remote = remote.map(tracing::field::display), why, "{what}");
    }
}
