//! Where the instance of a move may go.

use std::sync::Arc;

use crate::placer::{Demand, Placing};
use placewright_conductor::control::ControlState;
use placewright_conductor::super_conductor::MoveStage;
use placewright_conductor::{MigrationId, MoveKind};

use super::{OngoingPlacement, PlacementPlan, PlanContext, PlanFault, Planner};

/// Whether a move still waits for a target host.
pub(super) fn waits(control: &ControlState, migration: MigrationId) -> bool {
    let row = control.conductor.moves().get(&migration);
    row.is_some_and(|row| row.stage == MoveStage::Reserved)
}

impl Planner {
    /// Begins the placement of a move, or returns the plan that replaces it.
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
        let read = self.bodies.read(&spec.body);
        let mut request = read
            .map_err(|error| PlacementPlan::FailMove {
                migration,
                fault: PlanFault::unreadable(&error),
            })?
            .request;
        if row.spec.is_none() {
            // A host that was requested at creation is not one where the instance has to stay.
            let request = Arc::make_mut(&mut request);
            request.force_hosts.clear();
            request.force_nodes.clear();
            request.requested_destination = None;
        }
        let may_stay = match row.kind {
            MoveKind::Unshelve => true,
            MoveKind::Resize => self.options.resize_to_same_host,
            MoveKind::ColdMigrate | MoveKind::LiveMigrate | MoveKind::Evacuate => false,
        };
        let source = state.migrations().get(&migration);
        let source = source.and_then(|record| record.source);
        let source = source.filter(|_| !may_stay);
        let source = source.and_then(|source| context.scheduler.hosts().by_uuid(source.0));
        Ok(Box::new(OngoingPlacement {
            placing: Placing::new(Demand {
                group: spec.group,
                alternates: self.options.alternates,
                cell: Some(cell.0),
                excluded_slots: source.map(|(slot, _)| slot).into_iter().collect(),
                is_move: true,
                ..Demand::new(request, vec![row.instance.0])
            }),
            migration: Some(migration),
        }))
    }
}
