//! The tables of control.

use std::collections::BTreeMap;

use placewright_placement::Timestamp;
use placewright_placement::group::Rule;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::listing::Listing;
use crate::ask::{Answer, Keep};
use crate::fault::Fault;
use crate::ids::{CellId, HostId, InstanceId, MigrationId};
use crate::message::{MoveKind, Verdict};
use crate::spec::{Amounts, Candidate, Spec};
use crate::table::tables;

tables! {
    /// Everything of control that must not be lost, but for what placement keeps.
    tables with Listing;
    /// The cells.
    cells: Cell(CellId => Cell),
    /// The cell of each host.
    hosts: Host(HostId => HostMapping),
    /// The host of each name; names are unique over all cells.
    host_names: HostName(String => HostId),
    /// The instances that no cell has yet.
    builds: Build(InstanceId => BuildRequest),
    /// What instances were asked to be; kept as long as they are.
    specs: Spec(InstanceId => Spec),
    /// All instances, with their cells.
    mappings: Mapping(InstanceId => Mapping),
    /// The instances that found no host: those of cell0.
    buried: Buried(InstanceId => Buried),
    /// The instances whose cells are to forget them.
    deletions: Deletion(InstanceId => Deletion),
    /// The moves under way.
    moves: Move(MigrationId => Move),
    /// All moves of the instances that there are.
    migrations: Migration(MigrationId => Migration),
    /// Flavors by their ids.
    flavors: Flavor(String => Flavor),
    /// Key pairs by user and name.
    keypairs: Keypair((String, String) => Keypair),
    /// Server groups.
    groups: Group(Uuid => ServerGroup),
    /// Host aggregates.
    aggregates: Aggregate(Uuid => Aggregate),
    /// What operators said about the compute services of hosts.
    services: Service(HostId => Service),
    /// What users changed about instances that decides nothing.
    labels: Labels(InstanceId => Labels),
    /// What server groups say of the topology; those that say nothing are not in it.
    group_topologies: GroupTopology(Uuid => GroupTopology),
    /// What instances will be if the last rebuild that was asked for is done.
    rebuilds: Rebuild(InstanceId => Rebuild),
}

impl State {
    /// The instances in the order of lists.
    #[must_use]
    pub fn listing(&self) -> &Listing {
        &self.index
    }

    /// The key pairs of a user with their names, in the order of these.
    pub fn keypairs_of<'s>(
        &'s self,
        user: &'s str,
    ) -> impl Iterator<Item = (&'s str, &'s Keypair)> + 's {
        let from = (user.to_owned(), String::new());
        let rows = self.keypairs.range(from..);
        rows.take_while(move |((owner, _), _)| owner == user)
            .map(|((_, name), row)| (name.as_str(), row))
    }
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Its name.
    pub name: String,
    /// Whether it gets no new instances.
    pub disabled: bool,
    /// Since when it does not answer.
    pub down_since: Option<Timestamp>,
}

impl Cell {
    /// Whether new instances may go there.
    #[must_use]
    pub fn takes_instances(&self) -> bool {
        !self.disabled && self.down_since.is_none()
    }
}

/// Where a host belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMapping {
    /// Its cell.
    pub cell: CellId,
    /// Its name.
    pub name: String,
}

/// An instance that no cell has yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildRequest {
    /// What was asked for together is scheduled together.
    pub reservation: Uuid,
    /// How far it is.
    pub stage: BuildStage,
}

/// How far a build request is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BuildStage {
    /// A place is to be found.
    Waiting,
    /// The place is claimed; the cell is to be told.
    Placed {
        /// The claimed host.
        selection: Candidate,
        /// Where it may be built instead; hosts of the same cell.
        alternates: Vec<Candidate>,
    },
}

/// What control knows of an instance all its life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// Its cell, once it has one.
    pub cell: Option<CellId>,
    /// Its project.
    pub project: String,
    /// Its user.
    pub user: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// Whether it is being deleted: then lists do not show it.
    pub is_deleting: bool,
    /// The number of the last claim or ask; see [`crate::ask`].
    pub claim: u64,
    /// What that ask was answered; nothing for a claim that control made itself.
    pub answer: Option<Answer>,
    /// Counts its moves.
    pub turn: u32,
    /// Its moves, the latest last.
    pub migrations: Vec<MigrationId>,
}

/// An instance of cell0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buried {
    /// Why it has no host, with the explanation.
    pub fault: Fault,
}

/// An instance whose cell is to forget it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// Since when.
    pub at: Timestamp,
}

/// A move under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Whose.
    pub instance: InstanceId,
    /// What kind.
    pub kind: MoveKind,
    /// How far it is.
    pub stage: MoveStage,
    /// What the instance is to be there, if that changes.
    pub spec: Option<Spec>,
    /// Which move of the instance it is.
    pub turn: u32,
    /// What the instance held before.
    pub held: Vec<Amounts>,
    /// How the user wants it to end.
    pub verdict: Option<Verdict>,
}

/// How far a move is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MoveStage {
    /// The cell is to let nothing else begin.
    Requested,
    /// A place is to be found.
    Reserved,
    /// The place is claimed; the cell is to carry the move out.
    Placed {
        /// The claimed host.
        selection: Candidate,
        /// Where it may go instead; hosts of the same cell.
        alternates: Vec<Candidate>,
        /// The number of the claim.
        claim: u64,
    },
    /// The cell carries it out.
    InCell,
    /// No place was found; the cell is to be told.
    Cancelling,
}

/// The record of a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migration {
    /// Whose.
    pub instance: InstanceId,
    /// What kind.
    pub kind: MoveKind,
    /// What became of it.
    pub status: MigrationStatus,
    /// The cell in which it happened.
    pub cell: CellId,
    /// Where the instance was; nowhere before an unshelve.
    pub source: Option<HostId>,
    /// Where it goes, or went.
    pub target: Option<HostId>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When its status changed last.
    pub updated_at: Timestamp,
    /// Why it failed, if it did.
    pub fault: Option<Fault>,
}

/// What became of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MigrationStatus {
    /// No place is claimed yet.
    Accepted,
    /// A place is claimed.
    Running,
    /// The instance stays where it went.
    Confirmed,
    /// It went back because somebody wanted it to.
    Reverted,
    /// It failed; the instance is where it was.
    Error,
}

impl MigrationStatus {
    /// The status of a settled move.
    #[must_use]
    pub fn settled(keep: Keep, failed: bool) -> Self {
        match (keep, failed) {
            (Keep::Target, _) => Self::Confirmed,
            (Keep::Source, false) => Self::Reverted,
            (Keep::Source, true) => Self::Error,
        }
    }
}

/// A rebuild that a cell was asked for.
///
/// Only the cell knows whether it is done: it says so by the digest of what the instance is. One that
/// failed stays here, without effect, until the next one or the end of the instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebuild {
    /// What the instance is to be.
    pub spec: Spec,
    /// When it was asked for.
    pub at: Timestamp,
    /// When its cell had changed the instance last by then: what the cell says with this time, it
    /// said before it began.
    pub seen: Timestamp,
}

/// A flavor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flavor {
    /// Its name, unique among flavors.
    pub name: String,
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mb: u32,
    /// Root disk in GiB.
    pub root_gb: u32,
    /// Ephemeral disks in GiB.
    pub ephemeral_gb: u32,
    /// Swap in MiB.
    pub swap_mb: u32,
    /// Whether everybody may use it.
    pub is_public: bool,
    /// Who may use it if not everybody.
    pub projects: Vec<String>,
    /// Words for people.
    pub description: Option<String>,
    /// Extra specs.
    pub extra_specs: BTreeMap<String, String>,
}

/// A public key of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keypair {
    /// `ssh` or `x509`.
    pub kind: String,
    /// The public key.
    pub public_key: String,
    /// Its fingerprint.
    pub fingerprint: String,
    /// When it came.
    pub created_at: Timestamp,
}

/// A server group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerGroup {
    /// Its name.
    pub name: String,
    /// Its project.
    pub project: String,
    /// Its user.
    pub user: String,
    /// `affinity`, `anti-affinity`, `soft-affinity` or `soft-anti-affinity`.
    pub policy: String,
    /// How many members a host may have, with `anti-affinity`.
    pub max_server_per_host: Option<u32>,
    /// The hard rules that policy and topology rules mean; placement holds them.
    pub rules: Vec<Rule>,
    /// Its members, in the order in which they came.
    pub members: Vec<InstanceId>,
}

/// The topology rules of a server group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupTopology {
    /// As whoever made the group wrote them. The hard ones are among [`ServerGroup::rules`] too.
    pub rules: String,
}

/// A host aggregate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aggregate {
    /// Its name.
    pub name: String,
    /// Its hosts, in rising order. Placement has the same in its aggregates.
    pub hosts: Vec<HostId>,
    /// Its metadata; `availability_zone` makes it a zone.
    pub metadata: BTreeMap<String, String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Option<Timestamp>,
}

/// What an instance is called and what is written on it, once that is not what its spec says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    /// Its name.
    pub name: String,
    /// Words for people.
    pub description: Option<String>,
    /// Metadata.
    pub metadata: BTreeMap<String, String>,
    /// Tags, in rising order.
    pub tags: Vec<String>,
    /// The host name that the guest is told.
    pub hostname: String,
    /// Whether and by whom it is locked.
    pub lock: Option<Lock>,
    /// When this was last changed.
    pub updated_at: Timestamp,
}

/// A locked instance is left alone by all but administrators, until somebody unlocks it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Whether its owner locked it, and no administrator.
    pub by_owner: bool,
    /// Why.
    pub reason: Option<String>,
}

/// What operators said about a compute service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Whether it gets no new instances.
    pub disabled: bool,
    /// Why.
    pub disabled_reason: Option<String>,
    /// Whether an operator knows that it is down.
    pub forced_down: bool,
    /// When this was last changed.
    pub updated_at: Timestamp,
}
