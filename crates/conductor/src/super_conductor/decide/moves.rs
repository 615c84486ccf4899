//! Moves until their cell has accepted them, and the owner's decision to confirm or revert one that
//! was carried out.

use std::sync::Arc;

use uuid::Uuid;

use super::decisions::Decided;
use super::{DecisionContext, Outcome, Refusal, exists, not_found, wrong_state};
use crate::claim_request::MoveSide;
use crate::claims;
use crate::decision::RankingRecord;
use crate::fault::Fault;
use crate::ids::{CellId, HostId, InstanceId, MigrationId};
use crate::message::{MoveDecision, MoveKind};
use crate::spec::{Candidate, Spec};
use crate::super_conductor::rows::{Mapping, Migration, MigrationStatus, Move, MoveStage};
use crate::super_conductor::state::Change;

impl<'a> DecisionContext<'a> {
    /// Accepts a move: adds its row and the row of its migration. The cell has to reserve the instance next.
    pub(super) fn start_move(
        &mut self,
        migration: MigrationId,
        instance: InstanceId,
        kind: MoveKind,
        spec: Option<&Spec>,
    ) -> Result<Outcome, Refusal> {
        let mapping = self.mapping(instance)?;
        if self.state.migrations.contains_key(&migration) {
            return Err(exists("migration", &migration));
        }
        if mapping.is_deleting {
            return Err(wrong_state("instance", &instance, "being deleted"));
        }
        // The cell may not have the instance yet. Then the cell would refuse the move without recording
        // the number of the move: control would end the move, but a delayed copy of the message
        // `Reserve` could still reserve the instance.
        if self.state.builds.contains_key(&instance) {
            return Err(wrong_state("instance", &instance, "being scheduled"));
        }
        let cell = match mapping.cell {
            None => return Err(wrong_state("instance", &instance, "being scheduled")),
            Some(CellId::CELL0) => return Err(wrong_state("instance", &instance, "without host")),
            Some(cell) => cell,
        };
        let mut moves = mapping.migrations.iter();
        if moves.any(|earlier| self.state.moves.contains_key(earlier)) {
            return Err(wrong_state("instance", &instance, "being moved"));
        }
        let (spec, added_usage) = self.spec_and_added_usage(instance, spec)?;
        let mut mapping = mapping.clone();
        mapping.move_number = mapping.move_number.saturating_add(1);
        mapping.migrations.push(migration);
        let row = Move {
            instance,
            kind,
            stage: MoveStage::Requested,
            spec,
            move_number: mapping.move_number,
            held: Vec::new(),
            decision: None,
            added_usage,
            decision_request: None,
        };
        let migration_row = Migration {
            instance,
            kind,
            status: MigrationStatus::Accepted,
            cell,
            source: claims::host_of(self.placement, instance),
            target: None,
            created_at: self.at,
            updated_at: self.at,
            fault: None,
        };
        self.set_mapping(instance, mapping);
        self.record(Change::Move(migration, Some(Box::new(row))));
        self.record(Change::Migration(migration, Some(Box::new(migration_row))));
        Ok(Outcome::Done)
    }

    /// The cell has reserved the instance for the move: a target can be claimed now. Replies about
    /// a move that has ended or progressed are ignored.
    pub(super) fn move_reserved(&mut self, migration: MigrationId) -> Outcome {
        if let Some(row) = self.state.moves.get(&migration)
            && row.stage == MoveStage::Requested
        {
            self.advance(migration, row, MoveStage::Reserved);
        }
        Outcome::Done
    }

    /// Records that a move has reached a stage.
    fn advance(&mut self, migration: MigrationId, row: &Move, stage: MoveStage) {
        let row = Move {
            stage,
            ..row.clone()
        };
        self.record(Change::Move(migration, Some(Box::new(row))));
    }

    /// Ends a move that its cell refuses to reserve or to carry out.
    pub(super) fn move_refused(&mut self, migration: MigrationId, fault: &Fault) -> Outcome {
        let Some(row) = self.state.moves.get(&migration) else {
            return Outcome::Done;
        };
        match row.stage {
            MoveStage::Requested => {
                self.end_move(migration, MigrationStatus::Error, Some(fault));
            }
            // The cell will not carry out the move. The instance gets its former allocations back, under
            // a new claim number, so that late claim requests of the cell have no effect.
            MoveStage::Placed { .. } => {
                let mapping = self.state.mappings.get(&row.instance);
                if let Some(mapping) = mapping {
                    let mapping = Mapping {
                        claim_number: mapping.claim_number.saturating_add(1),
                        claim_response: None,
                        ..mapping.clone()
                    };
                    self.set_mapping(row.instance, mapping);
                }
                self.settle(row.instance, migration, MoveSide::Source, Some(fault));
            }
            MoveStage::Reserved | MoveStage::InCell | MoveStage::Cancelling => {}
        }
        Outcome::Done
    }

    /// The move, if its cell has reserved the instance for it and no target is claimed yet.
    fn reserved_move(&self, migration: MigrationId) -> Result<&'a Move, Refusal> {
        let row = self.state.moves.get(&migration);
        let row = row.ok_or_else(|| not_found("move", &migration))?;
        match row.stage {
            MoveStage::Reserved => Ok(row),
            MoveStage::Requested => Err(wrong_state("move", &migration, "not reserved yet")),
            MoveStage::Placed { .. } | MoveStage::InCell => {
                Err(wrong_state("move", &migration, "placed"))
            }
            MoveStage::Cancelling => Err(wrong_state("move", &migration, "cancelled")),
        }
    }

    /// Claims the target for the instance and moves the former allocations to the migration, in
    /// one step. The outcome has the index of the chosen candidate in `candidates`.
    pub(super) fn place_move(
        &mut self,
        migration: MigrationId,
        candidates: &[Candidate],
        alternate_count: usize,
        ranking: &RankingRecord,
    ) -> Result<Outcome, Refusal> {
        let row = self.reserved_move(migration)?;
        let instance = row.instance;
        let mapping = self.mapping(instance)?;
        // Cell0 has no hosts, so without a cell no candidate is usable.
        let cell = mapping.cell.unwrap_or(CellId::CELL0);
        let spec = row.spec.as_ref().or(self.state.specs.get(&instance));
        let spec = spec.ok_or_else(|| not_found("instance", &instance))?;
        let is_in_cell = |index: &usize| self.cell_of(candidates[*index].host) == Some(cell);
        let indexes: Vec<usize> = (0..candidates.len()).filter(is_in_cell).collect();
        let usable: Vec<Candidate> = indexes
            .iter()
            .map(|index| candidates[*index].clone())
            .collect();
        let held = claims::held_allocations(self.placement, instance);
        let handed_to_migration = Some((migration, held.as_slice()));
        let chosen = claims::claim_first(
            self.placement,
            (instance, spec),
            &usable,
            handed_to_migration,
            self.at,
            &mut self.changes.placement,
        );
        let chosen = match chosen {
            Ok(index) => index as usize,
            Err(first_refusal) => {
                return Err(Refusal::Placement(
                    placewright_placement::Refusal::NothingFits {
                        fitting: 0,
                        required: 1,
                        first: first_refusal.map(Box::new),
                    },
                ));
            }
        };
        let target = usable.get(chosen).map(|candidate| candidate.host);
        let alternates = self.alternates(cell, &usable, chosen, alternate_count);
        let decided = Decided {
            instance,
            candidates: &usable,
            chosen,
            ranking,
            migration: Some((migration, spec, &held)),
        };
        let mapping = self.mapping_after(mapping, &decided, alternates.len());
        let stage = MoveStage::Placed {
            selection: Arc::new(usable[chosen].clone()),
            alternates,
            claim_number: mapping.claim_number,
        };
        let row = Move {
            stage,
            held,
            ..row.clone()
        };
        self.set_mapping(instance, mapping);
        self.record(Change::Move(migration, Some(Box::new(row))));
        self.set_running(migration, target);
        let index = indexes
            .get(chosen)
            .and_then(|index| u32::try_from(*index).ok());
        Ok(Outcome::Placed(vec![index]))
    }

    /// Records in the migration that a target is claimed.
    fn set_running(&mut self, migration: MigrationId, target: Option<HostId>) {
        if let Some(before) = self.state.migrations.get(&migration) {
            let migration_row = Migration {
                status: MigrationStatus::Running,
                target,
                updated_at: self.at,
                ..before.clone()
            };
            self.record(Change::Migration(migration, Some(Box::new(migration_row))));
        }
    }

    /// Fails a reserved move for which there is no target. The cell has to cancel its reservation next.
    pub(super) fn fail_move(
        &mut self,
        migration: MigrationId,
        fault: &Fault,
    ) -> Result<Outcome, Refusal> {
        let row = self.reserved_move(migration)?;
        self.advance(migration, row, MoveStage::Cancelling);
        if let Some(before) = self.state.migrations.get(&migration) {
            let migration_row = Migration {
                status: MigrationStatus::Error,
                updated_at: self.at,
                fault: Some(fault.clone()),
                ..before.clone()
            };
            self.record(Change::Migration(migration, Some(Box::new(migration_row))));
        }
        Ok(Outcome::Done)
    }

    /// Records that the cell carries out a move whose target was claimed.
    pub(super) fn move_accepted(&mut self, migration: MigrationId) -> Outcome {
        if let Some(row) = self.state.moves.get(&migration)
            && matches!(row.stage, MoveStage::Placed { .. })
        {
            self.advance(migration, row, MoveStage::InCell);
        }
        Outcome::Done
    }

    /// Removes a failed move whose reservation the cell has cancelled.
    pub(super) fn move_cancelled(&mut self, migration: MigrationId) -> Outcome {
        if let Some(row) = self.state.moves.get(&migration)
            && row.stage == MoveStage::Cancelling
        {
            self.record(Change::Move(migration, None));
        }
        Outcome::Done
    }

    /// Records the decision of the instance's owner to confirm or revert a move, which its cell carries out.
    pub(super) fn confirm_or_revert(
        &mut self,
        migration: MigrationId,
        decision: MoveDecision,
        request: Option<Uuid>,
    ) -> Result<Outcome, Refusal> {
        let row = self.state.moves.get(&migration);
        let row = row.ok_or_else(|| not_found("move", &migration))?;
        if !matches!(row.kind, MoveKind::ColdMigrate | MoveKind::Resize) {
            return Err(wrong_state("move", &migration, "not to be confirmed"));
        }
        if row.stage != MoveStage::InCell {
            return Err(wrong_state("move", &migration, "not carried out yet"));
        }
        match row.decision {
            Some(before) if before == decision => {}
            Some(MoveDecision::Confirm) => {
                return Err(wrong_state("move", &migration, "being confirmed"));
            }
            Some(MoveDecision::Revert) => {
                return Err(wrong_state("move", &migration, "being reverted"));
            }
            None => {
                let row = Move {
                    decision: Some(decision),
                    decision_request: request,
                    ..row.clone()
                };
                self.record(Change::Move(migration, Some(Box::new(row))));
                if let Some(before) = self.state.migrations.get(&migration) {
                    let migration_row = Migration {
                        updated_at: self.at,
                        ..before.clone()
                    };
                    self.record(Change::Migration(migration, Some(Box::new(migration_row))));
                }
            }
        }
        Ok(Outcome::Done)
    }
}
