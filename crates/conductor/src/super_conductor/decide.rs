//! What becomes of a command: facts about both states and an outcome, or a refusal.

mod ask;
mod build;
mod cell;
mod mend;
mod moves;
mod table;

use placewright_placement::{self as placement, Timestamp};
use thiserror::Error;
use uuid::Uuid;

use super::state::{
    Aggregate, Cell, Change, Flavor, GroupTopology, Keypair, Labels, Mapping, ServerGroup, Service,
    State,
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
    /// Says what an instance is to be, once its cell has been told: it is shown, and used by later
    /// moves.
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
    /// Says something about a host's compute service. The trait of disabled hosts follows in the
    /// same step.
    SetService {
        /// The host.
        host: HostId,
        /// What is to be known.
        service: Service,
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
    /// Somebody changed it since the caller looked.
    #[error("it was changed meanwhile")]
    Changed,
    /// Placement refuses.
    #[error(transparent)]
    Placement(#[from] placement::Refusal),
}

/// The facts of one command.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) placement: Vec<placement::Change>,
    pub(crate) conductor: Vec<Change>,
}

/// A command being decided.
struct Round<'a> {
    state: &'a State,
    placement: &'a placement::State,
    at: Timestamp,
    facts: &'a mut Facts,
}

/// Decides a command on the states of control and of placement.
///
/// The facts go to placement's changes and to the conductor's; they belong into one record.
///
/// # Errors
///
/// A [`Refusal`] when the states do not admit the command. The changes may then hold facts of the
/// abandoned decision: drop them.
pub fn decide(
    state: &State,
    placement: &placement::State,
    command: &Command,
    at: Timestamp,
    changes: &mut (Vec<placement::Change>, Vec<Change>),
) -> Result<Outcome, Refusal> {
    let mut facts = Facts::default();
    let mut round = Round {
        state,
        placement,
        at,
        facts: &mut facts,
    };
    let outcome = round.decide(command)?;
    changes.0.append(&mut facts.placement);
    changes.1.append(&mut facts.conductor);
    Ok(outcome)
}

impl<'a> Round<'a> {
    fn decide(&mut self, command: &Command) -> Result<Outcome, Refusal> {
        match command {
            Command::SetCell {
                cell,
                name,
                disabled,
            } => self.set_cell(*cell, name, *disabled),
            Command::RemoveCell { cell } => self.remove_cell(*cell),
            Command::SetCellDown { cell, is_down } => self.set_cell_down(*cell, *is_down),
            Command::MapHosts { cell, hosts } => self.map_hosts(*cell, hosts),
            Command::UnmapHost { host } => self.unmap_host(*host),
            Command::CreateBuilds {
                reservation,
                builds,
            } => self.create_builds(*reservation, builds),
            Command::Place { wishes, least } => self.place(wishes, *least),
            Command::Bury { instances, fault } => self.bury(instances, fault),
            Command::CreateAccepted { instance } => Ok(self.create_accepted(*instance)),
            Command::Reclaim {
                instance,
                host,
                candidates,
            } => self.reclaim(*instance, *host, candidates),
            Command::Delete { instance } => self.delete(*instance),
            Command::Ask(ask) => Ok(Outcome::Answered(self.ask(ask))),
            Command::StartMove {
                migration,
                instance,
                kind,
                spec,
            } => self.start_move(*migration, *instance, *kind, spec.as_ref()),
            Command::MoveReserved { migration } => Ok(self.move_reserved(*migration)),
            Command::MoveRefused { migration, fault } => Ok(self.move_refused(*migration, fault)),
            Command::PlaceMove {
                migration,
                candidates,
                alternates,
            } => self.place_move(*migration, candidates, *alternates),
            Command::FailMove { migration, fault } => self.fail_move(*migration, fault),
            Command::MoveAccepted { migration } => Ok(self.move_accepted(*migration)),
            Command::MoveCancelled { migration } => Ok(self.move_cancelled(*migration)),
            Command::Conclude { migration, verdict } => self.conclude(*migration, *verdict),
            Command::SetFlavor { id, flavor } => self.set_flavor(id, flavor.as_ref()),
            Command::SetKeypair {
                user,
                name,
                keypair,
            } => self.set_keypair(user, name, keypair.as_ref()),
            Command::SetGroup {
                group,
                row,
                topology,
            } => self.set_group(*group, row.as_ref(), topology.as_ref()),
            Command::SetAggregate { aggregate, row } => {
                self.set_aggregate(*aggregate, row.as_ref())
            }
            Command::SetService { host, service } => self.set_service(*host, service),
            Command::SetSpec { instance, spec } => self.set_spec(*instance, spec),
            Command::SetLabels { instance, labels } => self.set_labels(*instance, labels),
            Command::Guarded { facts, command } => {
                if facts.iter().all(|fact| self.state.holds(fact)) {
                    self.decide(command)
                } else {
                    Err(Refusal::Changed)
                }
            }
        }
    }

    fn record(&mut self, change: Change) {
        self.facts.conductor.push(change);
    }

    fn set_mapping(&mut self, instance: InstanceId, mapping: Mapping) {
        self.record(Change::Mapping(instance, Some(Box::new(mapping))));
    }

    fn mapping(&self, instance: InstanceId) -> Result<&'a Mapping, Refusal> {
        let mapping = self.state.mappings.get(&instance);
        mapping.ok_or_else(|| not_found("instance", &instance))
    }

    fn cell(&self, cell: CellId) -> Result<&'a Cell, Refusal> {
        let found = self.state.cells.get(&cell);
        found.ok_or_else(|| not_found("cell", &cell))
    }

    /// The candidates after the chosen one that are in the same cell: one of each other host,
    /// because a build that failed on a host is not tried there again.
    fn alternates(
        &self,
        cell: CellId,
        candidates: &[Candidate],
        chosen: usize,
        count: usize,
    ) -> Vec<Candidate> {
        let later = candidates.iter().skip(chosen.saturating_add(1));
        let of_cell = later.filter(|one| self.cell_of(one.host) == Some(cell));
        let mut hosts: Vec<HostId> = candidates
            .get(chosen)
            .map(|one| one.host)
            .into_iter()
            .collect();
        let mut alternates = Vec::new();
        for candidate in of_cell {
            if alternates.len() == count {
                break;
            }
            if !hosts.contains(&candidate.host) {
                hosts.push(candidate.host);
                alternates.push(candidate.clone());
            }
        }
        alternates
    }

    fn cell_of(&self, host: HostId) -> Option<CellId> {
        self.state.hosts.get(&host).map(|mapping| mapping.cell)
    }
}

fn not_found(what: &'static str, id: &impl ToString) -> Refusal {
    Refusal::NotFound {
        what,
        id: id.to_string(),
    }
}

fn exists(what: &'static str, id: &impl ToString) -> Refusal {
    Refusal::Exists {
        what,
        id: id.to_string(),
    }
}

fn in_use(what: &'static str, id: &impl ToString) -> Refusal {
    Refusal::InUse {
        what,
        id: id.to_string(),
    }
}

fn wrong_state(what: &'static str, id: &impl ToString, state: &'static str) -> Refusal {
    Refusal::WrongState {
        what,
        id: id.to_string(),
        state,
    }
}
