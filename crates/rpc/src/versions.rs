//! The agreement of two roles on the version of what they say.
//!
//! A server says which versions it speaks, and answers each call in the version of the call. The
//! client takes the highest that both know, and asks again after a call that failed: the server may
//! have been replaced by one of another release.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use placewright_link::LinkError;
use placewright_records::message::Versions;
use tonic::Status;

use crate::proto::cell::Identity;

/// The version of the first releases, which said only that one.
const FIRST: u32 = 2;

/// What a server says to a version that it does not speak; releases of version 2 said it too.
const NOT_KNOWN: &str = "of the protocol is not known here";

/// The version that a client speaks with its server, once they have agreed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agreed(Arc<AtomicU32>);

impl Agreed {
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
        let of_peer = spoken_by(identity);
        let version = versions.common(of_peer).ok_or_else(|| LinkError::Refused {
            peer: peer.to_owned(),
            why: format!(
                "it speaks versions {} to {} of the protocol, this release {} to {}",
                of_peer.oldest, of_peer.newest, versions.oldest, versions.newest
            ),
        })?;
        self.0.store(version, Ordering::Relaxed);
        Ok(version)
    }

    /// Passes a call's result on. After a failure the agreement is made anew, and a refusal of the
    /// version alone is worth another try.
    pub(crate) fn checked<T>(&self, result: Result<T, LinkError>) -> Result<T, LinkError> {
        result.map_err(|error| {
            self.0.store(0, Ordering::Relaxed);
            match error {
                LinkError::Refused { peer, why } if why.contains(NOT_KNOWN) => {
                    LinkError::Unavailable { peer, why }
                }
                other => other,
            }
        })
    }
}

/// What a server says of itself.
pub(crate) fn identity(versions: Versions, cell: String) -> Identity {
    Identity {
        cell,
        // Releases of the first version accept no other here.
        version: versions.oldest,
        oldest: versions.oldest,
        newest: versions.newest,
    }
}

/// The identity of a server whose release cannot be asked for it.
pub(crate) fn first_identity() -> Identity {
    Identity {
        version: FIRST,
        ..Identity::default()
    }
}

fn spoken_by(identity: &Identity) -> Versions {
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

/// Refuses a version that this role does not speak.
pub(crate) fn check(versions: Versions, version: u32) -> Result<(), Status> {
    if versions.include(version) {
        return Ok(());
    }
    Err(Status::failed_precondition(format!(
        "version {version} {NOT_KNOWN}; this release speaks {} to {}",
        versions.oldest, versions.newest
    )))
}
