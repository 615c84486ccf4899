//! Encoding of the messages between control and cells: postcard bytes with a version.

use placewright_link::LinkError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::Status;

use crate::PAYLOAD_VERSION;
use crate::bounds::{Absurd, At, Bounded, LIST_MAX};
use crate::channel::BATCH_BYTES;
use crate::proto::cell::Payload;

/// Encodes a value as a payload of the present version.
pub(crate) fn pack<T: Serialize>(value: &T) -> Result<Payload, Status> {
    let body = postcard::to_stdvec(value);
    let body = body.map_err(|error| Status::internal(format!("cannot be written: {error}")))?;
    Ok(Payload {
        version: PAYLOAD_VERSION,
        body: body.into(),
    })
}

/// Encodes a value for a call; `peer` names the server in the error.
pub(crate) fn pack_for<T: Serialize>(peer: &str, value: &T) -> Result<Payload, LinkError> {
    pack(value).map_err(|status| crate::error::link_error(peer, &status))
}

/// Decodes a payload and checks it against the limits. `what` names it in errors.
pub(crate) fn unpack<T: DeserializeOwned + Bounded>(
    what: &'static str,
    payload: &Payload,
) -> Result<T, Status> {
    let unpacked: T = read(what, payload)?;
    unpacked.check(At::message(what))?;
    Ok(unpacked)
}

/// Decodes a list and drops the items that are beyond the limits, because the others do not depend
/// on them.
pub(crate) fn unpack_good<T: DeserializeOwned + Bounded>(
    what: &'static str,
    payload: &Payload,
) -> Result<Vec<T>, Status> {
    let mut list: Vec<T> = read(what, payload)?;
    let mut bad = None;
    let before = list.len();
    list.retain(|one| match one.check(At::message(what)) {
        Ok(()) => true,
        Err(absurd) => {
            bad.get_or_insert(absurd);
            false
        }
    });
    if let Some(Absurd(why)) = bad {
        let count = before - list.len();
        tracing::error!(
            why,
            count,
            "what a peer said is ignored: nobody can mean it"
        );
    }
    Ok(list)
}

fn read<T: DeserializeOwned + Bounded>(what: &'static str, payload: &Payload) -> Result<T, Status> {
    if payload.version != PAYLOAD_VERSION {
        return Err(Status::failed_precondition(format!(
            "version {} of the protocol is not known here; this release speaks {PAYLOAD_VERSION}",
            payload.version
        )));
    }
    // Checked before decoding: an item of one byte here may take a hundred bytes in memory.
    if T::IS_LIST
        && let Ok((count, _)) = postcard::take_from_bytes::<u64>(&payload.body)
    {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        At::message(what).count(count, LIST_MAX)?;
    }
    let unpacked = postcard::from_bytes(&payload.body);
    unpacked.map_err(|error| Status::invalid_argument(format!("{what}: cannot be read: {error}")))
}

/// Decodes a server's answer; `peer` names the server in the error.
pub(crate) fn unpack_from<T: DeserializeOwned + Bounded>(
    peer: &str,
    what: &'static str,
    payload: &Payload,
) -> Result<T, LinkError> {
    unpack(what, payload).map_err(|status| refused(peer, &status))
}

/// The error for an answer of a server that cannot be decoded.
pub(crate) fn refused(peer: &str, status: &Status) -> LinkError {
    LinkError::Refused {
        peer: peer.to_owned(),
        why: status.message().to_owned(),
    }
}

/// Splits a list so that no part is much larger than a batch should be.
pub(crate) fn parts<T: Serialize>(list: Vec<T>) -> Vec<Vec<T>> {
    let (mut parts, mut part, mut bytes) = (Vec::new(), Vec::new(), 0);
    for one in list {
        let size = postcard::experimental::serialized_size(&one).unwrap_or(BATCH_BYTES);
        if bytes > 0 && bytes + size > BATCH_BYTES {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += size.max(1);
        part.push(one);
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}
