//! The agreement of a client and its server on the version of their messages.
//!
//! A server returns the range of versions that it supports, and answers each call in the version of the
//! call. The client takes the highest common version. After a call that failed it agrees anew, because
//! the server may have been replaced by one of another release.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use placewright_link::LinkError;
use placewright_records::message::Versions;
use tonic::Status;

use crate::proto::cell::Identity;

/// The only version of the first releases; no release had version 1. Their cells say it without a range, and their
/// placement has no call that says it.
const FIRST_VERSION: u32 = 2;

/// The part of a refusal by which a client recognises that its version is not supported. Releases of
/// version 2 send this text too.
const NOT_SUPPORTED: &str = "of the protocol is not known here";

/// The version that a client uses with its server; 0 until they have agreed. No other data depends on the number, so
/// its accesses need no order.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgreedVersion(Arc<AtomicU32>);

impl AgreedVersion {
    /// The agreed version; none until client and server have agreed.
    pub(crate) fn version(&self) -> Option<u32> {
        let version = self.0.load(Ordering::Relaxed);
        (version != 0).then_some(version)
    }

    /// Agrees on a version with a server that has identified itself.
    pub(crate) fn agree(
        &self,
        versions: Versions,
        peer: &str,
        identity: &Identity,
    ) -> Result<u32, LinkError> {
        let peer_versions = supported_versions(identity);
        let version = versions
            .common(peer_versions)
            .ok_or_else(|| LinkError::Refused {
                peer: peer.to_owned(),
                why: format!(
                    "it speaks versions {} to {} of the protocol, this release {} to {}",
                    peer_versions.oldest, peer_versions.newest, versions.oldest, versions.newest
                ),
            })?;
        self.0.store(version, Ordering::Relaxed);
        Ok(version)
    }

    /// Returns the result of a call. If the result is an error, the agreed version is forgotten, so that the next call
    /// agrees anew. A refusal of the version becomes an error after which the call may be retried.
    pub(crate) fn reset_on_error<T>(&self, result: Result<T, LinkError>) -> Result<T, LinkError> {
        result.map_err(|error| {
            self.0.store(0, Ordering::Relaxed);
            match error {
                LinkError::Refused { peer, why } if why.contains(NOT_SUPPORTED) => {
                    LinkError::Unavailable { peer, why }
                }
                other => other,
            }
        })
    }
}

/// The identity that a server returns, with the versions that it supports.
pub(crate) fn identity(versions: Versions, cell: String) -> Identity {
    Identity {
        cell,
        // Callers of the first releases look only at this field, and go on only if it is their own version.
        version: versions.oldest,
        oldest: versions.oldest,
        newest: versions.newest,
    }
}

/// The identity of a server whose release does not have the call that returns it.
pub(crate) fn first_identity() -> Identity {
    Identity {
        version: FIRST_VERSION,
        ..Identity::default()
    }
}

/// The versions that a server supports.
fn supported_versions(identity: &Identity) -> Versions {
    if identity.newest == 0 {
        return Versions {
            oldest: identity.version,
            newest: identity.version,
        };
    }
    Versions {
        oldest: identity.oldest,
        newest: identity.newest,
    }
}

/// Checks that this role supports the version of a call.
pub(crate) fn check_version(versions: Versions, version: u32) -> Result<(), Status> {
    if versions.include(version) {
        return Ok(());
    }
    Err(Status::failed_precondition(format!(
        "version {version} {NOT_SUPPORTED}; this release speaks {} to {}",
        versions.oldest, versions.newest
    )))
}
