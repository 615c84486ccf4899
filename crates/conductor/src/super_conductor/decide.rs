//! Decides commands: the result is changes of both states and an outcome, or a refusal.

mod accounts;
mod build;
mod cell;
mod claim_request;
mod decisions;
mod image;
mod moves;
mod quota;
mod rebuild;
mod repair;
mod secrets;
mod table;

pub use cell::is_host_used;

use std::sync::Arc;

use placewright_placement::{self as placement, Timestamp};

use super::command::{Command, NewBuild, Outcome, RankedCandidates, Refusal};
use super::limit_check::LimitCheck;
use super::rows::{Cell, Mapping};
use super::state::{Change, State};
use crate::ids::{CellId, HostId, InstanceId};
use crate::spec::Candidate;

/// The changes that one command makes to both states.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DecidedChanges {
    pub(crate) placement: Vec<placement::Change>,
    pub(crate) conductor: Vec<Change>,
}

/// The context of a command that is being decided.
struct DecisionContext<'a> {
    state: &'a State,
    placement: &'a placement::State,
    /// The time of the decision.
    at: Timestamp,
    /// The changes that were decided so far. None of them is applied to `state` and `placement` yet.
    changes: &'a mut DecidedChanges,
}

/// Decides a command on the states of control and of placement.
///
/// Appends the decided changes to two lists, one of placement's changes and one of the conductor's. Both belong into
/// one journal entry.
///
/// # Errors
///
/// A [`Refusal`] when the states do not admit the command. Then nothing is appended.
pub fn decide(
    state: &State,
    placement: &placement::State,
    command: &Command,
    at: Timestamp,
    (placement_changes, conductor_changes): (&mut Vec<placement::Change>, &mut Vec<Change>),
) -> Result<Outcome, Refusal> {
    let mut decided = DecidedChanges::default();
    let mut context = DecisionContext {
        state,
        placement,
        at,
        changes: &mut decided,
    };
    let outcome = context.decide(command)?;
    placement_changes.append(&mut decided.placement);
    conductor_changes.append(&mut decided.conductor);
    Ok(outcome)
}

impl<'a> DecisionContext<'a> {
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
            Command::CreateBuilds { .. }
            | Command::Bury { .. }
            | Command::CreateAccepted { .. } => self.decide_build(command),
            Command::Place {
                ranked_candidates,
                least,
                may_reschedule,
            } => self.place(ranked_candidates, *least, *may_reschedule),
            Command::Reclaim {
                instance,
                host,
                candidates,
            } => self.reclaim(*instance, *host, candidates),
            Command::Delete { instance } => self.delete(*instance),
            Command::RequestClaim(request) => {
                Ok(Outcome::ClaimAnswered(self.request_claim(request)))
            }
            Command::StartMove {
                migration,
                instance,
                kind,
                spec,
            } => self.start_move(*migration, *instance, *kind, spec.as_deref()),
            Command::MoveReserved { migration } => Ok(self.move_reserved(*migration)),
            Command::MoveRefused { migration, fault } => Ok(self.move_refused(*migration, fault)),
            Command::PlaceMove {
                migration,
                candidates,
                alternate_count,
                ranking,
            } => self.place_move(*migration, candidates, *alternate_count, ranking),
            Command::FailMove { migration, fault } => self.fail_move(*migration, fault),
            Command::MoveAccepted { migration } => Ok(self.move_accepted(*migration)),
            Command::MoveCancelled { migration } => Ok(self.move_cancelled(*migration)),
            Command::ConfirmOrRevert {
                migration,
                decision,
                request,
            } => self.confirm_or_revert(*migration, *decision, *request),
            Command::SetFlavor { .. }
            | Command::SetKeypair { .. }
            | Command::SetGroup { .. }
            | Command::SetAggregate { .. }
            | Command::SetService { .. } => self.decide_row(command),
            Command::SetImage { id, image } => self.set_image(*id, image.as_deref()),
            Command::Rebuild { instance, event } => self.rebuild(*instance, event),
            Command::SetSpec { instance, spec } => self.set_spec(*instance, spec),
            Command::Reseal { instance, from, to } => Ok(self.reseal(*instance, from, to)),
            Command::SetLabels { instance, labels } => self.set_labels(*instance, labels),
            Command::SetQuota { .. }
            | Command::ReplaceQuotas { .. }
            | Command::CountUsage { .. } => self.decide_quota(command),
            Command::Accounts(command) => self.decide_accounts(command),
            Command::Limited { checks, command } => self.decide_limited(checks, command),
            Command::Guarded { expected, command } => self.decide_guarded(expected, command),
        }
    }

    /// Decides the command if the state still has all expected rows.
    fn decide_guarded(
        &mut self,
        expected: &[Change],
        command: &Command,
    ) -> Result<Outcome, Refusal> {
        if expected.iter().all(|row| self.state.holds(row)) {
            self.decide(command)
        } else {
            Err(Refusal::Changed)
        }
    }

    /// Decides the command if it exceeds none of the limits.
    fn decide_limited(
        &mut self,
        checks: &[LimitCheck],
        command: &Command,
    ) -> Result<Outcome, Refusal> {
        checks
            .iter()
            .try_for_each(|check| self.check_limit(check))?;
        self.decide(command)
    }

    /// Refuses a command that would exceed a limit.
    fn check_limit(&self, check: &LimitCheck) -> Result<(), Refusal> {
        let (what, present, added, max) = match check {
            LimitCheck::Keypairs { user, max } => {
                // More than `max` need not be counted.
                let of_user = self.state.keypairs_of(user).take(*max);
                ("key pairs", of_user.count(), 1, *max)
            }
            LimitCheck::KeypairQuota { project, user } => {
                return self.check_quota_of_keypairs(project, user);
            }
            LimitCheck::Groups { project, max } => {
                let present = self.state.listing().group_count(project);
                ("server groups", present, 1, *max)
            }
            LimitCheck::InstanceBytes {
                project,
                added,
                max,
            } => {
                let present = self.state.listing().record_bytes(project);
                // A command that adds nothing is not refused, even if the limit is exceeded already.
                if *added > 0 && present.saturating_add(*added) > *max {
                    return Err(Refusal::TooManyBytes { most: *max });
                }
                return Ok(());
            }
            LimitCheck::Images { project, max } => {
                let present = self.state.listing().image_usage(project).count;
                let most = usize::try_from(*max).unwrap_or(usize::MAX);
                (
                    "images",
                    usize::try_from(present).unwrap_or(usize::MAX),
                    1,
                    most,
                )
            }
            LimitCheck::ImageBytes {
                project,
                added,
                max,
            } => {
                let present = self.state.listing().image_usage(project).bytes;
                if *added > 0 && present.saturating_add(*added) > *max {
                    return Err(Refusal::TooManyImageBytes { most: *max });
                }
                return Ok(());
            }
            LimitCheck::Members { group, added, max } => {
                let row = self.state.groups.get(group);
                let present = row.map_or(0, |row| row.members.len());
                ("members", present, *added, *max)
            }
        };
        if present.saturating_add(added) > max {
            return Err(Refusal::TooMany { what, most: max });
        }
        Ok(())
    }

    /// Adds a change of the conductor's state to the decision.
    fn record(&mut self, change: Change) {
        self.changes.conductor.push(change);
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

    /// The alternates: candidates after the chosen one in the same cell, one for each other host,
    /// because a build that failed on a host is not tried there again.
    fn alternates(
        &self,
        cell: CellId,
        candidates: &[Candidate],
        chosen: usize,
        count: usize,
    ) -> Arc<[Candidate]> {
        let later = candidates.iter().skip(chosen.saturating_add(1));
        let of_cell = later.filter(|candidate| self.cell_of(candidate.host) == Some(cell));
        let mut used_hosts: Vec<HostId> = candidates
            .get(chosen)
            .map(|candidate| candidate.host)
            .into_iter()
            .collect();
        let mut alternates = Vec::new();
        for candidate in of_cell {
            if alternates.len() == count {
                break;
            }
            if !used_hosts.contains(&candidate.host) {
                used_hosts.push(candidate.host);
                alternates.push(candidate.clone());
            }
        }
        alternates.into()
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
