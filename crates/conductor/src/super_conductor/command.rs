//! What can be asked of control, and what it answers.

use placewright_placement as placement;
use placewright_placement::Timestamp;
use thiserror::Error;
use uuid::Uuid;

use super::state::{
    Aggregate, Change, Flavor, GroupTopology, Keypair, Labels, ServerGroup, Service,
};
use crate::ask::{Answer, Ask};
use crate::fault::Fault;
use crate::ids::{CellId, HostId, InstanceId, MigrationId};
use crate::message::{MoveKind, Verdict};
use crate::spec::{Candidate, Spec};

/// What can be asked of control. The time comes with it.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Creates a cell, or renames, enables or disables it.
    SetCell {
        /// Which.
        cell: CellId,
        /// Its name.
        name: String,
        /// Whether it gets no new instances.
        disabled: bool,
    },
    /// Forgets a cell that has neither hosts nor instances.
    RemoveCell {
        /// Which.
        cell: CellId,
    },
    /// Says whether a cell answers.
    SetCellDown {
        /// Which.
        cell: CellId,
        /// Whether it does not.
        is_down: bool,
    },
    /// Says which hosts a cell has; those that are mapped to it already stay so.
    MapHosts {
        /// The cell.
        cell: CellId,
        /// The hosts with their names.
        hosts: Vec<(HostId, String)>,
    },
    /// Forgets a host.
    UnmapHost {
        /// Which.
        host: HostId,
    },
    /// Accepts build requests, all or none. First of all: everything else follows from them.
    CreateBuilds {
        /// What was asked for together.
        reservation: Uuid,
        /// The instances.
        builds: Vec<NewBuild>,
    },
    /// Claims places for waiting build requests.
    Place {
        /// The wishes; each of another instance.
        wishes: Vec<Wish>,
        /// How many must find a place; with fewer, nothing happens at all.
        least: usize,
    },
    /// Puts instances without a place into cell0.
    Bury {
        /// Which.
        instances: Vec<InstanceId>,
        /// Why, with the explanation.
        fault: Fault,
    },
    /// A cell has an instance in its journal.
    CreateAccepted {
        /// Which.
        instance: InstanceId,
    },
    /// Claims again what an instance needs on the host where it is and holds nothing.
    Reclaim {
        /// Which.
        instance: InstanceId,
        /// The host.
        host: HostId,
        /// Ways in which the host can serve it, best first.
        candidates: Vec<Candidate>,
    },
    /// Deletes an instance, wherever it is.
    Delete {
        /// Which.
        instance: InstanceId,
    },
    /// What a cell asks of placement.
    Ask(Ask),
    /// Accepts a move.
    StartMove {
        /// Its UUID.
        migration: MigrationId,
        /// Whose.
        instance: InstanceId,
        /// What kind.
        kind: MoveKind,
        /// What the instance is to be there, if that changes.
        spec: Option<Spec>,
    },
    /// The cell lets nothing else begin.
    MoveReserved {
        /// The move.
        migration: MigrationId,
    },
    /// The cell will not do it: the move ends here.
    MoveRefused {
        /// The move.
        migration: MigrationId,
        /// Why.
        fault: Fault,
    },
    /// Claims a place for a move.
    PlaceMove {
        /// The move.
        migration: MigrationId,
        /// Where it may go, best first.
        candidates: Vec<Candidate>,
        /// How many alternates to keep.
        alternates: usize,
    },
    /// There is no place for a move.
    FailMove {
        /// The move.
        migration: MigrationId,
        /// Why, with the explanation.
        fault: Fault,
    },
    /// The cell has a move in its journal.
    MoveAccepted {
        /// The move.
        migration: MigrationId,
    },
    /// The cell forgot a move that found no place.
    MoveCancelled {
        /// The move.
        migration: MigrationId,
    },
    /// Confirms or reverts a move that waits for it.
    Conclude {
        /// The move.
        migration: MigrationId,
        /// Which way.
        verdict: Verdict,
    },
    /// Creates or replaces a flavor, or removes it.
    SetFlavor {
        /// Its id.
        id: String,
        /// What it is; nothing removes it.
        flavor: Option<Flavor>,
    },
    /// Creates or replaces a key pair, or removes it.
    SetKeypair {
        /// Whose.
        user: String,
        /// Its name.
        name: String,
        /// What it is; nothing removes it.
        keypair: Option<Keypair>,
    },
    /// Creates a server group, or removes it. Placement follows in the same step.
    SetGroup {
        /// Its UUID.
        group: Uuid,
        /// What it is; nothing removes it.
        row: Option<ServerGroup>,
        /// What a new one says of the topology.
        topology: Option<GroupTopology>,
    },
    /// Creates or replaces a host aggregate, or removes it. The aggregates of the hosts' providers
    /// follow in the same step.
    SetAggregate {
        /// Its UUID.
        aggregate: Uuid,
        /// What it is; nothing removes it.
        row: Option<Aggregate>,
    },
    /// What is known of a rebuild.
    Rebuild {
        /// Of which instance.
        instance: InstanceId,
        /// What.
        event: RebuildEvent,
    },
    /// Says what an instance is to be where that is control's alone to know: it is shown, and used by
    /// later moves.
    SetSpec {
        /// Which.
        instance: InstanceId,
        /// What it is to be.
        spec: Spec,
    },
    /// Says what an instance is called and what is written on it.
    SetLabels {
        /// Which.
        instance: InstanceId,
        /// What is to be known.
        labels: Labels,
    },
    /// Does something if these facts are so already: what somebody read and changed is written
    /// only if nobody wrote it in between.
    Guarded {
        /// What has to be so.
        facts: Vec<Change>,
        /// What is to be done.
        command: Box<Command>,
    },
    /// Does something that makes more of what there must not be too much of, if there is room for it.
    Bounded {
        /// What must not be too much.
        bounds: Vec<Bound>,
        /// What is to be done.
        command: Box<Command>,
    },
    /// Says something about a host's compute service. The trait of disabled hosts follows in the
    /// same step.
    SetService {
        /// The host.
        host: HostId,
        /// What is to be known.
        service: Service,
    },
}

/// How much there may be of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Key pairs of a user, with the one that comes.
    Keypairs {
        /// Whose.
        user: String,
        /// How many at most.
        most: usize,
    },
    /// Server groups of a project, with the one that comes.
    Groups {
        /// Of which project.
        project: String,
        /// How many at most.
        most: usize,
    },
    /// Members of a server group.
    Members {
        /// The group.
        group: Uuid,
        /// How many come.
        more: usize,
        /// How many at most, with these.
        most: usize,
    },
}

/// What happens to a rebuild, as far as control knows.
#[derive(Clone, Debug, PartialEq)]
pub enum RebuildEvent {
    /// It is written down, before the cell is asked for it.
    Begun {
        /// What the instance is to be.
        spec: Spec,
        /// When its cell had changed it last, as far as is known.
        seen: Timestamp,
    },
    /// The cell does not begin it.
    Refused {
        /// [`Spec::digest`] of what the instance was to be.
        digest: u64,
    },
    /// It is done: what the instance was to be is what it is.
    Done {
        /// [`Spec::digest`] of what the instance is now.
        digest: u64,
    },
}

/// One instance to build.
#[derive(Clone, Debug, PartialEq)]
pub struct NewBuild {
    /// Its UUID.
    pub instance: InstanceId,
    /// What it is to be.
    pub spec: Spec,
}

/// Where an instance may be built.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// The instance.
    pub instance: InstanceId,
    /// Where it may go, best first.
    pub candidates: Vec<Candidate>,
    /// How many alternates to keep: the next candidates of the claimed host's cell.
    pub alternates: usize,
}

/// What an accepted command answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The index of the candidate that each wish got.
    Placed(Vec<Option<u32>>),
    /// What the cell is to know.
    Answered(Answer),
}

/// A typed "no". A refused command changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Something with this UUID or name exists.
    #[error("{what} {id} exists")]
    Exists {
        /// What kind of thing.
        what: &'static str,
        /// Its UUID or name.
        id: String,
    },
    /// Nothing has this UUID or name.
    #[error("no {what} {id}")]
    NotFound {
        /// What kind of thing.
        what: &'static str,
        /// The UUID or name asked for.
        id: String,
    },
    /// Something else depends on it.
    #[error("{what} {id} is in use")]
    InUse {
        /// What kind of thing.
        what: &'static str,
        /// Its UUID or name.
        id: String,
    },
    /// The thing is not in a state that allows it.
    #[error("{what} {id} is {state}")]
    WrongState {
        /// What kind of thing.
        what: &'static str,
        /// Its UUID or name.
        id: String,
        /// The state that it is in.
        state: &'static str,
    },
    /// There are as many as there may be.
    #[error("there are {most} {what} already, and there may be no more")]
    TooMany {
        /// What kind of thing.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
    /// Somebody changed it since the caller looked.
    #[error("it was changed meanwhile")]
    Changed,
    /// Placement refuses.
    #[error(transparent)]
    Placement(#[from] placement::Refusal),
}
