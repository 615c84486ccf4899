//! Explanations of placement for queries without candidates: computed outside of decisions, and
//! once for all requests that wait for the same explanation.
//!
//! An explanation takes milliseconds in a large fleet. The scheduler is not locked meanwhile, at
//! most one thread computes explanations for requests over HTTP, and the result is given to
//! every request whose equal query was refused before the computation began.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use placewright_engine::Engine;
use placewright_placement::explain::{Serving, explain_with_serving};
use placewright_placement::slot_set::bits;
use placewright_placement::{CandidateQuery, Explanation, HostSearch, ProviderId, State};
use serde_json::value::RawValue;

use crate::explanation;
use crate::machine::ControlMachine;

/// The most explanations that are cached.
const CACHED_MAX: usize = 16;
/// Up to how many providers an explanation may be computed by the thread that needs it, if the query has one group of
/// at most [`QUICK_CONSTRAINTS_MAX`] constraints. It then takes about as long as the switch to another thread and back:
/// 0.1 ms for 10,000 hosts and five constraints.
const QUICK_PROVIDERS_MAX: usize = 16_384;
/// With more constraints, the search for the smallest impossible set may take milliseconds.
const QUICK_CONSTRAINTS_MAX: usize = 10;

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

/// What is read of the state for a [`QueryExplanation`]. The explanation is made from it without the state's lock,
/// because commands may wait for that lock.
struct ReadExplanation {
    impossible: Vec<String>,
    json: String,
    serving: Vec<u64>,
}

impl ReadExplanation {
    /// Explains a query on the present state. `None` for a query that names an unknown resource class or trait.
    fn read(state: &State, query: &CandidateQuery) -> Option<Self> {
        let (found, serving) = explain_with_serving(state, query).ok()?;
        Some(Self {
            impossible: impossible(&found),
            json: explanation::to_json(state, &found),
            serving: all_serving(state, query, serving),
        })
    }
}

impl From<ReadExplanation> for QueryExplanation {
    fn from(read: ReadExplanation) -> Self {
        Self {
            impossible: read.impossible,
            json: RawValue::from_string(read.json).ok(),
            serving: read.serving,
        }
    }
}

/// The smallest set of constraints that no root satisfies, as texts.
fn impossible(found: &Explanation) -> Vec<String> {
    let indexes = found.smallest.iter().flatten();
    let effects = indexes.filter_map(|index| found.effects.get(*index));
    effects
        .map(|effect| effect.constraint.to_string())
        .collect()
}

/// The mask of all roots that serve a query. The explanation of the query leaves some trees undecided; these are
/// searched here.
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

/// Whether a query has one group, and so few constraints that an explanation takes little time.
fn has_few_constraints(query: &CandidateQuery) -> bool {
    let [group] = &*query.groups else {
        return false;
    };
    let lists = group.required.iter().chain(&group.member_of);
    let named_count: usize = lists.map(Vec::len).sum();
    let forbidden_count = group.forbidden.len() + group.forbidden_aggregates.len();
    let of_root = query.root_required.len() + query.root_forbidden.len();
    group.resources.len() + named_count + forbidden_count + of_root <= QUICK_CONSTRAINTS_MAX
}

/// A logical time: how many computations of explanations had begun.
#[derive(Clone, Copy, Debug)]
pub struct ExplanationTime {
    begun: u64,
}

/// The version of the state that an explanation is based on. At equal versions a query has equal explanations.
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

/// An explanation that was found or read, with the state that it belongs to.
struct NumberedExplanation {
    basis: StateVersion,
    /// The number of the computation that made the explanation, counted from 1.
    number: u64,
    source: ExplanationSource,
}

/// Where an explanation comes from. `None` stands for a query that names an unknown resource class or trait.
enum ExplanationSource {
    Cached(Option<Arc<QueryExplanation>>),
    State(Option<ReadExplanation>),
}

/// A cached explanation, with the query and the state that it belongs to.
#[derive(Debug)]
struct CachedExplanation {
    query: CandidateQuery,
    basis: StateVersion,
    /// The number of the computation that made the explanation, counted from 1.
    number: u64,
    explanation: Option<Arc<QueryExplanation>>,
}

/// Recent explanations, and the lock that a request over HTTP holds while it computes one.
#[derive(Debug, Default)]
pub(super) struct ExplanationCache {
    /// How many computations have begun.
    begun: AtomicU64,
    cached: Mutex<VecDeque<CachedExplanation>>,
    /// Held by the one request over HTTP that computes an explanation.
    computation: tokio::sync::Mutex<()>,
}

impl ExplanationCache {
    /// The present moment. An explanation whose computation begins after a moment is valid for every refusal before
    /// that moment.
    pub(super) fn moment(&self) -> ExplanationTime {
        ExplanationTime {
            begun: self.begun.load(Ordering::SeqCst),
        }
    }

    /// The latest cached explanation that is valid. The inner option is `None` for a query that names an unknown
    /// resource class or trait.
    fn cached(
        &self,
        is_valid: impl Fn(&CachedExplanation) -> bool,
    ) -> Option<Option<Arc<QueryExplanation>>> {
        let all = self.cached.lock();
        let found = all.iter().rev().find(|cached| is_valid(cached));
        found.map(|cached| cached.explanation.clone())
    }

    /// Waits until the caller, a request over HTTP, may compute an explanation; one does at a time.
    pub(super) async fn lock_computation(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.computation.lock().await
    }

    /// An explanation that was begun after `since`, if there is one. The inner option is `None` for a query that names
    /// an unknown resource class or trait.
    pub(super) fn computed_since(
        &self,
        query: &CandidateQuery,
        since: ExplanationTime,
    ) -> Option<Option<Arc<QueryExplanation>>> {
        self.cached(|cached| cached.number > since.begun && cached.query == *query)
    }

    /// The explanation of a query, cached or computed, if it takes so little time that it may be computed on a thread
    /// that must not block. Trees and hosts in reach of sharing providers may have to be searched one by one, so none
    /// takes little time if there are any. The inner option is `None` for a query that names an unknown resource class
    /// or trait.
    pub(super) fn compute_if_quick(
        &self,
        engine: &Engine<ControlMachine>,
        query: &CandidateQuery,
    ) -> Option<Option<Arc<QueryExplanation>>> {
        if !has_few_constraints(query) {
            return None;
        }
        let found = engine.read_now(|machine| {
            let state = machine.placement();
            let sharing_trait = state.sharing_trait();
            let is_sharing = sharing_trait.is_some_and(|id| !state.trait_members(id).is_empty());
            let is_quick = state.provider_slots() <= QUICK_PROVIDERS_MAX
                && state.non_roots().is_empty()
                && !is_sharing;
            is_quick.then(|| self.find_or_read(state, query))
        });
        found.map(|found| self.insert(query, found))
    }

    /// The explanation of a query that was refused before `since`, cached or computed; `None` if the query names an
    /// unknown resource class or trait. Computing blocks writers of the engine, but not the scheduler.
    pub(super) fn find_or_compute(
        &self,
        engine: &Engine<ControlMachine>,
        query: &CandidateQuery,
        since: ExplanationTime,
    ) -> Option<Arc<QueryExplanation>> {
        if let Some(found) = self.computed_since(query, since) {
            return found;
        }
        let found = engine.read_now(|machine| self.find_or_read(machine.placement(), query));
        self.insert(query, found)
    }

    /// The explanation of a query on this state, cached or read from it.
    fn find_or_read(&self, state: &State, query: &CandidateQuery) -> NumberedExplanation {
        let basis = StateVersion::of(state);
        // A reused explanation counts as a new computation, because it is valid for all refusals until now.
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let reusable = self.cached(|cached| cached.basis == basis && cached.query == *query);
        let source = match reusable {
            Some(explanation) => ExplanationSource::Cached(explanation),
            None => ExplanationSource::State(ReadExplanation::read(state, query)),
        };
        NumberedExplanation {
            basis,
            number,
            source,
        }
    }

    /// Caches an explanation, and returns it.
    fn insert(
        &self,
        query: &CandidateQuery,
        found: NumberedExplanation,
    ) -> Option<Arc<QueryExplanation>> {
        let explanation = match found.source {
            ExplanationSource::Cached(explanation) => explanation,
            ExplanationSource::State(read) => read.map(|read| Arc::new(read.into())),
        };
        let mut cached = self.cached.lock();
        cached.retain(|older| older.query != *query);
        if cached.len() >= CACHED_MAX {
            cached.pop_front();
        }
        cached.push_back(CachedExplanation {
            query: query.clone(),
            basis: found.basis,
            number: found.number,
            explanation: explanation.clone(),
        });
        explanation
    }
}
