//! What an instance is to be, and where it may be put.

use placewright_placement::group::Rule;
use placewright_placement::{AllocationRequest, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::HostId;

/// What an instance is to be. Conductors look at what they decide by; the rest is carried along.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// Its project.
    pub project: String,
    /// Its user.
    pub user: String,
    /// The server group that it is a member of.
    pub group: Option<Uuid>,
    /// Hard rules towards other instances.
    pub rules: Vec<HardRule>,
    /// Everything else (flavor, image, networks, hints, …), as whoever made it wrote it.
    pub body: String,
    /// When it was asked for.
    pub created_at: Timestamp,
}

impl Spec {
    /// The first bytes of a hash of it, by which a cell and control know that they mean the same.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let bytes =
            postcard::to_stdvec(self).expect("plain data written to memory always has an encoding");
        let mut first = [0; 8];
        first.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..8]);
        u64::from_le_bytes(first)
    }
}

/// A hard rule of one instance towards others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardRule {
    /// The rule.
    pub rule: Rule,
    /// The others; none for the members of the instance's server group.
    pub others: Vec<Uuid>,
}

/// One host that could serve a request, with what would be claimed there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The host.
    pub host: HostId,
    /// The zone that an instance is in there, if any.
    pub zone: Option<String>,
    /// What would be claimed, also from parts of the host and from sharing providers.
    pub amounts: Vec<Amounts>,
}

/// Amounts of one provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amounts {
    /// The provider.
    pub provider: Uuid,
    /// Amounts by resource class, each at least 1.
    pub resources: Vec<(String, i64)>,
}

impl Amounts {
    /// The amounts in the words of placement.
    #[must_use]
    pub fn request(&self) -> AllocationRequest {
        AllocationRequest {
            provider: self.provider,
            resources: self.resources.clone(),
        }
    }
}
