//! One request to one scheduler: control's placer, as the service for destinations runs it, with its time in parts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use placewright_conductor::control;
use placewright_control::now;
use placewright_control::placer::{
    Demand, Placing, RoundEnd, SearchContext, SearchResults, TimeSlice, apply_corrections,
};
use placewright_placement::{Outcome, Refusal};
use placewright_scheduler::request::RequestSpec;
use uuid::Uuid;

use super::replicas::Replica;

/// The result of one request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PlacedRequest {
    /// The time in which hosts were ranked, which is the decision.
    pub(super) decision: Duration,
    /// The time from handing the claim to the engine until this scheduler knew that it is durable.
    pub(super) until_answered: Duration,
    /// When the last claim was handed to the engine, and the journal entry that it made; `None` if it made none.
    pub(super) last_claim: Option<(Instant, u64)>,
    /// The time from the request to the answer.
    pub(super) whole: Duration,
    /// The number of hosts that a claim of this request named and passed over, because other claims had filled them.
    pub(super) passed_over: u64,
    /// How often hosts were ranked again because none of the hosts that a claim named had room any more.
    pub(super) ranked_again: u64,
    /// Whether the caller would have to try again although there is room.
    pub(super) is_visible_retry: bool,
}

/// Places one instance.
///
/// # Errors
///
/// The store fails, or the placer refuses the request, which would be a bug of the benchmark.
pub(super) async fn place(
    replica: &Replica,
    request: &Arc<RequestSpec>,
    instance: Uuid,
) -> anyhow::Result<PlacedRequest> {
    let begun = Instant::now();
    let mut placed = PlacedRequest::default();
    let mut placing = Placing::new(Demand::new(Arc::clone(request), vec![instance]));
    loop {
        if find_hosts(replica, &mut placing, &mut placed)? != SearchResults::Ready {
            // There is room for all requests. If no host was found, this scheduler's copy of the state does not show
            // the room yet.
            placed.is_visible_retry = true;
            break;
        }
        claim(replica, &mut placing, &mut placed).await?;
        match placing.end_round() {
            RoundEnd::Done => break,
            RoundEnd::SearchAgain => placed.ranked_again += 1,
            RoundEnd::RoundsExhausted => {
                placed.is_visible_retry = true;
                break;
            }
        }
    }
    placed.passed_over = placing.fallen_slots().len() as u64;
    placed.whole = begun.elapsed();
    Ok(placed)
}

/// Ranks hosts on the state of this replica, and adds the time to that of the decision.
fn find_hosts(
    replica: &Replica,
    placing: &mut Placing,
    placed: &mut PlacedRequest,
) -> anyhow::Result<SearchResults> {
    let contention = replica.scheduler.contention();
    replica.scheduler.with_state(|scheduler, control| {
        let start = Instant::now();
        let mut context = SearchContext {
            scheduler,
            state: &control.placement,
            contention,
            scheduler_number: replica.number(),
            excluded_cells: &[],
            avoided_cells: &[],
            ranking_record_sequence: None,
        };
        let results = placing.find_hosts(&mut context, &TimeSlice::endless());
        placed.decision += start.elapsed();
        Ok(results?)
    })
}

/// Claims the first of the ranked hosts that still has room, and records when and for how long.
async fn claim(
    replica: &Replica,
    placing: &mut Placing,
    placed: &mut PlacedRequest,
) -> anyhow::Result<()> {
    let command = placing.claim("seeds", "seeds", now());
    let start = Instant::now();
    let submitted = (replica.engine).submit_with_sequence(control::Command::Placement(command));
    let (answer, sequence) = submitted.await;
    placed.until_answered += start.elapsed();
    placed.last_claim = sequence.map(|sequence| (start, sequence));
    let corrections = match answer? {
        Ok(control::Outcome::Placement(Outcome::Claimed(chosen))) => (replica.scheduler)
            .update_contention(|contention| placing.apply_claimed(&chosen, contention)),
        Err(control::Refusal::Placement(refusal @ Refusal::NothingFits { .. })) => (replica
            .scheduler)
            .update_contention(|contention| placing.apply_refused(Some(refusal), contention)),
        other => bail!("a claim ended in {other:?}"),
    };
    if !corrections.is_empty() {
        replica.scheduler.with_state(|scheduler, control| {
            apply_corrections(scheduler, &control.placement, &corrections);
        });
    }
    Ok(())
}
