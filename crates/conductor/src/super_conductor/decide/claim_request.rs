//! Decides the claim requests of cells, each exactly once; see [`crate::claim_request`].

use super::DecisionContext;
use crate::claim_request::{ClaimChange, ClaimRequest, ClaimResponse, MoveSide};
use crate::claims;
use crate::fault::Fault;
use crate::ids::{CellId, InstanceId, MigrationId};
use crate::spec::Candidate;
use crate::super_conductor::rows::{Mapping, Migration, MigrationStatus, Move, MoveStage};
use crate::super_conductor::state::Change;

/// By how much the number of a claim request may be greater than the last number that control knows.
/// A cell may be a few claim requests ahead, never this many.
pub(super) const AHEAD_MAX: u64 = 1 << 20;

impl<'a> DecisionContext<'a> {
    /// Decides [`Command::RequestClaim`]: changes the allocations as a cell requests, and returns the response.
    ///
    /// [`Command::RequestClaim`]: crate::super_conductor::Command::RequestClaim
    pub(super) fn request_claim(&mut self, request: &ClaimRequest) -> ClaimResponse {
        let Some(mapping) = self.state.mappings.get(&request.instance) else {
            return ClaimResponse::Gone;
        };
        // The cell that the instance has left deletes it, and holds no claim.
        let left = mapping.left_cell();
        if left.is_some_and(|left| request.number < left.first_number) {
            return ClaimResponse::Gone;
        }
        // While no cell has the instance, none may claim for it: not even the one that has just given it up.
        if matches!(mapping.cell, None | Some(CellId::CELL0)) {
            return ClaimResponse::Gone;
        }
        // A repeated request gets its response again. If there is none, control has advanced the
        // number itself.
        if request.number == mapping.claim_number {
            return mapping.claim_response.unwrap_or(ClaimResponse::Stale);
        }
        // No cell gets so far ahead of control. To accept such a number would exhaust the numbers.
        if request.number < mapping.claim_number
            || request.number - mapping.claim_number > AHEAD_MAX
        {
            return ClaimResponse::Stale;
        }
        let response = match &request.change {
            ClaimChange::Release {
                is_deleted: true, ..
            } if mapping.is_deleting => {
                self.remove_instance(request.instance);
                return ClaimResponse::Done;
            }
            ClaimChange::Release {
                is_deleted: false,
                failed_attempts,
            } if !failed_attempts.is_empty() && self.may_leave_cell(request.instance, mapping) => {
                self.leave_cell(request.instance, mapping, request.number, failed_attempts);
                return ClaimResponse::Gone;
            }
            // Only control decides that an instance is deleted. If it has not, it keeps the records of
            // the instance.
            ClaimChange::Release { .. } => {
                let changes = &mut self.changes.placement;
                claims::release(self.placement, request.instance.consumer(), changes);
                ClaimResponse::Done
            }
            ClaimChange::Swap { candidates } => self.swap(request.instance, mapping, candidates),
            ClaimChange::Settle {
                migration,
                keep,
                fault,
            } => self.settle(request.instance, *migration, *keep, fault.as_ref()),
        };
        let mapping = Mapping {
            claim_number: request.number,
            claim_response: Some(response),
            ..mapping.clone()
        };
        self.set_mapping(request.instance, mapping);
        response
    }

    fn swap(
        &mut self,
        instance: InstanceId,
        mapping: &Mapping,
        candidates: &[Candidate],
    ) -> ClaimResponse {
        let current_move = self.move_of(mapping);
        let spec = current_move.and_then(|(_, move_row)| move_row.spec.as_ref());
        let Some(spec) = spec.or(self.state.specs.get(&instance)) else {
            return ClaimResponse::Gone;
        };
        let handed_to_migration =
            current_move.map(|(migration, move_row)| (migration, move_row.held.as_slice()));
        let changes = &mut self.changes.placement;
        let consumer = (instance, spec);
        match claims::claim_first(
            self.placement,
            consumer,
            candidates,
            handed_to_migration,
            self.at,
            changes,
        ) {
            Ok(index) => {
                let host = candidates.get(index as usize).map(|target| target.host);
                let migration = current_move.map(|(migration, _)| migration);
                let migration_row = migration.and_then(|id| self.state.migrations.get(&id));
                if let (Some(migration), Some(old_row)) = (migration, migration_row) {
                    let new_row = Migration {
                        target: host,
                        updated_at: self.at,
                        ..old_row.clone()
                    };
                    self.record(Change::Migration(migration, Some(Box::new(new_row))));
                }
                ClaimResponse::Swapped { index }
            }
            Err(_) => ClaimResponse::NothingFits,
        }
    }

    /// The move that the cell of an instance is carrying out or has to carry out.
    fn move_of(&self, mapping: &Mapping) -> Option<(MigrationId, &'a Move)> {
        let latest = *mapping.migrations.last()?;
        let move_row = self.state.moves.get(&latest)?;
        let is_placed = matches!(move_row.stage, MoveStage::Placed { .. } | MoveStage::InCell);
        is_placed.then_some((latest, move_row))
    }

    /// Ends a move with the instance on one of its sides: allocations, migration and spec in one step.
    pub(super) fn settle(
        &mut self,
        instance: InstanceId,
        migration: MigrationId,
        keep: MoveSide,
        fault: Option<&Fault>,
    ) -> ClaimResponse {
        let Some(move_row) = self.state.moves.get(&migration) else {
            let mapping = self.state.mappings.get(&instance);
            return match mapping.is_some_and(|mapping| !mapping.is_deleting) {
                // The move has been settled before, or control was restored to a state before the move. The instance
                // lives on, and the audit finds what it holds too much or too little.
                true => ClaimResponse::Done,
                false => ClaimResponse::Gone,
            };
        };
        let (Some(spec), Some(migration_row)) = (
            self.state.specs.get(&instance),
            self.state.migrations.get(&migration),
        ) else {
            return ClaimResponse::Gone;
        };
        let changes = &mut self.changes.placement;
        match keep {
            MoveSide::Target => {
                claims::release(self.placement, migration.consumer(), changes);
                if let Some(spec) = &move_row.spec {
                    self.record(Change::Spec(instance, Some(Box::new(spec.clone()))));
                }
            }
            MoveSide::Source => {
                let before = (migration, migration_row.source, move_row.held.as_slice());
                claims::restore_allocations(
                    self.placement,
                    (instance, spec),
                    before,
                    self.at,
                    changes,
                );
            }
        }
        self.end_move(
            migration,
            MigrationStatus::settled(keep, fault.is_some()),
            fault,
        );
        ClaimResponse::Done
    }

    pub(super) fn end_move(
        &mut self,
        migration: MigrationId,
        status: MigrationStatus,
        fault: Option<&Fault>,
    ) {
        if let Some(old_row) = self.state.migrations.get(&migration) {
            let new_row = Migration {
                status,
                updated_at: self.at,
                fault: fault.cloned(),
                ..old_row.clone()
            };
            self.record(Change::Migration(migration, Some(Box::new(new_row))));
        }
        self.record(Change::Move(migration, None));
    }
}
