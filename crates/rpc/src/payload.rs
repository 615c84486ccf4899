//! Payloads of the messages between control and cells: a version, and the bytes of a message in it.

use placewright_link::LinkError;
use placewright_records::Form;
use placewright_records::message::{self, Part, Versions};
use tonic::Status;

use crate::channel::BATCH_BYTES;
use crate::limits::{FieldPath, LIST_MAX, LimitExceeded, Validate};
use crate::proto::cell::Payload;
use crate::versions::check_version;

/// Encodes a value as a payload.
pub(crate) fn pack<T: Form>(version: u32, value: &T) -> Result<Payload, Status> {
    let body = message::encode(version, value).ok_or_else(|| cannot_write(version))?;
    let body = body.into();
    Ok(Payload { version, body })
}

/// Encodes a value for a call; `peer` names the server in the error.
pub(crate) fn pack_for<T: Form>(peer: &str, version: u32, value: &T) -> Result<Payload, LinkError> {
    pack(version, value).map_err(|status| crate::error::link_error(peer, &status))
}

/// Encodes a list as payloads of about the size of a batch, each with the number of its items.
pub(crate) fn pack_parts<T: Form>(
    version: u32,
    list: &[T],
) -> Result<impl Iterator<Item = (usize, Payload)> + use<T>, Status> {
    let parts = message::encode_parts(version, list, BATCH_BYTES);
    let parts = parts.ok_or_else(|| cannot_write(version))?;
    let payload = move |Part { count, bytes }| {
        let body = bytes.into();
        (count, Payload { version, body })
    };
    Ok(parts.into_iter().map(payload))
}

/// The error for a version that cannot be written. It never happens with a version that was agreed on.
fn cannot_write(version: u32) -> Status {
    Status::internal(format!("version {version} cannot be written"))
}

/// Decodes a payload and checks it against the limits. `what` names the payload in errors.
pub(crate) fn unpack<T: Form + Validate>(
    versions: Versions,
    what: &'static str,
    payload: &Payload,
) -> Result<T, Status> {
    check_before_decoding::<T>(versions, what, payload)?;
    let decoded = message::decode(payload.version, &payload.body);
    let decoded: T = decoded.map_err(|error| unreadable(what, error))?;
    decoded.check(FieldPath::message(what))?;
    Ok(decoded)
}

/// Decodes a list without the items that exceed the limits or that only a later release knows. That is
/// for lists whose items do not depend on each other.
pub(crate) fn unpack_valid_items<T: Form + Validate>(
    versions: Versions,
    what: &'static str,
    payload: &Payload,
) -> Result<Vec<T>, Status> {
    check_before_decoding::<Vec<T>>(versions, what, payload)?;
    let decoded = message::decode_known(payload.version, &payload.body);
    let (mut list, unknown_count): (Vec<T>, usize) =
        decoded.map_err(|error| unreadable(what, error))?;
    if unknown_count > 0 {
        tracing::warn!(
            unknown = unknown_count,
            what,
            "a peer sent items of kinds that this release does not know; they are ignored"
        );
    }
    let mut first_exceeded = None;
    let count_before = list.len();
    list.retain(|item| match item.check(FieldPath::message(what)) {
        Ok(()) => true,
        Err(exceeded) => {
            first_exceeded.get_or_insert(exceeded);
            false
        }
    });
    if let Some(LimitExceeded(why)) = first_exceeded {
        let count = count_before - list.len();
        tracing::error!(
            why,
            count,
            "items that a peer sent are ignored: their values are beyond the limits"
        );
    }
    Ok(list)
}

/// Checks the version of a payload and, if it is a list, the length of the list. That is done before
/// decoding, because an item of one byte in the payload may take a hundred bytes in memory.
fn check_before_decoding<T: Validate>(
    versions: Versions,
    what: &'static str,
    payload: &Payload,
) -> Result<(), Status> {
    check_version(versions, payload.version)?;
    if T::IS_LIST
        && let Some(count) = message::claimed_count(&payload.body)
    {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        FieldPath::message(what).check_count(count, LIST_MAX)?;
    }
    Ok(())
}

fn unreadable(what: &'static str, error: placewright_records::FormError) -> Status {
    Status::invalid_argument(format!("{what}: cannot be read: {error}"))
}

/// Decodes a server's response; `peer` names the server in the error.
pub(crate) fn unpack_from<T: Form + Validate>(
    versions: Versions,
    peer: &str,
    what: &'static str,
    payload: &Payload,
) -> Result<T, LinkError> {
    unpack(versions, what, payload).map_err(|status| undecodable_response(peer, &status))
}

/// The error for a response of a server that cannot be decoded.
pub(crate) fn undecodable_response(peer: &str, status: &Status) -> LinkError {
    LinkError::Refused {
        peer: peer.to_owned(),
        why: status.message().to_owned(),
    }
}
