//! Looks at the scheduler without a claim, and explanations.

use std::sync::Arc;

use placewright_control::placer::{CandidatesFound, Demand, Placing, Search};
use placewright_control::{Beside, NoHostExplanation};
use placewright_placement::State;
use placewright_scheduler::request::RequestSpec;
use uuid::Uuid;

use crate::error_response::Answer;
use crate::shared::{ApiState, SchedulerState};

/// The best host for an instance, as if it were alone, with alternates; and the parts of the request
/// that have no effect, for people.
pub(super) fn alone(
    core: &ApiState,
    demand: &Demand,
    instance: Uuid,
) -> Answer<(CandidatesFound, Vec<String>)> {
    core.decide(|scheduler_state, state| {
        let scheduler = &mut *scheduler_state.scheduler;
        let prepared = scheduler.prepare_once(state, &demand.request)?;
        let search = Search {
            hosts: 1,
            alternates: demand.alternates,
            explain: demand.explain,
            ..Search::new(&demand.request, &prepared, instance)
        };
        let found = search.run(scheduler, state)?;
        let warnings = prepared.translation.warnings.iter();
        Ok((found, warnings.map(ToString::to_string).collect()))
    })
}

/// The best hosts of a cell for an instance, except for some slots.
pub(super) fn in_cell(
    core: &ApiState,
    request: &RequestSpec,
    instance: Uuid,
    hosts: usize,
    (cell, without): (Uuid, &[u32]),
) -> Answer<CandidatesFound> {
    core.decide(|scheduler_state, state| {
        let scheduler = &mut *scheduler_state.scheduler;
        let prepared = scheduler.prepare_once(state, request)?;
        let search = Search {
            hosts,
            cell: Some(cell),
            without,
            ..Search::new(request, &prepared, instance)
        };
        Ok(search.run(scheduler, state)?)
    })
}

/// Explains why an instance of a request finds no host, beside those that do.
pub(super) async fn explain(
    core: &Arc<ApiState>,
    request: &RequestSpec,
    instance: Uuid,
    placing: Option<&Placing>,
) -> Answer<NoHostExplanation> {
    let since = core.ranker.moment();
    let prepared = core
        .decide(|scheduler_state, state| scheduler_state.scheduler.prepare_once(state, request))?;
    let reason = core.ranker.reason(prepared.query.clone(), since).await;
    let beside = Beside {
        placed: placing.map_or(&[], Placing::placed),
        refused: placing.map_or(&[], Placing::refused_beside),
    };
    let find = |scheduler_state: &mut SchedulerState<'_>, state: &State| {
        NoHostExplanation::find(
            scheduler_state.scheduler,
            state,
            request,
            instance,
            reason,
            &beside,
        )
    };
    Ok(core.decide(find))
}
