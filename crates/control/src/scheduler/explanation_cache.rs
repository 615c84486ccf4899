//! Explanations of placement for queries without candidates: computed outside of decisions, and
//! once for all requests that wait for the same one.
//!
//! An explanation takes milliseconds in a large fleet. The scheduler is not locked meanwhile, at
//! most one thread computes explanations for requests over HTTP, and the result is given to
//! every request whose equal query was refused before the computation began.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use placewright_engine::Engine;
use placewright_placement::explain::{Serving, explain_and_serve};
use placewright_placement::slot_set::bits;
use placewright_placement::{CandidateQuery, Explanation, HostSearch, ProviderId, State};
use serde_json::value::RawValue;

use crate::explanation;
use crate::machine::ControlMachine;

/// The most explanations that are cached.
const CACHED_MAX: usize = 16;

/// Placement's explanation of a query.
#[derive(Debug)]
pub struct QueryExplanation {
    /// The smallest set of parts of the request that together leave no root provider.
    pub(super) impossible: Vec<String>,
    /// The effect of each part of the request on all root providers, as in
    /// `/placewright/v1/explain`.
    pub(super) json: Option<Box<RawValue>>,
    /// A mask of the root providers that satisfy the query, 64 to a word.
    pub(super) serving: Vec<u64>,
}

impl QueryExplanation {
    /// Explains a query on the present state. None for a query that names what does not exist.
    fn find(state: &State, query: &CandidateQuery) -> Option<Self> {
        let (found, serving) = explain_and_serve(state, query).ok()?;
        let json = explanation::to_json(state, &found);
        Some(Self {
            impossible: impossible(&found),
            json: RawValue::from_string(json).ok(),
            serving: all_serving(state, query, serving),
        })
    }
}

fn impossible(found: &Explanation) -> Vec<String> {
    let indexes = found.smallest.iter().flatten();
    let effects = indexes.filter_map(|index| found.effects.get(*index));
    effects
        .map(|effect| effect.constraint.to_string())
        .collect()
}

/// The mask of all roots that serve a query: those that its explanation found, and those of the trees that
/// the explanation left undecided.
fn all_serving(state: &State, query: &CandidateQuery, mut serving: Serving) -> Vec<u64> {
    if serving.unknown.iter().all(|word| *word == 0) {
        return serving.roots;
    }
    if let Ok(Some(search)) = HostSearch::new(state, query) {
        for (word, unknown) in serving.unknown.iter().enumerate() {
            let fitting = bits(*unknown, word).filter(|slot| search.fits(ProviderId(*slot)));
            serving.roots[word] =
                fitting.fold(serving.roots[word], |mask, slot| mask | 1 << (slot % 64));
        }
    }
    serving.roots
}

/// A logical time: how many computations of explanations had begun.
#[derive(Clone, Copy, Debug)]
pub struct ExplanationTime {
    begun: u64,
}

/// The version of the state that an explanation is based on; equal ones have equal explanations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StateVersion {
    /// The position in the tree change log.
    position: u64,
    /// The version of the structure.
    structure: u64,
}

impl StateVersion {
    fn of(state: &State) -> Self {
        Self {
            position: state.tree_changes().position(),
            structure: state.tree_changes().structure_version(),
        }
    }
}

/// A cached explanation, with the query and the state that it belongs to.
#[derive(Debug)]
struct CachedExplanation {
    query: CandidateQuery,
    basis: StateVersion,
    /// Which computation it was, counted from 1.
    number: u64,
    reason: Option<Arc<QueryExplanation>>,
}

/// Recent explanations, and the lock of the one that is being computed for HTTP.
#[derive(Debug, Default)]
pub(super) struct ExplanationCache {
    /// How many computations have begun.
    begun: AtomicU64,
    cached: Mutex<VecDeque<CachedExplanation>>,
    /// Held by the one request over HTTP that computes an explanation.
    computation: tokio::sync::Mutex<()>,
}

impl ExplanationCache {
    /// The present moment. An explanation whose computation begins after it is valid for every refusal before
    /// it.
    pub(super) fn moment(&self) -> ExplanationTime {
        ExplanationTime {
            begun: self.begun.load(Ordering::SeqCst),
        }
    }

    /// The latest cached explanation that is valid. The inner option is `None` for a query that names what
    /// does not exist.
    fn cached(
        &self,
        is_valid: impl Fn(&CachedExplanation) -> bool,
    ) -> Option<Option<Arc<QueryExplanation>>> {
        let cached = self.cached.lock();
        let found = cached
            .iter()
            .rev()
            .find(|explanation| is_valid(explanation));
        found.map(|explanation| explanation.reason.clone())
    }

    /// Waits until the caller, a request over HTTP, may compute an explanation; one does at a time.
    pub(super) async fn lock_computation(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.computation.lock().await
    }

    /// An explanation that was begun after `since`, if there is one. The inner option is `None` for a query
    /// that names what does not exist.
    pub(super) fn computed_since(
        &self,
        query: &CandidateQuery,
        since: ExplanationTime,
    ) -> Option<Option<Arc<QueryExplanation>>> {
        self.cached(|explanation| explanation.number > since.begun && explanation.query == *query)
    }

    /// Explains a query that was refused before `since`; `None` if it names what does not exist. It blocks
    /// writers of the engine, but not the scheduler.
    pub(super) fn find(
        &self,
        engine: &Engine<ControlMachine>,
        query: &CandidateQuery,
        since: ExplanationTime,
    ) -> Option<Arc<QueryExplanation>> {
        if let Some(found) = self.computed_since(query, since) {
            return found;
        }
        let (basis, number, reason) = engine.read_now(|machine| {
            let state = machine.placement();
            let basis = StateVersion::of(state);
            let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            let known = self
                .cached(|explanation| explanation.basis == basis && explanation.query == *query);
            let find = || QueryExplanation::find(state, query).map(Arc::new);
            (basis, number, known.unwrap_or_else(find))
        });
        let mut cached = self.cached.lock();
        cached.retain(|explanation| explanation.query != *query);
        if cached.len() >= CACHED_MAX {
            cached.pop_front();
        }
        cached.push_back(CachedExplanation {
            query: query.clone(),
            basis,
            number,
            reason: reason.clone(),
        });
        reason
    }
}
