//! The commands of the super conductor, with their outcomes and refusals.

use placewright_placement as placement;
use placewright_placement::Timestamp;
use thiserror::Error;
use uuid::Uuid;

use super::image::Image;
use super::limit_check::LimitCheck;
use super::rows::{Aggregate, Flavor, GroupTopology, Keypair, Labels, ServerGroup, Service};
use super::state::Change;
use crate::accounts::AccountCommand;
use crate::claim_request::{ClaimRequest, ClaimResponse};
use crate::decision::RankingRecord;
use crate::fault::Fault;
use crate::ids::{CellId, HostId, InstanceId, MigrationId};
use crate::message::{MoveDecision, MoveKind};
use crate::quota::{Limits, OverQuota, QuotaScope, Resource, Usage};
use crate::spec::{Candidate, Spec};
use crate::table::SpecRow;

/// A command to the super conductor. The time of the decision is submitted with it.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Creates a cell, or renames, enables or disables it.
    SetCell {
        /// The UUID of the cell.
        cell: CellId,
        /// The name that operators see.
        name: String,
        /// Whether the cell accepts no new instances.
        disabled: bool,
    },
    /// Removes a cell that has neither hosts nor instances.
    RemoveCell {
        /// The UUID of the cell.
        cell: CellId,
    },
    /// Records whether a cell is reachable.
    SetCellDown {
        /// The UUID of the cell.
        cell: CellId,
        /// True if the cell does not answer.
        is_down: bool,
    },
    /// Adds hosts to a cell, or renames them. The other hosts of the cell stay.
    MapHosts {
        /// The UUID of the cell.
        cell: CellId,
        /// The hosts with their names.
        hosts: Vec<(HostId, String)>,
    },
    /// Removes the mapping of a host, its service, and its membership in aggregates.
    UnmapHost {
        /// The UUID of the host.
        host: HostId,
    },
    /// Accepts build requests, all or none. The first command in the life of an instance.
    CreateBuilds {
        /// The UUID of the API request, common to all its instances.
        reservation: Uuid,
        /// The instances with their specifications.
        builds: Vec<NewBuild>,
    },
    /// Claims hosts for waiting build requests.
    Place {
        /// The candidates of each instance; each instance once.
        ranked_candidates: Vec<RankedCandidates>,
        /// How many instances must find a host; with fewer, nothing changes at all.
        least: usize,
        /// Whether the instances may be built in another cell, once, if all hosts fail that their cell may try.
        may_reschedule: bool,
    },
    /// Moves instances without a host to cell0.
    Bury {
        /// The UUIDs of the instances.
        instances: Vec<InstanceId>,
        /// The reason, for the owner of the instances, with the explanation.
        fault: Fault,
    },
    /// The cell of an instance has recorded the instance in its journal, and takes care of it from now on.
    CreateAccepted {
        /// The UUID of the instance.
        instance: InstanceId,
        /// The number of the claim in the message that the cell accepted; 0 from releases that do not say it.
        claim_number: u64,
        /// Whether the first build is over, too, so that the instance stays in its cell.
        is_built: bool,
    },
    /// Restores the allocations of an instance that is on a host and has no allocations there.
    Reclaim {
        /// The UUID of the instance.
        instance: InstanceId,
        /// The host that the instance is on.
        host: HostId,
        /// Candidates on that host, the best first.
        candidates: Vec<Candidate>,
    },
    /// Deletes an instance, wherever it is.
    Delete {
        /// The UUID of the instance.
        instance: InstanceId,
    },
    /// A cell requests a change of claims from placement.
    RequestClaim(ClaimRequest),
    /// Accepts a move from the API.
    StartMove {
        /// The UUID of the new migration: that of the API request, under which the action of the move is found.
        migration: MigrationId,
        /// The instance that is moved.
        instance: InstanceId,
        /// The kind of the move.
        kind: MoveKind,
        /// The new specification, if the move changes it.
        spec: Option<Box<Spec>>,
    },
    /// The cell has reserved the instance for the move.
    MoveReserved {
        /// The UUID of the move.
        migration: MigrationId,
    },
    /// The cell refuses to reserve the instance, or to carry out the move. The move ends.
    MoveRefused {
        /// The UUID of the move.
        migration: MigrationId,
        /// The reason for the owner.
        fault: Fault,
    },
    /// Claims a target for a move.
    PlaceMove {
        /// The UUID of the move.
        migration: MigrationId,
        /// The candidates, the best first.
        candidates: Vec<Candidate>,
        /// How many alternates to keep: the next candidates in the cell.
        alternate_count: usize,
        /// How the candidates were ranked.
        ranking: RankingRecord,
    },
    /// No target was found for a move.
    FailMove {
        /// The UUID of the move.
        migration: MigrationId,
        /// The reason for the owner, with the explanation.
        fault: Fault,
    },
    /// The cell has recorded the move in its journal, and carries it out from now on.
    MoveAccepted {
        /// The UUID of the move.
        migration: MigrationId,
    },
    /// The cell has cancelled a move for which no target was found.
    MoveCancelled {
        /// The UUID of the move.
        migration: MigrationId,
    },
    /// Confirms or reverts a cold migration or a resize that its cell has accepted.
    ConfirmOrRevert {
        /// The UUID of the move.
        migration: MigrationId,
        /// Whether to confirm or to revert.
        decision: MoveDecision,
        /// The UUID of the API request, if it is known.
        request: Option<Uuid>,
    },
    /// Creates, replaces or removes a flavor.
    SetFlavor {
        /// The id by which the API names the flavor.
        id: String,
        /// The new content; `None` removes the flavor.
        flavor: Option<Flavor>,
    },
    /// Creates or removes a key pair. A key pair that exists is not replaced.
    SetKeypair {
        /// The user who owns the key pair.
        user: String,
        /// The name, unique for the user.
        name: String,
        /// The content of a new key pair; `None` removes the key pair.
        keypair: Option<Keypair>,
    },
    /// Creates or removes a server group. Placement's group follows in the same step.
    SetGroup {
        /// The UUID of the group.
        group: Uuid,
        /// The content of a new group; `None` removes the group.
        row: Option<ServerGroup>,
        /// The topology rules of a new group.
        topology: Option<GroupTopology>,
    },
    /// Creates, replaces or removes a host aggregate. Placement's aggregates of the hosts'
    /// providers follow in the same step.
    SetAggregate {
        /// The UUID of the aggregate.
        aggregate: Uuid,
        /// The new content; `None` removes the aggregate.
        row: Option<Aggregate>,
    },
    /// Records the progress of a rebuild.
    Rebuild {
        /// The UUID of the instance.
        instance: InstanceId,
        /// The progress of the rebuild.
        event: RebuildEvent,
    },
    /// Replaces the specification of an instance. The new one differs only in parts that the cell does not use: those
    /// that the API shows, and those by which later moves are scheduled.
    SetSpec {
        /// The UUID of the instance.
        instance: InstanceId,
        /// The specification that replaces the present one.
        spec: Box<Spec>,
    },
    /// Replaces a specification by one that differs only in its sealed secrets, wherever the instance, its
    /// rebuild or one of its moves has it. A specification that has changed meanwhile stays.
    Reseal {
        /// The UUID of the instance.
        instance: InstanceId,
        /// The specification as it was.
        from: Box<Spec>,
        /// The specification with other sealed secrets.
        to: Box<Spec>,
    },
    /// Replaces the name, metadata, tags, lock and other labels of an instance.
    SetLabels {
        /// The UUID of the instance.
        instance: InstanceId,
        /// The labels that replace the present ones.
        labels: Labels,
    },
    /// Executes a command only if rows have the expected values: a compare-and-swap for callers
    /// that read, modify and write.
    Guarded {
        /// The expected rows, each as the change that would write it.
        expected: Vec<Change>,
        /// The command to execute.
        command: Box<Command>,
    },
    /// Executes a command that adds objects or bytes whose number is limited, unless a limit would be exceeded.
    Limited {
        /// The limits that must hold after the command.
        checks: Vec<LimitCheck>,
        /// The command to execute.
        command: Box<Command>,
    },
    /// Sets limits of a scope, and leaves its other limits as they are.
    SetQuota {
        /// The scope of the limits.
        scope: QuotaScope,
        /// The limits to set.
        limits: Limits,
        /// Whether the command is carried out even if a project's limit becomes less than the amount that the project
        /// holds.
        force: bool,
    },
    /// Replaces all limits of scopes, or removes them.
    ReplaceQuotas {
        /// The scopes with their limits; `None` removes them.
        sets: Vec<(QuotaScope, Option<Limits>)>,
    },
    /// Records the usage of instances that a release without quotas created. Instances whose usage is
    /// known stay as they are.
    CountUsage {
        /// The instances with their usage.
        instances: Vec<(InstanceId, Usage)>,
        /// The moves under way with the usage of their new specifications.
        moves: Vec<(MigrationId, Usage)>,
    },
    /// Creates, replaces or removes the record of an image.
    SetImage {
        /// The UUID of the image.
        id: Uuid,
        /// The new content; `None` removes the record.
        image: Option<Box<Image>>,
    },
    /// Sets the administrative state of a host's compute service. The trait of disabled hosts
    /// follows in the same step.
    SetService {
        /// The host of the service.
        host: HostId,
        /// The state that replaces the present one.
        service: Service,
    },
    /// Changes users, projects, roles, and the rows that belong to them.
    Accounts(AccountCommand),
}

/// The progress of a rebuild, as control sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum RebuildEvent {
    /// The rebuild is recorded before it is requested from the cell.
    Begun {
        /// The specification that the rebuild requests.
        spec: Box<Spec>,
        /// The time of the cell's last known change of the instance.
        view_updated_at: Timestamp,
    },
    /// The cell refused the rebuild.
    Refused {
        /// [`Spec::digest`] of the requested specification.
        digest: u64,
    },
    /// The rebuild is complete: the new specification applies.
    Done {
        /// [`Spec::digest`] of the specification that the instance has now.
        digest: u64,
    },
}

/// An instance to build.
#[derive(Clone, Debug, PartialEq)]
pub struct NewBuild {
    /// The UUID of the new instance.
    pub instance: InstanceId,
    /// The specification of the instance.
    pub spec: Spec,
}

impl SpecRow for NewBuild {
    fn spec(&self) -> Option<(InstanceId, &Spec)> {
        Some((self.instance, &self.spec))
    }

    fn from_spec(instance: InstanceId, spec: Box<Spec>) -> Self {
        Self {
            instance,
            spec: *spec,
        }
    }
}

/// The ranked candidates of one instance that waits for a host.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedCandidates {
    /// The UUID of the instance.
    pub instance: InstanceId,
    /// The candidates, the best first.
    pub candidates: Vec<Candidate>,
    /// How many alternates to keep: the next candidates in the cell of the claimed host.
    pub alternate_count: usize,
    /// How the candidates were ranked.
    pub ranking: RankingRecord,
}

impl RankedCandidates {
    /// Candidates without a record of their ranking.
    #[must_use]
    pub fn new(instance: InstanceId, candidates: Vec<Candidate>, alternate_count: usize) -> Self {
        Self {
            instance,
            candidates,
            alternate_count,
            ranking: RankingRecord::default(),
        }
    }
}

/// The answer to an accepted command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command is done; there is nothing else to report.
    Done,
    /// The index of the candidate that each instance got; `None` for one that got none.
    Placed(Vec<Option<u32>>),
    /// The response to the claim request of a cell.
    ClaimAnswered(ClaimResponse),
}

/// A typed refusal. A refused command changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// An object with this UUID or name exists.
    #[error("{what} {id} exists")]
    Exists {
        /// The kind of the object, for the message.
        what: &'static str,
        /// The UUID or name of the object.
        id: String,
    },
    /// No object has this UUID or name.
    #[error("no {what} {id}")]
    NotFound {
        /// The kind of the object, for the message.
        what: &'static str,
        /// The UUID or name in the command.
        id: String,
    },
    /// The object cannot be removed or renamed, because another one or the installation depends on it.
    #[error("{what} {id} is in use")]
    InUse {
        /// The kind of the object, for the message.
        what: &'static str,
        /// The UUID or name of the object.
        id: String,
    },
    /// The object is not in a state that allows the command.
    #[error("{what} {id} is {state}")]
    WrongState {
        /// The kind of the object, for the message.
        what: &'static str,
        /// The UUID or name of the object.
        id: String,
        /// The state of the object.
        state: &'static str,
    },
    /// A limit on the number of objects is reached.
    #[error("there are {most} {what} already, and there may be no more")]
    TooMany {
        /// The kind of the objects, for the message.
        what: &'static str,
        /// How many objects are allowed.
        most: usize,
    },
    /// The limit on the size of a project's instance records would be exceeded.
    #[error("the records of the project's instances would have more than {most} bytes")]
    TooManyBytes {
        /// The maximum number of bytes.
        most: u64,
    },
    /// The limit on the size of a project's images would be exceeded.
    #[error("the images of the project would have more than {most} bytes")]
    TooManyImageBytes {
        /// The maximum number of bytes.
        most: u64,
    },
    /// The project would hold more than its quota allows.
    #[error("{0}")]
    OverQuota(OverQuota),
    /// A limit would be less than the amount that the project holds.
    #[error("the limit {limit} of {resource} is less than what is in use, {used}")]
    BelowUse {
        /// The resource of the limit.
        resource: Resource,
        /// The limit that was to be set.
        limit: i64,
        /// The amount that the project holds.
        used: u64,
    },
    /// The object was changed since the caller read it.
    #[error("it was changed meanwhile")]
    Changed,
    /// Placement refuses its part of the command.
    #[error(transparent)]
    Placement(#[from] placement::Refusal),
}
