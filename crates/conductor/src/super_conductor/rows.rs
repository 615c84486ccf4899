//! The rows of control's tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_placement::Timestamp;
use placewright_placement::group::Rule;
use placewright_types::request::TopologyRule;
use uuid::Uuid;

use crate::claim_request::{ClaimResponse, MoveSide};
use crate::decision::Decision;
use crate::fault::{Attempt, Fault};
use crate::ids::{CellId, HostId, InstanceId, MigrationId};
use crate::message::{MoveDecision, MoveKind};
use crate::quota::Usage;
use crate::spec::{Amounts, Candidate, Spec};

/// A cell, as operators configured it, and whether it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The name that operators see.
    pub name: String,
    /// Whether the cell accepts no new instances.
    pub disabled: bool,
    /// Since when the cell does not answer; `None` while it does.
    pub down_since: Option<Timestamp>,
}

impl Cell {
    /// Whether new instances may be placed in the cell.
    #[must_use]
    pub fn accepts_instances(&self) -> bool {
        !self.disabled && self.down_since.is_none()
    }
}

/// The cell of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostMapping {
    /// The UUID of the host's cell.
    pub cell: CellId,
    /// The name of the host, unique over all cells.
    pub name: String,
}

/// An instance that waits for a host, or that the cell of its host has not accepted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildRequest {
    /// The UUID of the API request, whose instances are scheduled together. After the instance was taken from a cell it
    /// is the instance's own UUID, because the instance is then scheduled alone.
    pub reservation: Uuid,
    /// How far the build request has come.
    pub stage: BuildStage,
}

/// The stage of a build request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildStage {
    /// The build request waits for a host.
    Waiting,
    /// A host is claimed; the cell has not accepted the instance yet.
    Placed {
        /// The host that is claimed, with the allocations.
        selection: Arc<Candidate>,
        /// Further candidates in the same cell.
        alternates: Arc<[Candidate]>,
    },
}

/// The row of an instance that control keeps during the instance's whole life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The cell of the instance; `None` until a host is claimed, and cell0 if none is found.
    pub cell: Option<CellId>,
    /// The project that owns the instance.
    pub project: String,
    /// The user that owns the instance.
    pub user: String,
    /// The time of the request.
    pub created_at: Timestamp,
    /// Whether the instance is being deleted; lists then omit it.
    pub is_deleting: bool,
    /// The number of the last claim or claim request; see [`crate::claim_request`].
    pub claim_number: u64,
    /// The response to that claim request; `None` if control advanced the number itself.
    pub claim_response: Option<ClaimResponse>,
    /// The number of moves so far, which is the number of the latest move.
    pub move_number: u32,
    /// The moves of the instance, the latest last.
    pub migrations: Vec<MigrationId>,
    /// The decisions that say why the instance was placed where it was: that of its build, then those of its latest
    /// moves. None for an instance that is being deleted, or that an older release placed.
    pub decisions: Vec<Decision>,
    /// Whether the instance may be built in another cell, or was taken from one.
    pub reschedule: Reschedule,
}

/// Whether an instance may be built in another cell when its build failed on every host that its cell may try.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reschedule {
    /// The instance stays in its cell.
    #[default]
    Never,
    /// The instance may be taken from its cell, once. Its first build is not over.
    Allowed,
    /// The instance was taken from a cell.
    Done(Box<LeftCell>),
}

/// A cell that an instance was taken from, because its build failed on every host that the cell might try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftCell {
    /// The cell. The instance is not placed there again.
    pub cell: CellId,
    /// The time at which the instance was taken from the cell.
    pub at: Timestamp,
    /// What was tried in the cell: the latest attempts, each with its reason cut to a length.
    pub attempts: Vec<Attempt>,
    /// The lowest number that a claim or a claim request can have after the instance was taken from the cell. Lower
    /// numbers belong to the cell that the instance has left.
    pub first_number: u64,
}

impl Mapping {
    /// The cell that the instance was taken from, if it was.
    #[must_use]
    pub fn left_cell(&self) -> Option<&LeftCell> {
        match &self.reschedule {
            Reschedule::Done(left) => Some(left),
            Reschedule::Never | Reschedule::Allowed => None,
        }
    }

    /// Since when the instance waits for its build: since it was requested, or taken from a cell.
    #[must_use]
    pub fn waits_since(&self) -> Timestamp {
        self.left_cell().map_or(self.created_at, |left| left.at)
    }
}

/// An instance of cell0, for which no host was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buried {
    /// Why no host was found, with the explanation.
    pub fault: Fault,
}

/// An instance that its cell still has to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The time of the delete request.
    pub at: Timestamp,
}

/// A move that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The instance that is moved.
    pub instance: InstanceId,
    /// The kind of the move.
    pub kind: MoveKind,
    /// How far the move has come.
    pub stage: MoveStage,
    /// The new specification, if the move changes it.
    pub spec: Option<Spec>,
    /// The number of the move within the instance.
    pub move_number: u32,
    /// The allocations of the instance before the move, which the migration holds meanwhile.
    pub held: Vec<Amounts>,
    /// The user's decision, once it is made.
    pub decision: Option<MoveDecision>,
    /// The additional usage for which the instance counts in quotas while the move is under way.
    pub added_usage: Usage,
    /// The UUID of the API request with the decision, if it is known.
    pub decision_request: Option<Uuid>,
}

impl Move {
    /// The project of the instance, and [`Self::added_usage`]; `None` if no usage is added.
    #[must_use]
    pub fn project_and_added_usage(&self) -> Option<(&str, &Usage)> {
        let spec = self.spec.as_ref()?;
        // Usage that adds nothing is the default, without known amounts.
        let adds_usage = self.added_usage.is_known();
        adds_usage.then_some((spec.project.as_str(), &self.added_usage))
    }
}

/// The stage of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveStage {
    /// The cell has to reserve the instance.
    Requested,
    /// The cell has reserved the instance; no target is claimed yet.
    Reserved,
    /// A target is claimed; the cell has to carry out the move.
    Placed {
        /// The host that is claimed, with the allocations.
        selection: Arc<Candidate>,
        /// Further candidates in the same cell.
        alternates: Arc<[Candidate]>,
        /// The number of the claim; see [`crate::claim_request`].
        claim_number: u64,
    },
    /// The cell is carrying out the move.
    InCell,
    /// No target was found; the cell has still to cancel its reservation.
    Cancelling,
}

/// The record of a move, which exists as long as its instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The instance that is or was moved.
    pub instance: InstanceId,
    /// The kind of the move.
    pub kind: MoveKind,
    /// How far the move has come, or how it ended.
    pub status: MigrationStatus,
    /// The cell of the instance.
    pub cell: CellId,
    /// The source host; `None` for an unshelve.
    pub source: Option<HostId>,
    /// The target host, once one is claimed.
    pub target: Option<HostId>,
    /// The time of the request.
    pub created_at: Timestamp,
    /// The time of the last change of this row.
    pub updated_at: Timestamp,
    /// The reason of a failure; `None` otherwise.
    pub fault: Option<Fault>,
}

/// How far a move has come, and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MigrationStatus {
    /// No target is claimed yet.
    Accepted,
    /// A target is claimed, and the move is under way.
    Running,
    /// The instance stays on the target.
    Confirmed,
    /// The instance went back at the user's request.
    Reverted,
    /// The move failed and the instance is where it was before, or the instance was deleted meanwhile.
    Error,
}

impl MigrationStatus {
    /// The status of a settled move.
    #[must_use]
    pub fn settled(keep: MoveSide, failed: bool) -> Self {
        match (keep, failed) {
            (MoveSide::Target, _) => Self::Confirmed,
            (MoveSide::Source, false) => Self::Reverted,
            (MoveSide::Source, true) => Self::Error,
        }
    }
}

/// A rebuild that was requested from a cell.
///
/// Only the cell knows whether the rebuild is complete. It reports that by the digest of the instance's
/// spec. The row of a failed rebuild has no effect; it stays until the next rebuild of the instance, or
/// until the instance is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuild {
    /// The specification that the rebuild requests.
    pub spec: Spec,
    /// The time of the request.
    pub at: Timestamp,
    /// The time of the latest change of the instance that its cell had reported when the rebuild was
    /// requested: a report with this time precedes the rebuild.
    pub view_updated_at: Timestamp,
}

/// A flavor of the compute API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flavor {
    /// The name, unique among flavors.
    pub name: String,
    /// The number of virtual processors.
    pub vcpus: u32,
    /// Guest memory in MiB.
    pub memory_mb: u32,
    /// The root disk in GiB.
    pub root_gb: u32,
    /// The ephemeral disks in GiB.
    pub ephemeral_gb: u32,
    /// The swap disk in MiB.
    pub swap_mb: u32,
    /// Whether every project may use the flavor.
    pub is_public: bool,
    /// The projects that may use the flavor if it is not public.
    pub projects: Vec<String>,
    /// A description for users.
    pub description: Option<String>,
    /// The extra specs: resources, traits and hints to filters.
    pub extra_specs: BTreeMap<String, String>,
}

/// A public key of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keypair {
    /// Either `ssh` or `x509`.
    pub kind: String,
    /// The public key as text.
    pub public_key: String,
    /// The fingerprint of the key.
    pub fingerprint: String,
    /// The time of creation.
    pub created_at: Timestamp,
}

/// A server group of the compute API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerGroup {
    /// The name that the creator gave the group.
    pub name: String,
    /// The project that owns the group.
    pub project: String,
    /// The user that owns the group.
    pub user: String,
    /// `affinity`, `anti-affinity`, `soft-affinity` or `soft-anti-affinity`.
    pub policy: String,
    /// With `anti-affinity`: the maximum number of members on a host; `None` means one.
    pub max_server_per_host: Option<u32>,
    /// The hard rules that follow from the policy and the topology rules; placement enforces them.
    pub rules: Vec<Rule>,
    /// The members in the order in which they joined.
    pub members: Vec<InstanceId>,
}

/// The topology rules of a server group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTopology {
    /// The rules as the creator of the group wrote them. The hard ones are among
    /// [`ServerGroup::rules`] too.
    pub rules: Vec<TopologyRule>,
}

/// A host aggregate of the compute API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// The name that operators see.
    pub name: String,
    /// The hosts in rising order; placement's aggregate has the same members.
    pub hosts: Vec<HostId>,
    /// Metadata for filters; the key `availability_zone` makes it a zone.
    pub metadata: BTreeMap<String, String>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last change; `None` if there was none since the creation.
    pub updated_at: Option<Timestamp>,
}

/// The name and annotations of an instance, once they differ from its spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// The display name of the instance.
    pub name: String,
    /// A description for users.
    pub description: Option<String>,
    /// The metadata that users set.
    pub metadata: BTreeMap<String, String>,
    /// The tags, in rising order.
    pub tags: Vec<String>,
    /// The host name inside the guest.
    pub hostname: String,
    /// The lock, if the instance is locked.
    pub lock: Option<Lock>,
    /// The time of the last change.
    pub updated_at: Timestamp,
}

/// A locked instance can be changed by administrators only, until it is unlocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Whether the owner locked the instance, and not an administrator.
    pub by_owner: bool,
    /// The reason that was given, if any.
    pub reason: Option<String>,
}

/// The administrative state of a compute service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Whether the host accepts no new instances.
    pub disabled: bool,
    /// The reason for disabling the service, if one was given.
    pub disabled_reason: Option<String>,
    /// Whether an operator declared the host down.
    pub forced_down: bool,
    /// The time of the last change.
    pub updated_at: Timestamp,
}
