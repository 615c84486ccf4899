//! The candidates of a host for a request, ready to be claimed.

use std::cmp::Ordering;

use placewright_placement::{
    AllocationRequest, CandidateQuery, CandidateView, HostSearch, IntentCandidate, ProviderId,
    State,
};
use uuid::Uuid;

use super::Scheduler;
use super::scope::SelectRefusal;
use super::search_context::CANDIDATES_TRIED_MAX;
use crate::translate::prepare::Prepared;

/// Which providers serve each group of a granular request, by suffix, as in Placement's allocation
/// candidates. Empty for a request that is not granular.
pub type Mappings = Vec<(String, Vec<Uuid>)>;

impl Scheduler {
    /// The candidates of a host for a request, at most `most` of them, ready to be claimed.
    ///
    /// # Errors
    ///
    /// As [`Self::rank`].
    pub fn candidates(
        &self,
        state: &State,
        prepared: &Prepared,
        slot: u32,
        most: usize,
    ) -> Result<Vec<IntentCandidate>, SelectRefusal> {
        let found = self.candidates_with_mappings(state, prepared, slot, most)?;
        Ok(found.into_iter().map(|(candidate, _)| candidate).collect())
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
        most: usize,
    ) -> Result<Vec<(IntentCandidate, Mappings)>, SelectRefusal> {
        let host = ProviderId(slot);
        for query in std::iter::once(&prepared.query).chain(&prepared.fallback) {
            let is_fallback = !std::ptr::eq(query, &prepared.query);
            let kept = prepared
                .class
                .and_then(|class| self.classes.resolved(state, class, is_fallback));
            let search = match kept {
                Some(search) => search,
                None => match HostSearch::new(state, query)? {
                    Some(search) => search,
                    None => continue,
                },
            };
            let found = self.of_host(state, &search, query, prepared, host, most);
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    fn of_host(
        &self,
        state: &State,
        search: &HostSearch<'_>,
        query: &CandidateQuery,
        prepared: &Prepared,
        host: ProviderId,
        most: usize,
    ) -> Vec<(IntentCandidate, Mappings)> {
        let rules = &prepared.translation.rules;
        let packing = self.hosts.packing();
        let tried = if rules.is_empty() && packing.is_none() {
            most
        } else {
            CANDIDATES_TRIED_MAX.max(most)
        };
        let of_host = search.of_host(host, tried);
        let Some(provider) = state.provider(host) else {
            return Vec::new();
        };
        let keeps_rules = |candidate: &CandidateView<'_>| {
            let mut rules = rules.iter();
            rules.all(|rule| rule.admits(state, query, *candidate))
        };
        let mut usable: Vec<CandidateView<'_>> = of_host.iter().filter(keeps_rules).collect();
        if let Some(packing) = packing.filter(|_| usable.len() > 1) {
            // Candidates with the least expected loss of devices come first.
            usable.sort_by_cached_key(|one| TotalOrder(packing.loss(state, one)));
        }
        let found = usable.iter().take(most).map(|candidate| {
            let ready = IntentCandidate {
                host: provider.uuid,
                allocations: allocations(state, candidate),
            };
            (ready, mappings(state, query, candidate))
        });
        found.collect()
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

fn allocations(state: &State, candidate: &CandidateView<'_>) -> Vec<AllocationRequest> {
    let mut allocations: Vec<AllocationRequest> = Vec::new();
    for one in candidate.allocations() {
        let Some(from) = state.provider(one.provider) else {
            continue;
        };
        let amount = (
            state.class_name(one.class).to_owned(),
            i64::from(one.amount),
        );
        match allocations
            .last_mut()
            .filter(|last| last.provider == from.uuid)
        {
            Some(last) => last.resources.push(amount),
            None => allocations.push(AllocationRequest {
                provider: from.uuid,
                resources: vec![amount],
            }),
        }
    }
    allocations
}

fn mappings(state: &State, query: &CandidateQuery, candidate: &CandidateView<'_>) -> Mappings {
    if query.groups.iter().all(|group| group.suffix.is_empty()) {
        return Vec::new();
    }
    let groups = query.groups.iter().zip(candidate.mappings());
    let named = groups.map(|(group, providers)| {
        let providers = providers.iter().filter_map(|id| state.provider(*id));
        (
            group.suffix.clone(),
            providers.map(|one| one.uuid).collect(),
        )
    });
    named.collect()
}
