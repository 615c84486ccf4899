//! Begins the placement of moves.

use std::sync::Arc;

use crate::placer::{Demand, Placing};
use placewright_conductor::control::ControlState;
use placewright_conductor::super_conductor::MoveStage;
use placewright_conductor::{MigrationId, MoveKind};

use crate::placement_span::PlacementSpan;

use super::{OngoingPlacement, PlacementPlan, PlanContext, PlanFault, Planner};

/// Whether a move still waits for a target host.
pub(super) fn waits(control: &ControlState, migration: MigrationId) -> bool {
    let row = control.conductor.moves().get(&migration);
    row.is_some_and(|row| row.stage == MoveStage::Reserved)
}

impl Planner {
    /// Begins the placement of a move. Returns the plan to carry out instead if there is nothing to place (the move no
    /// longer waits, or its instance has no specification or no cell), or if its request cannot be read.
    pub(super) fn begin_move(
        &mut self,
        context: &PlanContext<'_>,
        migration: MigrationId,
    ) -> Result<Box<OngoingPlacement>, PlacementPlan> {
        let state = &context.control.conductor;
        let nothing = || PlacementPlan::Nothing {
            ids: vec![migration.0],
        };
        let row = state.moves().get(&migration);
        let row = row.filter(|row| row.stage == MoveStage::Reserved);
        let row = row.ok_or_else(nothing)?;
        let spec = row.spec.as_ref().or(state.specs().get(&row.instance));
        let mapping = state.mappings().get(&row.instance);
        let (Some(spec), Some(cell)) = (spec, mapping.and_then(|mapping| mapping.cell)) else {
            return Err(nothing());
        };
        let body = self.bodies.read(&spec.body);
        let mut request = body
            .map_err(|error| PlacementPlan::FailMove {
                migration,
                fault: PlanFault::unreadable(&error),
            })?
            .request;
        if row.spec.is_none() {
            // The request is that of the instance's creation. The host that it may name was meant for the
            // build, and not for moves.
            let request = Arc::make_mut(&mut request);
            request.force_hosts.clear();
            request.force_nodes.clear();
            request.requested_destination = None;
        }
        let may_use_source = match row.kind {
            MoveKind::Unshelve => true,
            MoveKind::Resize => self.options.resize_to_same_host,
            MoveKind::ColdMigrate | MoveKind::LiveMigrate | MoveKind::Evacuate => false,
        };
        let record = state.migrations().get(&migration);
        let source = record.and_then(|record| record.source);
        let excluded_host = source.filter(|_| !may_use_source);
        let hosts = context.scheduler.hosts();
        let excluded = excluded_host.and_then(|host| hosts.by_uuid(host.0));
        Ok(Box::new(OngoingPlacement {
            placing: Placing::new(Demand {
                group: spec.group,
                alternate_count: self.options.alternates,
                cell: Some(cell.0),
                excluded_slots: excluded.map(|(slot, _)| slot).into_iter().collect(),
                is_move: true,
                ..Demand::new(request, vec![row.instance.0])
            }),
            migration: Some(migration),
            later: Vec::new(),
            // No spans are recorded for moves.
            span: PlacementSpan::default(),
            project: context.project.to_owned(),
        }))
    }
}
