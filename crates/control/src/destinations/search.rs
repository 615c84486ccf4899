//! Searches for hosts without a claim, and explains why an instance finds none.

use std::sync::Arc;

use placewright_placement::State;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::Scheduler;
use uuid::Uuid;

use super::error::DestinationsError;
use super::shared::Shared;
use crate::placer::{CandidatesFound, Demand, Placing, Search};
use crate::scheduler::{NoHostExplanation, SiblingPlacements};

/// The best host for an instance, without regard to the other instances of its request, with
/// alternates; and warnings for people about the parts of the request that have no effect.
pub(super) fn without_siblings(
    shared: &Shared,
    demand: &Demand,
    instance: Uuid,
) -> Result<(CandidatesFound, Vec<String>), DestinationsError> {
    shared.with_scheduler(|scheduler, state| {
        let prepared = scheduler.prepare_cached(state, &demand.request)?;
        let search = Search {
            host_count: 1,
            alternate_count: demand.alternate_count,
            explain: demand.explain,
            explain_hosts: &demand.explain_hosts,
            ..Search::new(&demand.request, &prepared, instance)
        };
        let found = search.run(scheduler, state)?;
        let warnings = prepared.translation.warnings.iter();
        Ok((found, warnings.map(ToString::to_string).collect()))
    })
}

/// The best hosts of a cell for an instance, but for excluded ones.
pub(super) fn in_cell(
    shared: &Shared,
    request: &RequestSpec,
    instance: Uuid,
    host_count: usize,
    (cell, excluded_slots): (Uuid, &[u32]),
) -> Result<CandidatesFound, DestinationsError> {
    shared.with_scheduler(|scheduler, state| {
        let prepared = scheduler.prepare_cached(state, request)?;
        let search = Search {
            host_count,
            cell: Some(cell),
            excluded_slots,
            ..Search::new(request, &prepared, instance)
        };
        Ok(search.run(scheduler, state)?)
    })
}

/// Explains why an instance finds no host. `placing` has the hosts of the other instances of the request; without it,
/// they do not count.
pub(super) async fn explain(
    shared: &Shared,
    request: &RequestSpec,
    instance: Uuid,
    placing: Option<&Placing>,
) -> Result<NoHostExplanation, DestinationsError> {
    let since = shared.scheduler.moment();
    // Each lock of the scheduler may have to wait for other requests, so what the search prepared is used again.
    let prepared = match placing.and_then(Placing::prepared) {
        Some(prepared) => Arc::clone(prepared),
        None => {
            shared.with_scheduler(|scheduler, state| scheduler.prepare_cached(state, request))?
        }
    };
    let query_explanation = shared
        .scheduler
        .explain_query(prepared.query.clone(), since)
        .await;
    let siblings = SiblingPlacements {
        placed: placing.map_or(&[], Placing::found_hosts),
        taken_slots: placing.map_or(&[], Placing::taken_slots),
    };
    let find = |scheduler: &mut Scheduler, state: &State| {
        NoHostExplanation::compute(
            scheduler,
            state,
            request,
            instance,
            query_explanation,
            &siblings,
        )
    };
    Ok(shared.with_scheduler(find))
}
