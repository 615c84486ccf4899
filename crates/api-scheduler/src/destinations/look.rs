//! Looks at the scheduler without a claim, and explanations.

use std::sync::Arc;

use placewright_control::placer::{Demand, Found, Placing, Search};
use placewright_control::{Beside, Why};
use placewright_placement::State;
use placewright_scheduler::request::RequestSpec;
use uuid::Uuid;

use crate::refused::Answer;
use crate::shared::{Brain, Core};

/// The best host for an instance, as if it were alone, with alternates; and the parts of the request
/// that have no effect, for people.
pub(super) fn alone(core: &Core, demand: &Demand, instance: Uuid) -> Answer<(Found, Vec<String>)> {
    core.decide(|brain, state| {
        let scheduler = &mut *brain.scheduler;
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
    core: &Core,
    request: &RequestSpec,
    instance: Uuid,
    hosts: usize,
    (cell, without): (Uuid, &[u32]),
) -> Answer<Found> {
    core.decide(|brain, state| {
        let scheduler = &mut *brain.scheduler;
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
    core: &Arc<Core>,
    request: &RequestSpec,
    instance: Uuid,
    placing: Option<&Placing>,
) -> Answer<Why> {
    let since = core.ranker.moment();
    let prepared = core.decide(|brain, state| brain.scheduler.prepare_once(state, request))?;
    let reason = core.ranker.reason(prepared.query.clone(), since).await;
    let beside = Beside {
        placed: placing.map_or(&[], Placing::placed),
        refused: placing.map_or(&[], Placing::refused_beside),
    };
    let find = |brain: &mut Brain<'_>, state: &State| {
        Why::find(brain.scheduler, state, request, instance, reason, &beside)
    };
    Ok(core.decide(find))
}
