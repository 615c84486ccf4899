//! The tables of a cell.

use placewright_placement::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ask::Keep;
use crate::fault::{Action, Fault};
use crate::ids::{HostId, InstanceId, MigrationId};
use crate::message::MoveKind;
use crate::spec::{Candidate, Spec};
use crate::table::tables;

tables! {
    /// Everything of a cell that must not be lost.
    tables with ();
    /// What holds for the cell as a whole; only row 0.
    meta: Meta(u8 => Meta),
    /// The hosts that were heard of.
    hosts: Host(HostId => Host),
    /// The instances.
    instances: Instance(InstanceId => Instance),
    /// What they are to be.
    specs: Spec(InstanceId => Spec),
    /// What is being done with them.
    jobs: Job(InstanceId => Job),
    /// The guests that hosts are to have, or are to get; with the time since when.
    guests: Guest((HostId, InstanceId, u32) => Timestamp),
    /// The guests that hosts are to destroy; with the time since when.
    doomed: Doomed((HostId, InstanceId, u32) => Timestamp),
    /// What was done with instances.
    actions: Action((InstanceId, u32) => Action),
    /// The instances that were deleted, with the time.
    tombstones: Tombstone(InstanceId => Timestamp),
}

/// What holds for the cell as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Deletions before this are forgotten; nothing is created by a message sent before it.
    pub forgotten_before: Timestamp,
}

/// A host, as its agent says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The session of its agent.
    pub session: u64,
    /// Whether the agent is heard of.
    pub is_up: bool,
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// What state it is in.
    pub vm_state: VmState,
    /// Where it is.
    pub guest: Option<Place>,
    /// Its zone, as its candidate said.
    pub zone: Option<String>,
    /// The number of the last claim or ask; see [`crate::ask`].
    pub claim: u64,
    /// The number of the last step that an agent was asked for.
    pub attempt: u32,
    /// The last move that was reserved or refused.
    pub turn: u32,
    /// How many actions it has had.
    pub actions: u32,
    /// What went wrong last.
    pub fault: Option<Fault>,
    /// When it came.
    pub created_at: Timestamp,
    /// When this was last changed.
    pub updated_at: Timestamp,
}

/// What state an instance is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum VmState {
    /// It is being built for the first time.
    Building,
    /// It runs.
    Active,
    /// It is not what it should be; its fault says why.
    Error,
    /// It was moved, and waits to be confirmed or reverted.
    Resized,
    /// It is on no host.
    ShelvedOffloaded,
}

/// A guest: an instance as a host has it. An instance that moves has two, perhaps on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The host.
    pub host: HostId,
    /// Its number: the attempt that first asked for it.
    pub number: u32,
}

/// What is being done with an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// What.
    pub kind: JobKind,
    /// The move that it carries out.
    pub migration: Option<MigrationId>,
    /// How far it is.
    pub stage: Stage,
    /// Since when.
    pub since: Timestamp,
    /// When the agent is given up.
    pub deadline: Option<Timestamp>,
    /// Where the instance is to go.
    pub target: Option<Target>,
    /// Where it may go instead, best first.
    pub alternates: Vec<Candidate>,
    /// Where it was.
    pub origin: Option<Place>,
    /// What it is to be from then on, if that changes.
    pub spec: Option<Spec>,
    /// The state that it goes back to if this fails.
    pub state_before: VmState,
    /// Whether it could not go back to that.
    pub is_broken: bool,
    /// Why it fails, once it does.
    pub fault: Option<Fault>,
    /// The guests that have to be gone before it goes on.
    pub clearing: Vec<Place>,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum JobKind {
    /// The first build.
    Build,
    /// A move.
    Move(MoveKind),
    /// Off its host, resources released.
    Shelve,
    /// Anew where it is, with what it holds.
    Rebuild,
    /// Away.
    Delete,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    /// Control looks for a place.
    Reserved,
    /// An agent is asked.
    Step(Step),
    /// Placement is asked for the next alternate.
    Swap,
    /// The user has to confirm or revert.
    Verify,
    /// Guests have to be gone first.
    Clear(Next),
    /// Placement is asked to end it.
    Ask(Next),
}

/// What an agent is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Step {
    /// Check what only the target knows, and prepare it.
    Prepare,
    /// Stop the guest on its old host and hand it over (live: hand it over running).
    Leave,
    /// Have the guest run on the target.
    Arrive,
    /// Have the guest run on its old host again.
    Return,
    /// Stop the guest and keep what is needed to unshelve it elsewhere.
    Offload,
    /// Build the guest anew where it is.
    Rebuild,
}

/// What comes after guests are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Next {
    /// Release what the instance holds.
    Release,
    /// End the move.
    Settle(Keep),
    /// Have the old host take the guest back.
    Return,
}

/// Where an instance is to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The host and what is claimed of it.
    pub candidate: Candidate,
    /// The number of the guest there; 0 before it is first asked for.
    pub number: u32,
}

impl Target {
    /// The guest.
    #[must_use]
    pub fn place(&self) -> Place {
        Place {
            host: self.candidate.host,
            number: self.number,
        }
    }
}

impl Job {
    /// The host that is asked for a step.
    #[must_use]
    pub fn host_of(&self, step: Step) -> Option<Place> {
        match step {
            Step::Prepare | Step::Arrive => self.target.as_ref().map(Target::place),
            Step::Leave | Step::Return | Step::Offload | Step::Rebuild => self.origin,
        }
    }
}

impl State {
    /// Whether a host is known to be gone. One that was never heard of may still come.
    #[must_use]
    pub fn is_down(&self, host: HostId) -> bool {
        self.hosts.get(&host).is_some_and(|host| !host.is_up)
    }
}
