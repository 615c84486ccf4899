//! The requests to placement that wait for a call, and those under way.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use placewright_conductor::{ClaimRequest, InstanceId};
use tokio::sync::Notify;

/// The queue of requests to placement. At most one request for each instance waits, the latest.
#[derive(Default)]
pub(crate) struct ClaimQueue {
    state: Mutex<QueueState>,
    wake: Notify,
}

/// The requests that wait, and those under way.
#[derive(Default)]
struct QueueState {
    waiting: BTreeMap<InstanceId, ClaimRequest>,
    /// By instance, the number of the request that a running call has taken.
    in_flight: BTreeMap<InstanceId, u64>,
}

impl ClaimQueue {
    /// Queues requests. A request is left out if it is under way already, or if a later request of its instance waits.
    pub(crate) fn add(&self, claim_requests: impl Iterator<Item = ClaimRequest>) {
        let mut state = self.state.lock();
        let before = state.waiting.len();
        for request in claim_requests {
            if state.in_flight.get(&request.instance) == Some(&request.number) {
                continue;
            }
            let waiting = state.waiting.get(&request.instance);
            if waiting.is_none_or(|waiting| waiting.number < request.number) {
                state.waiting.insert(request.instance, request);
            }
        }
        if before == 0 && !state.waiting.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Takes requests for a call; they count as under way until [`Self::end`].
    pub(crate) fn take(&self, count: usize) -> Vec<ClaimRequest> {
        let mut state = self.state.lock();
        let mut claim_requests = Vec::with_capacity(state.waiting.len().min(count));
        while claim_requests.len() < count
            && let Some((instance, request)) = state.waiting.pop_first()
        {
            state.in_flight.insert(instance, request.number);
            claim_requests.push(request);
        }
        claim_requests
    }

    /// Waits until a request is added to an empty queue. Returns at once if that has happened since the last wait.
    pub(crate) async fn wait_until_filled(&self) {
        self.wake.notified().await;
    }

    /// Ends a call: `ended` has the instance and the number of each of its requests. Those that placement did not
    /// answer are queued again.
    pub(crate) fn end(&self, ended: &[(InstanceId, u64)], unanswered: Vec<ClaimRequest>) {
        {
            let mut state = self.state.lock();
            for (instance, number) in ended {
                if state.in_flight.get(instance) == Some(number) {
                    state.in_flight.remove(instance);
                }
            }
        }
        self.add(unanswered.into_iter());
    }
}
