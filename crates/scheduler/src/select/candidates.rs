//! The allocation candidates of a host for a request, in the form of a claim.

use std::cmp::Ordering;
use std::sync::Arc;

use placewright_placement::{
    AllocationRequest, CandidateQuery, CandidateView, HostSearch, IntentCandidate, ProviderId,
    State,
};
use smallvec::SmallVec;
use uuid::Uuid;

use super::Scheduler;
use super::candidate_rules::rules_on;
use super::scope::SelectRefusal;
use super::search_context::CANDIDATES_TRIED_MAX;
use crate::translate::prepare::Prepared;

/// By suffix of a group: the providers that serve the group, as in Placement's allocation candidates, with what the
/// group gets of each. Empty for a query without suffixed groups.
pub type Mappings = Vec<(String, Vec<AllocationRequest>)>;

/// The providers of each group of some mappings, without amounts.
#[must_use]
pub fn providers_of_groups(mappings: &Mappings) -> Vec<(String, Vec<Uuid>)> {
    let groups = mappings.iter().map(|(suffix, requests)| {
        let providers = requests.iter().map(|request| request.provider);
        (suffix.clone(), providers.collect())
    });
    groups.collect()
}

impl Scheduler {
    /// The candidates of a host for a request, at most `limit` of them.
    ///
    /// # Errors
    ///
    /// As [`Self::rank`].
    pub fn candidates(
        &self,
        state: &State,
        prepared: &Prepared,
        slot: u32,
        limit: usize,
    ) -> Result<Vec<IntentCandidate>, SelectRefusal> {
        let candidates = self.candidates_with_mappings(state, prepared, slot, limit)?;
        Ok(candidates
            .into_iter()
            .map(|(candidate, _)| candidate)
            .collect())
    }

    /// As [`Self::candidates`], with the providers that serve each group.
    ///
    /// # Errors
    ///
    /// As [`Self::rank`].
    pub fn candidates_with_mappings(
        &self,
        state: &State,
        prepared: &Prepared,
        slot: u32,
        limit: usize,
    ) -> Result<Vec<(IntentCandidate, Mappings)>, SelectRefusal> {
        let host = ProviderId(slot);
        for query in std::iter::once(&prepared.query).chain(&prepared.fallback) {
            let is_fallback = !std::ptr::eq(query, &prepared.query);
            let cached = prepared
                .class
                .and_then(|class| self.class_cache.resume(state, class, is_fallback));
            let search = match cached {
                Some(search) => search,
                None => match HostSearch::new(state, query)? {
                    Some(search) => search,
                    None => continue,
                },
            };
            let candidates = self.candidates_of_host(state, &search, query, prepared, host, limit);
            if !candidates.is_empty() {
                return Ok(candidates);
            }
        }
        Ok(Vec::new())
    }

    /// The candidates of a host for one query that satisfy the request's rules, best first.
    pub(super) fn candidates_of_host(
        &self,
        state: &State,
        search: &HostSearch<'_>,
        query: &CandidateQuery,
        prepared: &Prepared,
        host: ProviderId,
        limit: usize,
    ) -> Vec<(IntentCandidate, Mappings)> {
        let rules = rules_on(prepared, self.hosts.service_versions(), host.0);
        let fragmentation_data = self.hosts.fragmentation_data();
        // Rules may exclude candidates, and candidates are sorted by the loss of devices. So more of them are tried
        // than returned.
        let tried_max = if !prepared.translation.has_rules() && fragmentation_data.is_none() {
            limit
        } else {
            CANDIDATES_TRIED_MAX.max(limit)
        };
        let tried = search.candidates_of(host, tried_max);
        let Some(provider) = state.provider(host) else {
            return Vec::new();
        };
        let satisfies_rules = |candidate: &CandidateView<'_>| {
            let mut rules = rules.clone();
            rules.all(|rule| rule.admits(state, query, *candidate))
        };
        let mut usable: Vec<CandidateView<'_>> = tried.iter().filter(satisfies_rules).collect();
        if let Some(data) = fragmentation_data.filter(|_| usable.len() > 1) {
            // Candidates by which the expected loss of devices grows least come first.
            usable.sort_by_cached_key(|candidate| TotalOrder(data.loss_growth(state, candidate)));
        }
        let candidates = usable.iter().take(limit).map(|candidate| {
            let intent_candidate = IntentCandidate {
                host: provider.uuid,
                allocations: allocations(state, candidate),
            };
            let mappings = mappings(state, query, candidate, &intent_candidate.allocations);
            (intent_candidate, mappings)
        });
        candidates.collect()
    }
}

/// A number with a total order, for sorting.
#[derive(Clone, Copy, PartialEq)]
struct TotalOrder(f64);

impl Eq for TotalOrder {}

impl Ord for TotalOrder {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for TotalOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The allocations of a candidate, grouped by provider. In a candidate, those of one provider follow each
/// other.
fn allocations(state: &State, candidate: &CandidateView<'_>) -> Arc<[AllocationRequest]> {
    let mut allocations: SmallVec<[AllocationRequest; 4]> = SmallVec::new();
    let classes_max = candidate.allocations().len();
    for allocation in candidate.allocations() {
        let Some(provider) = state.provider(allocation.provider) else {
            continue;
        };
        let amount = (
            state.class_name(allocation.class).to_owned(),
            i64::from(allocation.amount),
        );
        match allocations
            .last_mut()
            .filter(|last| last.provider == provider.uuid)
        {
            Some(last) => last.resources.push(amount),
            None => {
                let mut resources = Vec::with_capacity(classes_max);
                resources.push(amount);
                allocations.push(AllocationRequest {
                    provider: provider.uuid,
                    resources,
                });
            }
        }
    }
    Arc::from_iter(allocations)
}

/// The mappings of a candidate. A suffixed group has all of its resources from one provider, and the unsuffixed group
/// has the rest.
fn mappings(
    state: &State,
    query: &CandidateQuery,
    candidate: &CandidateView<'_>,
    allocations: &[AllocationRequest],
) -> Mappings {
    if query.groups.iter().all(|group| group.suffix.is_empty()) {
        return Vec::new();
    }
    let mut rest = allocations.to_vec();
    let mut mappings: Mappings = Vec::with_capacity(query.groups.len());
    for (group, providers) in query.groups.iter().zip(candidate.mappings()) {
        let providers = providers.iter().filter_map(|id| state.provider(*id));
        let requests = providers.map(|provider| AllocationRequest {
            provider: provider.uuid,
            resources: match group.suffix.is_empty() {
                true => Vec::new(),
                false => group.resources.clone(),
            },
        });
        let requests: Vec<AllocationRequest> = requests.collect();
        requests
            .iter()
            .for_each(|request| subtract(&mut rest, request));
        mappings.push((group.suffix.clone(), requests));
    }
    let unsuffixed = mappings.iter_mut().filter(|(suffix, _)| suffix.is_empty());
    for request in unsuffixed.flat_map(|(_, requests)| requests) {
        let of_provider = rest
            .iter_mut()
            .find(|rest| rest.provider == request.provider);
        if let Some(rest) = of_provider {
            request.resources = std::mem::take(&mut rest.resources);
        }
    }
    mappings
}

/// Takes a request away from allocations of the same provider.
fn subtract(allocations: &mut [AllocationRequest], request: &AllocationRequest) {
    let mut allocations = allocations.iter_mut();
    let Some(rest) = allocations.find(|rest| rest.provider == request.provider) else {
        return;
    };
    for (class, amount) in &request.resources {
        for (_, rest) in rest.resources.iter_mut().filter(|(name, _)| name == class) {
            *rest -= amount;
        }
    }
    rest.resources.retain(|(_, amount)| *amount > 0);
}
