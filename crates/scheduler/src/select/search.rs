//! One search: the best hosts for one query of a request.

use std::cell::RefCell;

use placewright_placement::CandidateQuery;
use placewright_placement::slot_set::SlotSet;

use super::class_cache::{IndexKey, QueryCaches};
use super::scope::SelectRefusal;
use super::search_context::{RequestContext, SearchContext};
use super::tree_results::StateVersion;
use crate::rank::basis::Basis;
use crate::rank::indexed::{Indexed, SharedScores};
use crate::rank::linear::{Linear, Ranges};
use crate::rank::weights::Weights;
use crate::rank::{Ranked, Ranker};

/// The ranker that a search uses.
pub(super) enum RankingMethod<'w> {
    /// An index if possible, else the linear ranker. If a basis is given, it is filled with what the order rests on.
    Indexed(Option<&'w mut Basis>),
    /// The linear ranker. If weights are given, they are filled with the contributions of the weighers.
    Linear(Option<&'w mut Weights>),
}

/// The best hosts for a query, best first. If `listed` is given, no other host can be feasible; these hosts are few, so
/// each of them is weighed without an index.
pub(super) fn best(
    context: &RequestContext<'_>,
    query: &CandidateQuery,
    listed: Option<&SlotSet>,
    mut caches: QueryCaches<'_>,
    shared_scores: &mut SharedScores,
    method: &mut RankingMethod<'_>,
) -> Result<Vec<Ranked>, SelectRefusal> {
    let Some(search) = caches.resume_or_prepare(context.state, query)? else {
        return Ok(Vec::new());
    };
    let version = StateVersion::current(context.state, &search);
    caches.trees.clear_unless_valid(caches.key, version);
    let feasibility = SearchContext {
        request: context,
        search: &search,
        query,
        trees: RefCell::new(caches.trees),
    };
    let (block_count, count) = (search.word_count(), context.scope.count);
    let is_indexed = matches!(method, RankingMethod::Indexed(_)) && listed.is_none();
    let terms = is_indexed.then(|| context.compiled.weighers.terms());
    if let Some(terms) = terms.flatten() {
        let (scores, fleet) = shared_scores.for_terms(&terms, context.hosts);
        let key = IndexKey {
            query: caches.key,
            aggregates: context.hosts.aggregates().version(),
            cell: context.scope.cell,
            state: version,
        };
        let (cached, is_one_off) = (caches.index, caches.is_one_off);
        let mut ranker = Indexed {
            index: cached.update(key, terms, block_count, &fleet, is_one_off),
            scores,
            fleet,
        };
        let ranked = ranker.best(count, &feasibility);
        if let RankingMethod::Indexed(Some(basis)) = method {
            let weighers = &context.compiled.weighers;
            let weighed = weighers.weighers().iter();
            let weighed = weighed.filter(|weigher| weighers.may_add_to_scores(weigher));
            // Only a search that found fewer hosts than it wanted has seen all feasible ones.
            basis.feasible = (ranked.len() < count).then_some(ranked.len());
            basis.fill(context.hosts, weighed.zip(ranker.index.ends()), &ranked);
        }
        return Ok(ranked);
    }
    let mut ranges = Ranges::default();
    let mut ranker = Linear {
        block_count,
        weighers: &context.compiled.weighers,
        listed,
        ranges: matches!(method, RankingMethod::Indexed(Some(_))).then_some(&mut ranges),
        weights: match method {
            RankingMethod::Indexed(_) => None,
            RankingMethod::Linear(weights) => weights.as_deref_mut(),
        },
    };
    let ranked = ranker.best(count, &feasibility);
    if let RankingMethod::Indexed(Some(basis)) = method {
        let weighers = &context.compiled.weighers;
        let weighed = weighers.weighers().iter().zip(ranges.ends);
        let weighed = weighed.filter(|(weigher, _)| weighers.may_add_to_scores(weigher));
        basis.feasible = Some(ranges.feasible);
        basis.fill(context.hosts, weighed, &ranked);
    }
    Ok(ranked)
}
