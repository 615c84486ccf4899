//! The handle on the scheduler.

use std::sync::Arc;

use parking_lot::Mutex;
use placewright_conductor::ControlState;
use placewright_engine::Engine;
use placewright_placement::{CandidateQuery, Refusal};
use placewright_scheduler::host_table::HostTable;
use placewright_scheduler::prepare::{PrepareRefusal, Prepared};
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::Scheduler;
use uuid::Uuid;

use super::explanation::{NoHostExplanation, SiblingPlacements};
use super::explanation_cache::{ExplanationCache, ExplanationTime, QueryExplanation};
use super::refusal_reason::RefusalReason;
use crate::handle::now;
use crate::machine::ControlMachine;
use crate::placer::Contention;

/// The exclusive upper bound of scheduler numbers. It is a power of two, so that the remainder of a random number is as
/// random as the number.
const NUMBERS: u64 = 1 << 16;

/// The scheduler behind its lock, and the other data that its handles share.
struct Shared {
    engine: Engine<ControlMachine>,
    /// The host table, the rankings and their caches. Locks are taken in this order: availability reports, scheduler,
    /// state. The lock of the scheduler is never held together with any further lock.
    scheduler: Mutex<Scheduler>,
    contention: Mutex<Contention>,
    explanations: ExplanationCache,
}

/// A handle on control's scheduler. Clones refer to the same scheduler.
#[derive(Clone)]
pub struct SchedulerHandle {
    shared: Arc<Shared>,
}

/// Why a request found no host, for people and for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplanationTexts {
    /// The explanation in one sentence, without a full stop.
    pub sentence: String,
    /// The effect of each filter and of each part of the request, as JSON.
    pub json: String,
}

impl std::fmt::Debug for SchedulerHandle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SchedulerHandle")
            .finish_non_exhaustive()
    }
}

impl SchedulerHandle {
    /// A handle on a scheduler that reads the state of this engine. It catches up with the state
    /// now, so that the first decision does not have to.
    #[must_use]
    pub fn new(engine: Engine<ControlMachine>, scheduler: Scheduler) -> Self {
        let shared = Shared {
            engine,
            scheduler: Mutex::new(scheduler),
            contention: Mutex::default(),
            explanations: ExplanationCache::default(),
        };
        let handle = Self {
            shared: Arc::new(shared),
        };
        handle.with_state(|_, _| ());
        handle
    }

    /// The number of this scheduler among those that race for the same hosts: that of its replica.
    pub(crate) fn number(&self) -> usize {
        usize::try_from(self.engine().origin() % NUMBERS).unwrap_or(0)
    }

    /// The engine whose state the scheduler reads.
    #[must_use]
    pub fn engine(&self) -> &Engine<ControlMachine> {
        &self.shared.engine
    }

    /// Computes a value from the scheduler and the state, after the scheduler has caught up with
    /// the state.
    ///
    /// The state may contain changes that are not durable yet: decisions are checked again when
    /// they become commands. Nothing else is ranked or decided meanwhile, so `compute` should take
    /// milliseconds at most.
    pub fn with_state<T>(&self, compute: impl FnOnce(&mut Scheduler, &ControlState) -> T) -> T {
        self.with_state_at(|scheduler, control, _| compute(scheduler, control))
    }

    /// As [`Self::with_state`], with the sequence of the last journal entry in the state.
    pub fn with_state_at<T>(
        &self,
        compute: impl FnOnce(&mut Scheduler, &ControlState, u64) -> T,
    ) -> T {
        let mut scheduler = self.shared.scheduler.lock();
        self.engine().read_now_at(|machine, sequence| {
            scheduler.observe(machine.placement(), now());
            compute(&mut scheduler, &machine.state, sequence)
        })
    }

    /// Computes a value from the scheduler's host table as it is, without reading the state.
    pub fn read_hosts<T>(&self, compute: impl FnOnce(&HostTable) -> T) -> T {
        compute(self.shared.scheduler.lock().hosts())
    }

    /// An estimate of how often other claims have recently taken the selected hosts first.
    #[must_use]
    pub fn contention(&self) -> Contention {
        *self.shared.contention.lock()
    }

    /// Updates the contention with the outcome of claims. `update` must not take the lock of the
    /// scheduler.
    pub fn update_contention<T>(&self, update: impl FnOnce(&mut Contention) -> T) -> T {
        update(&mut self.shared.contention.lock())
    }

    /// The present moment, as [`Self::explain`] needs it.
    #[must_use]
    pub fn moment(&self) -> ExplanationTime {
        self.shared.explanations.moment()
    }

    /// Explains why a request finds no host on the present state. `since` is a moment after the
    /// refusal: an explanation that was begun later may be reused. This tests every host, with
    /// the scheduler unlocked for most of the time.
    #[must_use]
    pub fn explain(
        &self,
        request: &RequestSpec,
        prepared: &Prepared,
        instance: Uuid,
        since: ExplanationTime,
    ) -> ExplanationTexts {
        let explanations = &self.shared.explanations;
        let query_explanation = explanations.find_or_compute(self.engine(), &prepared.query, since);
        let why = self.with_state(|scheduler, control| {
            let siblings = SiblingPlacements::default();
            let state = &control.placement;
            NoHostExplanation::compute(
                scheduler,
                state,
                request,
                instance,
                query_explanation,
                &siblings,
            )
        });
        ExplanationTexts {
            sentence: why.sentence(),
            json: serde_json::to_string(&why).unwrap_or_default(),
        }
    }

    /// Placement's part of an explanation, computed for one request at a time, and on a thread that may block unless it
    /// takes very little time. `since` is a moment after the query found nothing. `None` if the query names an unknown
    /// resource class or trait, or if the computation on the other thread panicked.
    pub async fn explain_query(
        &self,
        query: CandidateQuery,
        since: ExplanationTime,
    ) -> Option<Arc<QueryExplanation>> {
        let shared = Arc::clone(&self.shared);
        let _computation = shared.explanations.lock_computation().await;
        if let Some(found) = shared.explanations.computed_since(&query, since) {
            return found;
        }
        if let Some(explanation) = shared.explanations.compute_if_quick(&shared.engine, &query) {
            return explanation;
        }
        let shared = Arc::clone(&self.shared);
        let computing = tokio::task::spawn_blocking(move || {
            shared
                .explanations
                .find_or_compute(&shared.engine, &query, since)
        });
        computing.await.ok().flatten()
    }

    /// Changes the scheduler's host table. New hosts are added to the rankings at once, so that no
    /// later decision has to do that for many of them.
    pub fn change_hosts<T>(&self, change: impl FnOnce(&mut HostTable) -> T) -> T {
        let mut scheduler = self.shared.scheduler.lock();
        let changed = change(scheduler.hosts_mut());
        // A host without a slot is unbound. The provider that gives it one may be in placement already.
        if scheduler.hosts().has_unbound_to_look_up() {
            self.engine().read_now(|machine| {
                scheduler.observe(machine.placement(), now());
            });
        }
        changed
    }
}

/// Why no hosts can be searched for a request, as JSON for a fault; empty if the refusal's text has all that is
/// known.
#[must_use]
pub fn prepare_refusal_json(refusal: &PrepareRefusal) -> String {
    let cause = match refusal {
        PrepareRefusal::Prefilter(refusal) => RefusalReason::of_prefilter(refusal),
        PrepareRefusal::BadRequest(_) | PrepareRefusal::NoSuchHost { .. } => None,
    };
    to_json(cause.as_ref())
}

/// Why a claim was refused, as JSON for a fault.
#[must_use]
pub fn claim_refusal_json(refusal: &Refusal) -> String {
    to_json(Some(&RefusalReason::of_claim(refusal)))
}

fn to_json(cause: Option<&RefusalReason>) -> String {
    let json = cause.map(serde_json::to_string);
    json.and_then(Result::ok).unwrap_or_default()
}
