//! Payloads of the messages between control and cells: a version, and bytes in its form.

use placewright_link::LinkError;
use placewright_records::Form;
use placewright_records::message::{self, Part, Versions};
use tonic::Status;

use crate::bounds::{FieldPath, LIST_MAX, LimitExceeded, Validate};
use crate::channel::BATCH_BYTES;
use crate::proto::cell::Payload;
use crate::versions::check;

/// Encodes a value as a payload.
pub(crate) fn pack<T: Form>(version: u32, value: &T) -> Result<Payload, Status> {
    let body = message::encode(version, value).ok_or_else(|| no_such(version))?;
    let body = body.into();
    Ok(Payload { version, body })
}

/// Encodes a value for a call; `peer` names the server in the error.
pub(crate) fn pack_for<T: Form>(peer: &str, version: u32, value: &T) -> Result<Payload, LinkError> {
    pack(version, value).map_err(|status| crate::error::link_error(peer, &status))
}

/// Encodes a list as payloads, none of which is much larger than a batch should be. Each comes with
/// the number of its items.
pub(crate) fn pack_parts<T: Form>(
    version: u32,
    list: &[T],
) -> Result<impl Iterator<Item = (usize, Payload)> + use<T>, Status> {
    let parts = message::encode_parts(version, list, BATCH_BYTES);
    let parts = parts.ok_or_else(|| no_such(version))?;
    let payload = move |Part { count, bytes }| {
        let body = bytes.into();
        (count, Payload { version, body })
    };
    Ok(parts.into_iter().map(payload))
}

/// The error for a version that was agreed on and cannot be written, which never happens.
fn no_such(version: u32) -> Status {
    Status::internal(format!("version {version} cannot be written"))
}

/// Decodes a payload and checks it against the limits. `what` names it in errors.
pub(crate) fn unpack<T: Form + Validate>(
    versions: Versions,
    what: &'static str,
    payload: &Payload,
) -> Result<T, Status> {
    check_before::<T>(versions, what, payload)?;
    let unpacked = message::decode(payload.version, &payload.body);
    let unpacked: T = unpacked.map_err(|error| unreadable(what, error))?;
    unpacked.check(FieldPath::message(what))?;
    Ok(unpacked)
}

/// Decodes a list and drops the items that are beyond the limits or that only a later release
/// knows, because the others do not depend on them.
pub(crate) fn unpack_good<T: Form + Validate>(
    versions: Versions,
    what: &'static str,
    payload: &Payload,
) -> Result<Vec<T>, Status> {
    check_before::<Vec<T>>(versions, what, payload)?;
    let unpacked = message::decode_known(payload.version, &payload.body);
    let (mut list, unknown): (Vec<T>, usize) = unpacked.map_err(|error| unreadable(what, error))?;
    if unknown > 0 {
        tracing::warn!(
            unknown,
            what,
            "a peer said things that this release does not know"
        );
    }
    let mut bad = None;
    let before = list.len();
    list.retain(|one| match one.check(FieldPath::message(what)) {
        Ok(()) => true,
        Err(absurd) => {
            bad.get_or_insert(absurd);
            false
        }
    });
    if let Some(LimitExceeded(why)) = bad {
        let count = before - list.len();
        tracing::error!(
            why,
            count,
            "what a peer said is ignored: nobody can mean it"
        );
    }
    Ok(list)
}

/// Checks the version and the length of a list. That is done before decoding: an item of one byte
/// here may take a hundred bytes in memory.
fn check_before<T: Validate>(
    versions: Versions,
    what: &'static str,
    payload: &Payload,
) -> Result<(), Status> {
    check(versions, payload.version)?;
    if T::IS_LIST
        && let Some(count) = message::claimed_count(&payload.body)
    {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        FieldPath::message(what).count(count, LIST_MAX)?;
    }
    Ok(())
}

fn unreadable(what: &'static str, error: placewright_records::FormError) -> Status {
    Status::invalid_argument(format!("{what}: cannot be read: {error}"))
}

/// Decodes a server's answer; `peer` names the server in the error.
pub(crate) fn unpack_from<T: Form + Validate>(
    versions: Versions,
    peer: &str,
    what: &'static str,
    payload: &Payload,
) -> Result<T, LinkError> {
    unpack(versions, what, payload).map_err(|status| refused(peer, &status))
}

/// The error for an answer of a server that cannot be decoded.
pub(crate) fn refused(peer: &str, status: &Status) -> LinkError {
    LinkError::Refused {
        peer: peer.to_owned(),
        why: status.message().to_owned(),
    }
}
