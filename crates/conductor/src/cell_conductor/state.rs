//! The tables of a cell.

use std::sync::Arc;

use placewright_placement::Timestamp;

use crate::claim_request::MoveSide;
use crate::fault::{Action, Fault};
use crate::ids::{HostId, InstanceId, MigrationId};
use crate::message::MoveKind;
use crate::spec::{Candidate, GroupMapping, Spec};
use crate::table::tables;

tables! {
    /// The persistent state of a cell.
    tables with ();
    /// Data of the cell as a whole: a single row, with the key 0.
    meta: Meta(u8 => Meta),
    /// The hosts whose agents have begun a session with the cell.
    hosts: Host(HostId => Host),
    /// The instances of the cell.
    instances: Instance(InstanceId => Instance),
    /// The specifications of the instances.
    specs: Spec(InstanceId => Spec),
    /// The jobs under way, at most one for each instance.
    jobs: Job(InstanceId => Job),
    /// The guests that hosts should have, by host, instance and number of the guest; with the time
    /// of that decision.
    guests: Guest((HostId, InstanceId, u32) => Timestamp),
    /// The guests that hosts have to destroy, by host, instance and number of the guest; with the time
    /// of that decision.
    doomed: Doomed((HostId, InstanceId, u32) => Timestamp),
    /// The history of the instances, by instance and number of the action.
    actions: Action((InstanceId, u32) => Action),
    /// Deleted instances, with the time of deletion.
    tombstones: Tombstone(InstanceId => Timestamp),
}

/// The key of the only row of `meta`.
pub(crate) const META_KEY: u8 = 0;

/// Data of the cell as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Deletions before this time are forgotten; messages sent earlier create nothing.
    pub forgotten_before: Timestamp,
}

/// A host, as its agent has reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The number of the agent's current session.
    pub session: u64,
    /// Whether the agent is in contact.
    pub is_up: bool,
}

/// An instance of the cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The instance's lifecycle state.
    pub vm_state: VmState,
    /// The guest of the instance, which names the host; `None` without one.
    pub guest: Option<GuestRef>,
    /// The availability zone of the host that the instance is on.
    pub zone: Option<String>,
    /// The number of the last claim or claim request; see [`crate::claim_request`].
    pub claim_number: u64,
    /// The number of the last step requested from an agent.
    pub attempt: u32,
    /// The number of the last move that was reserved or refused.
    pub move_number: u32,
    /// The number of actions in the history of the instance, which is the number of the latest action.
    pub action_count: u32,
    /// The latest failure; `None` if there was none, or if a later move or rebuild succeeded.
    pub fault: Option<Fault>,
    /// The time at which the instance was requested.
    pub created_at: Timestamp,
    /// The time of the last change of this row.
    pub updated_at: Timestamp,
    /// Which providers serve which request group for the guest of the instance.
    pub mappings: Vec<GroupMapping>,
}

/// The lifecycle state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VmState {
    /// The first build is not finished.
    Building,
    /// The instance has a running guest.
    Active,
    /// The instance is not as specified; its fault gives the reason.
    Error,
    /// The instance was moved and waits for confirmation or reversal.
    Resized,
    /// The instance has no host and no guest.
    ShelvedOffloaded,
}

/// A guest: an instance on a particular host. An instance that moves has two, possibly on one
/// host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestRef {
    /// The host that has, or should have, the guest.
    pub host: HostId,
    /// The number of the guest: the attempt that first requested it.
    pub number: u32,
}

/// The job of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The kind of the job.
    pub kind: JobKind,
    /// The move that the job carries out; `None` if the job is not a move.
    pub migration: Option<MigrationId>,
    /// How far the job has come.
    pub stage: Stage,
    /// The time at which the present stage began.
    pub since: Timestamp,
    /// When the step fails if the agent has not answered; `None` if no step is under way.
    pub deadline: Option<Timestamp>,
    /// The target of a build or move.
    pub target: Option<Target>,
    /// Further candidates, the best first.
    pub alternates: Arc<[Candidate]>,
    /// The guest that the instance had when the job began: the one that a move starts from.
    pub origin: Option<GuestRef>,
    /// The new specification, if the job changes it.
    pub spec: Option<Spec>,
    /// The state when the job began, which the instance has again if a move fails or is reverted.
    pub state_before: VmState,
    /// Whether restoring `state_before` failed.
    pub is_broken: bool,
    /// The reason of the failure, once the job fails.
    pub fault: Option<Fault>,
    /// The guests that have to be destroyed before the job continues.
    pub awaited_destructions: Vec<GuestRef>,
    /// The mappings of [`Self::origin`].
    pub origin_mappings: Vec<GroupMapping>,
    /// Whether a first build that failed here may succeed on hosts of other cells.
    pub may_go_elsewhere: bool,
}

/// The kind of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobKind {
    /// The first build of the instance.
    Build,
    /// A move of this kind.
    Move(MoveKind),
    /// Shelving: the guest leaves its host and its resources are released.
    Shelve,
    /// A rebuild in place, with the same allocations.
    Rebuild,
    /// The deletion of the instance.
    Delete,
}

/// The stage of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Control is looking for a target.
    Reserved,
    /// An agent is carrying out this step.
    Step(Step),
    /// The last host failed: a claim request to swap the claim for one of an alternate waits for its
    /// response.
    Swap,
    /// The user has to confirm or revert the move.
    Verify,
    /// Guests have to be destroyed first.
    AwaitDestroyed(Continuation),
    /// A claim request to release or settle waits for its response.
    AwaitClaim(Continuation),
}

/// A step that an agent carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Check what only the target can check, and prepare it.
    Prepare,
    /// Stop the guest on the source and hand it over (live: hand it over running).
    Leave,
    /// Start the guest on the target.
    Arrive,
    /// Start the guest on the source again.
    Return,
    /// Stop the guest and keep the data from which it can be unshelved elsewhere.
    Offload,
    /// Build the guest again on its host.
    Rebuild,
}

/// How a job continues after guests were destroyed or a claim request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Continuation {
    /// Release the allocations of the instance.
    Release,
    /// End the move on this side.
    Settle(MoveSide),
    /// Start the guest on the source again.
    Return,
}

/// The target of a build or move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The host and the allocations on it.
    pub candidate: Arc<Candidate>,
    /// The number of the guest on that host; 0 before the guest is first requested.
    pub number: u32,
}

impl Target {
    /// The guest on the target host.
    #[must_use]
    pub fn guest(&self) -> GuestRef {
        GuestRef {
            host: self.candidate.host,
            number: self.number,
        }
    }
}

impl Job {
    /// The guest that a step concerns; the step is carried out on its host.
    #[must_use]
    pub fn guest_of(&self, step: Step) -> Option<GuestRef> {
        match step {
            Step::Prepare | Step::Arrive => self.target.as_ref().map(Target::guest),
            Step::Leave | Step::Return | Step::Offload | Step::Rebuild => self.origin,
        }
    }

    /// Which providers serve which request group for the guest that a step concerns.
    #[must_use]
    pub fn mappings_of(&self, step: Step) -> &[GroupMapping] {
        match step {
            Step::Prepare | Step::Arrive => {
                let target = self.target.as_ref();
                target.map_or(&[], |target| &target.candidate.mappings)
            }
            Step::Leave | Step::Return | Step::Offload | Step::Rebuild => &self.origin_mappings,
        }
    }
}

impl State {
    /// Whether a host is known to be down. A host that was never in contact may still appear.
    #[must_use]
    pub fn is_down(&self, host: HostId) -> bool {
        self.hosts.get(&host).is_some_and(|host| !host.is_up)
    }
}
