//! Sends claim requests to placement: those of many instances in one call, repeated until answered.

use std::sync::Arc;
use std::time::Duration;

use placewright_conductor::cell_conductor::Event;
use placewright_conductor::{ClaimRequest, ClaimResponse, InstanceId};
use placewright_link::LinkError;
use placewright_tasks::{ContainedWork, contain_panic};
use tokio::task::JoinSet;

use crate::counters::add_to;
use crate::shared::LeaderState;

/// The wait after the first failure; it is doubled up to a limit in the options.
const BACK_OFF_MIN: Duration = Duration::from_millis(100);

/// The requests of one call. However the call ends, even by a panic, the unanswered ones are queued again.
struct InFlightRequests {
    shared: Arc<LeaderState>,
    /// The instance and the number of each request.
    numbers: Vec<(InstanceId, u64)>,
    unanswered: Vec<ClaimRequest>,
}

impl InFlightRequests {
    fn new(shared: &Arc<LeaderState>, claim_requests: Vec<ClaimRequest>) -> Self {
        Self {
            shared: Arc::clone(shared),
            numbers: claim_requests
                .iter()
                .map(|request| (request.instance, request.number))
                .collect(),
            unanswered: claim_requests,
        }
    }
}

impl Drop for InFlightRequests {
    fn drop(&mut self) {
        self.shared
            .claim_requests
            .end(&self.numbers, std::mem::take(&mut self.unanswered));
    }
}

/// Sends requests until the cell ends.
pub(crate) async fn run(shared: Arc<LeaderState>) {
    let mut calls = JoinSet::new();
    let mut back_off = BACK_OFF_MIN;
    loop {
        let claim_requests = if calls.len() < shared.options.calls_at_once.max(1) {
            shared
                .claim_requests
                .take(shared.options.claim_requests_at_once.max(1))
        } else {
            Vec::new()
        };
        if !claim_requests.is_empty() {
            let in_flight = InFlightRequests::new(&shared, claim_requests);
            calls.spawn(contain_panic(ContainedWork::ClaimRequest, call(in_flight)));
            continue;
        }
        tokio::select! {
            () = shared.claim_requests.wait_until_filled(),
                if calls.len() < shared.options.calls_at_once.max(1) => {}
            Some(ended) = calls.join_next() => {
                if was_answered(&ended) {
                    back_off = BACK_OFF_MIN;
                    continue;
                }
                tokio::select! {
                    () = tokio::time::sleep(back_off) => {}
                    () = shared.stopped() => return,
                }
                back_off = (back_off * 2).min(shared.options.placement_retry_max);
                // These calls ended during the wait, and had begun before it. Their failures belong to the same outage,
                // so they do not make the next wait longer; but if one was answered, placement is available again.
                while let Some(ended) = calls.try_join_next() {
                    if was_answered(&ended) {
                        back_off = BACK_OFF_MIN;
                    }
                }
            }
            () = shared.stopped() => return,
        }
    }
}

/// Whether placement answered a call that has ended.
fn was_answered<F, E>(ended: &Result<Result<bool, F>, E>) -> bool {
    matches!(ended, Ok(Ok(true)))
}

/// Makes one call, and returns whether placement answered it.
async fn call(mut in_flight: InFlightRequests) -> bool {
    let shared = Arc::clone(&in_flight.shared);
    let request_count = in_flight.numbers.len();
    let call = shared
        .placement
        .request_claims(in_flight.unanswered.clone());
    let answered = tokio::time::timeout(shared.options.placement_timeout, call).await;
    let answered = answered.unwrap_or(Err(LinkError::TimedOut {
        peer: "placement".into(),
    }));
    let why = match answered {
        Ok(responses) if responses.len() == request_count => {
            add_to(&shared.counts.claim_requests, request_count);
            handle_responses(&shared, &in_flight.numbers, responses);
            in_flight.unanswered.clear();
            return true;
        }
        Ok(responses) => format!(
            "{} answers to {request_count} claim requests",
            responses.len()
        ),
        Err(error) => error.to_string(),
    };
    add_to(&shared.counts.claim_requests_failed, request_count);
    tracing::warn!(%why, claim_requests = request_count, "placement gave no answer; it is asked again");
    false
}

fn handle_responses(
    shared: &LeaderState,
    numbers: &[(InstanceId, u64)],
    responses: Vec<ClaimResponse>,
) {
    for ((instance, number), response) in numbers.iter().zip(responses) {
        shared.submit_and_forget(Event::ClaimAnswered {
            instance: *instance,
            number: *number,
            response,
        });
    }
}
