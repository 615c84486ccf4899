//! The first obstacle to a further instance on a host.

use std::collections::BTreeMap;

use placewright_placement::explain::{Constraint, first_failed};
use placewright_placement::{CandidateQuery, ConsumerUuid, ProviderId, State};
use uuid::Uuid;

use super::Bound;
use super::host_counts::HostCounts;
use crate::request::RequestSpec;
use crate::select::Scheduler;
use crate::select::rules::Rules;
use crate::select::scope::SelectRefusal;
use crate::translate::prepare::Prepared;

/// The first constraint of a query that a host does not pass; [`Bound::Claim`] if it passes all.
pub(super) fn bound_by_query(
    state: &State,
    query: &CandidateQuery,
    host: ProviderId,
) -> Result<Bound, SelectRefusal> {
    Ok(match first_failed(state, query, host)? {
        Some(Constraint::Resource { class, .. } | Constraint::Together { class, .. }) => {
            Bound::ResourceClass(class)
        }
        Some(constraint) => Bound::Constraint(constraint.to_string()),
        None => Bound::Claim,
    })
}

/// Whether a query requires or forbids membership in aggregates.
pub(super) fn has_aggregates(query: &CandidateQuery) -> bool {
    let mut groups = query.groups.iter();
    groups.any(|group| !group.member_of.is_empty() || !group.forbidden_aggregates.is_empty())
}

/// The obstacles on hosts, by the traits and aggregates of the hosts.
#[derive(Debug, Default)]
pub(super) struct BoundsByTraits {
    known: BTreeMap<Vec<u32>, Bound>,
}

/// The number of combinations of traits and aggregates whose bounds are kept.
const KNOWN_MAX: usize = 1_000;

impl BoundsByTraits {
    /// The first obstacle on a flat host that cannot serve a query. A trait or an aggregate as obstacle is kept for the
    /// other hosts with the same traits and aggregates.
    pub(super) fn bound(
        &mut self,
        state: &State,
        query: &CandidateQuery,
        host: ProviderId,
    ) -> Result<Bound, SelectRefusal> {
        let Some(provider) = state.provider(host) else {
            return Ok(Bound::Claim);
        };
        let mut key: Vec<u32> = provider.traits.iter().map(|id| u32::from(id.0)).collect();
        key.push(u32::MAX);
        if has_aggregates(query) {
            key.extend(provider.aggregates.iter().map(|id| id.0));
        }
        if let Some(bound) = self.known.get(&key) {
            return Ok(bound.clone());
        }
        let bound = bound_by_query(state, query, host)?;
        // Whether a host has too little of a class does not follow from its traits.
        if self.known.len() < KNOWN_MAX && matches!(bound, Bound::Constraint(_)) {
            self.known.insert(key, bound.clone());
        }
        Ok(bound)
    }
}

impl Scheduler {
    /// Counts the first obstacle to a further instance on each host, after the last instance of a simulation.
    pub(super) fn find_bounds(
        &self,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        counts: &mut HostCounts,
    ) -> Result<(), SelectRefusal> {
        let instance = Uuid::nil();
        let compiled = self.policy.compile(request, &self.hosts, instance)?;
        let rules = Rules::bind(state, request, ConsumerUuid::from_uuid(instance))?;
        let query = prepared.fallback.as_ref().unwrap_or(&prepared.query);
        for slot in self.hosts.slots().iter() {
            let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
            let bound = if let Some(filter) = compiled.filters.rejecting_filter(slot) {
                Bound::Filter(filter.to_owned())
            } else {
                match bound_by_query(state, query, ProviderId(slot))? {
                    Bound::Claim if rules.satisfying(state, word, bit) == 0 => Bound::Rule,
                    bound => bound,
                }
            };
            counts.add_bound(bound, 1);
        }
        Ok(())
    }
}
