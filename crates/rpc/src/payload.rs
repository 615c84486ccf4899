//! What control and cells say, as bytes with a version.

use placewright_link::LinkError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::Status;

use crate::PAYLOAD_VERSION;
use crate::channel::BATCH_BYTES;
use crate::proto::cell::Payload;

/// Packs a value.
pub(crate) fn pack<T: Serialize>(value: &T) -> Result<Payload, Status> {
    let body = postcard::to_stdvec(value);
    let body = body.map_err(|error| Status::internal(format!("cannot be written: {error}")))?;
    Ok(Payload {
        version: PAYLOAD_VERSION,
        body: body.into(),
    })
}

/// Packs a value for a call.
pub(crate) fn pack_for<T: Serialize>(peer: &str, value: &T) -> Result<Payload, LinkError> {
    pack(value).map_err(|status| crate::error::link_error(peer, &status))
}

/// Unpacks what a client sent, or a server.
pub(crate) fn unpack<T: DeserializeOwned>(payload: &Payload) -> Result<T, Status> {
    if payload.version != PAYLOAD_VERSION {
        return Err(Status::failed_precondition(format!(
            "version {} of the protocol is not known here; this release speaks {PAYLOAD_VERSION}",
            payload.version
        )));
    }
    let unpacked = postcard::from_bytes(&payload.body);
    unpacked.map_err(|error| Status::invalid_argument(format!("cannot be read: {error}")))
}

/// Unpacks a server's answer.
pub(crate) fn unpack_from<T: DeserializeOwned>(
    peer: &str,
    payload: &Payload,
) -> Result<T, LinkError> {
    unpack(payload).map_err(|status| LinkError::Refused {
        peer: peer.to_owned(),
        why: status.message().to_owned(),
    })
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
