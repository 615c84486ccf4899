//! What placement says of queries that nobody can serve: found out off the path of decisions, and
//! once for all who wait for the same.
//!
//! Looking takes milliseconds in a large fleet. So the scheduler is not locked meanwhile, one thread
//! at most looks for all requests over HTTP, and what was found is told to everybody who was refused
//! the same before the look began.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use placewright_engine::Engine;
use placewright_placement::explain::{Serving, explain_and_serve};
use placewright_placement::slot_set::bits;
use placewright_placement::{CandidateQuery, Explanation, HostSearch, ProviderId, State};
use serde_json::value::RawValue;

use super::Core;
use crate::http::own;
use crate::machine::ControlMachine;

/// How many queries' reasons are kept.
const KEPT_MAX: usize = 16;

/// What placement says of a query.
#[derive(Debug)]
pub(super) struct Reason {
    /// The smallest set of parts of the request that together leave no root of placement.
    pub(super) impossible: Vec<String>,
    /// What each part of the request does to all roots of placement, as
    /// `/placewright/v1/explain` has it.
    pub(super) json: Option<Box<RawValue>>,
    /// Words of the roots that have what the query asks for.
    pub(super) serving: Vec<u64>,
}

impl Reason {
    /// Looks for the reasons, on the state as it is. Nothing for a query that names what does not
    /// exist.
    fn find(state: &State, query: &CandidateQuery) -> Option<Self> {
        let (found, serving) = explain_and_serve(state, query).ok()?;
        let json = own::explain::write(state, &found).finish();
        let text = String::from_utf8(json).unwrap_or_default();
        Some(Self {
            impossible: impossible(&found),
            json: RawValue::from_string(text).ok(),
            serving: all_serving(state, query, serving),
        })
    }
}

fn impossible(found: &Explanation) -> Vec<String> {
    let places = found.smallest.iter().flatten();
    let effects = places.filter_map(|place| found.effects.get(*place));
    effects
        .map(|effect| effect.constraint.to_string())
        .collect()
}

/// Asks the trees that an explanation left open.
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

/// A point in the order of looks.
#[derive(Clone, Copy, Debug)]
pub struct Moment(u64);

/// What a reason was found on: equal ones have equal reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Basis {
    position: u64,
    structure: u64,
}

impl Basis {
    fn of(state: &State) -> Self {
        Self {
            position: state.touched().position(),
            structure: state.touched().structure(),
        }
    }
}

#[derive(Debug)]
struct Kept {
    query: CandidateQuery,
    basis: Basis,
    number: u64,
    reason: Option<Arc<Reason>>,
}

/// The reasons that were found lately.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    /// How many looks began.
    begun: AtomicU64,
    kept: Mutex<VecDeque<Kept>>,
    /// Held by the one request over HTTP that looks.
    lane: tokio::sync::Mutex<()>,
}

impl Reasons {
    /// Now: what is found from now on holds for who was refused before.
    pub(super) fn moment(&self) -> Moment {
        Moment(self.begun.load(Ordering::SeqCst))
    }

    fn kept(&self, admits: impl Fn(&Kept) -> bool) -> Option<Option<Arc<Reason>>> {
        let kept = self.kept.lock();
        let found = kept.iter().rev().find(|one| admits(one));
        found.map(|one| one.reason.clone())
    }

    fn since(&self, query: &CandidateQuery, since: Moment) -> Option<Option<Arc<Reason>>> {
        self.kept(|one| one.number > since.0 && one.query == *query)
    }

    /// The reasons of a query that was refused before a moment. Blocks writers of the engine, not
    /// the scheduler.
    pub(super) fn find(
        &self,
        engine: &Engine<ControlMachine>,
        query: &CandidateQuery,
        since: Moment,
    ) -> Option<Arc<Reason>> {
        if let Some(found) = self.since(query, since) {
            return found;
        }
        let (basis, number, reason) = engine.read_now(|machine| {
            let state = machine.placement();
            let basis = Basis::of(state);
            let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            let known = self.kept(|one| one.basis == basis && one.query == *query);
            let find = || Reason::find(state, query).map(Arc::new);
            (basis, number, known.unwrap_or_else(find))
        });
        let mut kept = self.kept.lock();
        kept.retain(|one| one.query != *query);
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(Kept {
            query: query.clone(),
            basis,
            number,
            reason: reason.clone(),
        });
        reason
    }
}

impl Core {
    /// As [`Reasons::find`], on a thread that nobody waits for, when it is this request's turn.
    pub(super) async fn reason(
        self: &Arc<Self>,
        query: CandidateQuery,
        since: Moment,
    ) -> Option<Arc<Reason>> {
        let _turn = self.reasons.lane.lock().await;
        if let Some(found) = self.reasons.since(&query, since) {
            return found;
        }
        let core = Arc::clone(self);
        let looking = tokio::task::spawn_blocking(move || {
            let engine = &core.placement.engine;
            core.reasons.find(engine, &query, since)
        });
        looking.await.ok().flatten()
    }
}
