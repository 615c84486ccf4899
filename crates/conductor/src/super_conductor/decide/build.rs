//! Build requests: accepted, placed, moved to cell0, or accepted by their cells; and deletes.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;

use super::claim_request::AHEAD_MAX;
use super::decisions::Decided;
use super::{
    Command, DecisionContext, NewBuild, Outcome, RankedCandidates, Refusal, exists, not_found,
    wrong_state,
};
use crate::claims;
use crate::fault::{Attempt, Fault, kept_attempts};
use crate::ids::{CellId, InstanceId};
use crate::super_conductor::rows::{
    BuildRequest, BuildStage, Buried, Deletion, LeftCell, Mapping, Migration, MigrationStatus,
    Reschedule, ServerGroup,
};
use crate::super_conductor::state::Change;

impl<'a> DecisionContext<'a> {
    /// Decides a command about builds; any other command changes nothing.
    pub(super) fn decide_build(&mut self, command: &Command) -> Result<Outcome, Refusal> {
        match command {
            Command::CreateBuilds {
                reservation,
                builds,
            } => self.create_builds(*reservation, builds),
            Command::Bury { instances, fault } => self.bury(instances, fault),
            Command::CreateAccepted {
                instance,
                claim_number,
                is_built,
            } => Ok(self.create_accepted(*instance, *claim_number, *is_built)),
            _ => Ok(Outcome::Done),
        }
    }

    fn create_builds(
        &mut self,
        reservation: Uuid,
        builds: &[NewBuild],
    ) -> Result<Outcome, Refusal> {
        self.check_quota_of_builds(builds)?;
        let mut groups: Vec<(Uuid, ServerGroup)> = Vec::new();
        let mut seen = BTreeSet::new();
        for NewBuild { instance, spec } in builds {
            let is_known = self.state.mappings.contains_key(instance);
            if is_known || !seen.insert(*instance) {
                return Err(exists("instance", instance));
            }
            if let Some(group) = spec.group {
                self.add_member(group, *instance, &mut groups)?;
            }
            let request = BuildRequest {
                reservation,
                stage: BuildStage::Waiting,
            };
            self.record(Change::Build(*instance, Some(Box::new(request))));
            self.record(Change::Spec(*instance, Some(Box::new(spec.clone()))));
            let mapping = Mapping {
                cell: None,
                project: spec.project.clone(),
                user: spec.user.clone(),
                created_at: spec.created_at,
                is_deleting: false,
                claim_number: 0,
                claim_response: None,
                move_number: 0,
                migrations: Vec::new(),
                decisions: Vec::new(),
                reschedule: Reschedule::Never,
            };
            self.set_mapping(*instance, mapping);
        }
        for (group, row) in groups {
            self.check_quota_of_members(&group, &row)?;
            self.record(Change::Group(group, Some(Box::new(row))));
        }
        Ok(Outcome::Done)
    }

    /// Adds an instance to the row of its server group. `groups` has the changed rows of the command so far.
    fn add_member(
        &self,
        group: Uuid,
        instance: InstanceId,
        groups: &mut Vec<(Uuid, ServerGroup)>,
    ) -> Result<(), Refusal> {
        if let Some((_, row)) = groups.iter_mut().find(|(id, _)| *id == group) {
            row.members.push(instance);
            return Ok(());
        }
        let row = self.state.groups.get(&group);
        let mut row = row
            .ok_or_else(|| not_found("server group", &group))?
            .clone();
        row.members.push(instance);
        groups.push((group, row));
        Ok(())
    }

    /// Claims hosts and records mappings and the new stage of build requests, in one step. Refused if fewer than
    /// `least` instances get a host. `may_reschedule` is whether instances may be taken from their cell if it cannot
    /// build them.
    pub(super) fn place(
        &mut self,
        ranked_candidates: &[RankedCandidates],
        least: usize,
        may_reschedule: bool,
    ) -> Result<Outcome, Refusal> {
        let mut intents = Vec::with_capacity(ranked_candidates.len());
        // For each instance, the indexes of the candidates that its intent names.
        let mut usable_indexes = Vec::with_capacity(ranked_candidates.len());
        for ranked in ranked_candidates {
            self.waiting_build(ranked.instance)?;
            let spec = self.state.specs.get(&ranked.instance);
            let spec = spec.ok_or_else(|| not_found("instance", &ranked.instance))?;
            let indexes: Vec<usize> = (0..ranked.candidates.len())
                .filter(|index| self.cell_accepts_instances(ranked, *index))
                .collect();
            let candidates: Vec<_> = indexes
                .iter()
                .map(|index| &ranked.candidates[*index])
                .collect();
            intents.push(claims::intent(
                self.placement,
                ranked.instance,
                spec,
                &candidates,
                // No other consumer claims in the same step.
                Vec::new(),
            ));
            usable_indexes.push(indexes);
        }
        let changes = &mut self.changes.placement;
        let chosen = claims::claim_many(self.placement, intents, least, self.at, changes)?;
        let mut placed = Vec::with_capacity(ranked_candidates.len());
        let with_indexes = ranked_candidates.iter().zip(&usable_indexes);
        for ((ranked, indexes), chosen) in with_indexes.zip(chosen) {
            let index = chosen.and_then(|chosen| indexes.get(chosen as usize).copied());
            if let Some(index) = index {
                self.record_placement(ranked, index, may_reschedule)?;
            }
            placed.push(index.and_then(|index| u32::try_from(index).ok()));
        }
        Ok(Outcome::Placed(placed))
    }

    /// Whether the cell of a candidate accepts the instance. A cell that the instance has left does not.
    fn cell_accepts_instances(&self, ranked: &RankedCandidates, index: usize) -> bool {
        let host = ranked.candidates.get(index).map(|candidate| candidate.host);
        let Some(cell) = host.and_then(|host| self.cell_of(host)) else {
            return false;
        };
        let mapping = self.state.mappings.get(&ranked.instance);
        let left = mapping.and_then(Mapping::left_cell);
        let row = self.state.cells.get(&cell);
        left.is_none_or(|left| left.cell != cell)
            && row.is_some_and(crate::super_conductor::Cell::accepts_instances)
    }

    /// Records that the candidate at this index is claimed for a waiting build request.
    fn record_placement(
        &mut self,
        ranked: &RankedCandidates,
        index: usize,
        may_reschedule: bool,
    ) -> Result<(), Refusal> {
        let selection = Arc::new(ranked.candidates[index].clone());
        let cell = self.cell_of(selection.host);
        let cell = cell.ok_or_else(|| not_found("host", &selection.host))?;
        let alternates = self.alternates(cell, &ranked.candidates, index, ranked.alternate_count);
        let alternate_count = alternates.len();
        let request = BuildRequest {
            reservation: self.waiting_build(ranked.instance)?.reservation,
            stage: BuildStage::Placed {
                selection,
                alternates,
            },
        };
        let decided = Decided {
            instance: ranked.instance,
            candidates: &ranked.candidates,
            chosen: index,
            ranking: &ranked.ranking,
            migration: None,
        };
        let before = self.mapping(ranked.instance)?;
        let mut mapping = self.mapping_after(before, &decided, alternate_count);
        mapping.cell = Some(cell);
        mapping.reschedule = match before.reschedule.clone() {
            // An instance leaves a cell once at most.
            done @ Reschedule::Done(_) => done,
            Reschedule::Never | Reschedule::Allowed if may_reschedule => Reschedule::Allowed,
            Reschedule::Never | Reschedule::Allowed => Reschedule::Never,
        };
        self.record(Change::Build(ranked.instance, Some(Box::new(request))));
        self.set_mapping(ranked.instance, mapping);
        Ok(())
    }

    fn waiting_build(&self, instance: InstanceId) -> Result<&'a BuildRequest, Refusal> {
        let build = self.state.builds.get(&instance);
        let build = build.ok_or_else(|| not_found("build request", &instance))?;
        match build.stage {
            BuildStage::Waiting => Ok(build),
            BuildStage::Placed { .. } => Err(wrong_state("build request", &instance, "placed")),
        }
    }

    /// Moves instances without a host to cell0. Those that do not wait for a host any more are
    /// skipped: they were deleted or placed.
    fn bury(&mut self, instances: &[InstanceId], fault: &Fault) -> Result<Outcome, Refusal> {
        for instance in instances {
            if self.waiting_build(*instance).is_err() {
                continue;
            }
            let mut mapping = self.mapping(*instance)?.clone();
            mapping.cell = Some(CellId::CELL0);
            let row = Buried {
                fault: fault_after_reschedule(fault, mapping.left_cell()),
            };
            self.set_mapping(*instance, mapping);
            self.record(Change::Buried(*instance, Some(Box::new(row))));
            self.record(Change::Build(*instance, None));
            self.forget_build_secrets(*instance);
        }
        Ok(Outcome::Done)
    }

    /// Ends the build request of an instance that its cell has accepted; with `is_built` its first build is over too,
    /// so it stays in the cell. A reply that arrives when the build request is gone or waits for a host, or from a cell
    /// that the instance has left, changes nothing. The secrets for the build are kept as long as another cell may need
    /// them.
    fn create_accepted(
        &mut self,
        instance: InstanceId,
        claim_number: u64,
        is_built: bool,
    ) -> Outcome {
        let Some(mapping) = self.state.mappings.get(&instance) else {
            return Outcome::Done;
        };
        let left = mapping.left_cell();
        if left.is_some_and(|left| claim_number < left.first_number) {
            return Outcome::Done;
        }
        let build = self.state.builds.get(&instance);
        let is_accepted = build.is_some_and(|build| build.stage != BuildStage::Waiting);
        if is_accepted {
            self.record(Change::Build(instance, None));
        }
        let may_reschedule = mapping.reschedule == Reschedule::Allowed;
        if may_reschedule && is_built {
            let mut mapping = mapping.clone();
            mapping.reschedule = Reschedule::Never;
            self.set_mapping(instance, mapping);
        }
        if (is_accepted && !may_reschedule) || (may_reschedule && is_built) {
            self.forget_build_secrets(instance);
        }
        Outcome::Done
    }

    /// Whether another cell may build an instance that its present cell cannot build.
    pub(super) fn may_leave_cell(&self, instance: InstanceId, mapping: &Mapping) -> bool {
        let mut others = self.state.cells.iter();
        mapping.reschedule == Reschedule::Allowed
            && !mapping.is_deleting
            && mapping.migrations.is_empty()
            && !self.state.rebuilds.contains_key(&instance)
            && self.state.specs.contains_key(&instance)
            && others.any(|(cell, row)| Some(*cell) != mapping.cell && row.accepts_instances())
    }

    /// Takes an instance from its cell. All that the cell still has of the instance are guests to destroy. The instance
    /// waits for a host again. `number` is that of the claim request with which the cell gave up.
    pub(super) fn leave_cell(
        &mut self,
        instance: InstanceId,
        mapping: &Mapping,
        number: u64,
        attempts: &[Attempt],
    ) {
        let Some(cell) = mapping.cell else {
            return;
        };
        claims::release(
            self.placement,
            instance.consumer(),
            &mut self.changes.placement,
        );
        // This number is far beyond all those that the cell may still use.
        let first_number = number.saturating_add(2 * AHEAD_MAX);
        let left = LeftCell {
            cell,
            at: self.at,
            attempts: kept_attempts(attempts),
            first_number,
        };
        self.set_mapping(
            instance,
            Mapping {
                cell: None,
                claim_number: first_number,
                claim_response: None,
                reschedule: Reschedule::Done(Box::new(left)),
                ..mapping.clone()
            },
        );
        let request = BuildRequest {
            // The instance is placed on its own: the other instances of the API request may still go to the cell.
            reservation: instance.0,
            stage: BuildStage::Waiting,
        };
        self.record(Change::Build(instance, Some(Box::new(request))));
    }

    /// Deletes an instance at once if no cell has it; otherwise its cell has to delete it.
    pub(super) fn delete(&mut self, instance: InstanceId) -> Result<Outcome, Refusal> {
        let mapping = self.mapping(instance)?;
        match mapping.cell {
            None | Some(CellId::CELL0) => self.remove_instance(instance),
            Some(_) if mapping.is_deleting => {}
            Some(_) => {
                let mut mapping = mapping.clone();
                mapping.is_deleting = true;
                // Nobody sees the instance any more.
                mapping.decisions = Vec::new();
                let moves = mapping.migrations.clone();
                self.set_mapping(instance, mapping);
                let deletion = Deletion { at: self.at };
                self.record(Change::Deletion(instance, Some(Box::new(deletion))));
                if self.state.builds.contains_key(&instance) {
                    self.record(Change::Build(instance, None));
                }
                for migration in moves {
                    if self.state.moves.contains_key(&migration) {
                        self.record(Change::Move(migration, None));
                        self.fail_migration_of_deleted(migration);
                    }
                }
            }
        }
        Ok(Outcome::Done)
    }

    /// Records in a migration that its move ended because the instance was deleted.
    fn fail_migration_of_deleted(&mut self, migration: crate::ids::MigrationId) {
        if let Some(row) = self.state.migrations.get(&migration) {
            let row = Migration {
                status: MigrationStatus::Error,
                updated_at: self.at,
                fault: Some(Fault {
                    code: 404,
                    message: "The instance was deleted.".into(),
                    details: String::new(),
                    at: self.at,
                }),
                ..row.clone()
            };
            self.record(Change::Migration(migration, Some(Box::new(row))));
        }
    }

    /// Removes every record of an instance and releases its allocations.
    pub(super) fn remove_instance(&mut self, instance: InstanceId) {
        claims::release(
            self.placement,
            instance.consumer(),
            &mut self.changes.placement,
        );
        let mapping = self.state.mappings.get(&instance);
        for migration in mapping.iter().flat_map(|mapping| &mapping.migrations) {
            let changes = &mut self.changes.placement;
            claims::release(self.placement, migration.consumer(), changes);
            self.changes
                .conductor
                .push(Change::Migration(*migration, None));
            if self.state.moves.contains_key(migration) {
                self.changes.conductor.push(Change::Move(*migration, None));
            }
        }
        if let Some(spec) = self.state.specs.get(&instance)
            && let Some(group) = spec.group
            && let Some(row) = self.state.groups.get(&group)
        {
            let mut row = row.clone();
            row.members.retain(|member| *member != instance);
            self.record(Change::Group(group, Some(Box::new(row))));
        }
        if self.state.builds.contains_key(&instance) {
            self.record(Change::Build(instance, None));
        }
        if self.state.buried.contains_key(&instance) {
            self.record(Change::Buried(instance, None));
        }
        if self.state.deletions.contains_key(&instance) {
            self.record(Change::Deletion(instance, None));
        }
        if self.state.labels.contains_key(&instance) {
            self.record(Change::Labels(instance, None));
        }
        if self.state.rebuilds.contains_key(&instance) {
            self.record(Change::Rebuild(instance, None));
        }
        self.record(Change::Spec(instance, None));
        self.record(Change::Mapping(instance, None));
    }
}

/// Why no host was found, with what had failed in the cell that the instance was in before.
fn fault_after_reschedule(fault: &Fault, left: Option<&LeftCell>) -> Fault {
    let attempts = left.map_or(&[][..], |left| &left.attempts);
    let failure = attempts
        .iter()
        .rev()
        .find_map(|attempt| attempt.failure.as_deref());
    let mut fault = fault.clone();
    if let Some(failure) = failure {
        fault.message = format!("{} Before, the build failed: {failure}", fault.message);
    }
    fault
}
