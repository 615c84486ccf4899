//! The first obstacle to a further instance on a host.

use std::collections::BTreeMap;

use placewright_placement::explain::{Constraint, first_failed};
use placewright_placement::{CandidateQuery, ConsumerUuid, ProviderId, State};
use uuid::Uuid;

use super::LimitingFactor;
use super::host_counts::HostCounts;
use crate::request::RequestSpec;
use crate::select::Scheduler;
use crate::select::rules::Rules;
use crate::select::scope::SelectRefusal;
use crate::translate::prepare::Prepared;

/// The first constraint of a query that a host does not pass; [`LimitingFactor::Claim`] if it passes all.
pub(super) fn factor_of_query(
    state: &State,
    query: &CandidateQuery,
    host: ProviderId,
) -> Result<LimitingFactor, SelectRefusal> {
    Ok(match first_failed(state, query, host)? {
        Some(Constraint::Resource { class, .. } | Constraint::Together { class, .. }) => {
            LimitingFactor::ResourceClass(class)
        }
        Some(constraint) => LimitingFactor::Constraint(constraint.to_string()),
        None => LimitingFactor::Claim,
    })
}

/// Whether a query requires or forbids membership in aggregates.
pub(super) fn has_aggregates(query: &CandidateQuery) -> bool {
    let mut groups = query.groups.iter();
    groups.any(|group| !group.member_of.is_empty() || !group.forbidden_aggregates.is_empty())
}

/// The obstacles on hosts, by the traits and aggregates of the hosts.
#[derive(Debug, Default)]
pub(super) struct FactorsByTraits {
    known: BTreeMap<Vec<u32>, LimitingFactor>,
}

/// The number of combinations of traits and aggregates whose limiting factors are kept.
const KNOWN_MAX: usize = 1_000;

impl FactorsByTraits {
    /// The first obstacle on a flat host that cannot serve a query. A trait or an aggregate as obstacle is kept for the
    /// other hosts with the same traits and aggregates.
    pub(super) fn factor(
        &mut self,
        state: &State,
        query: &CandidateQuery,
        host: ProviderId,
    ) -> Result<LimitingFactor, SelectRefusal> {
        let Some(provider) = state.provider(host) else {
            return Ok(LimitingFactor::Claim);
        };
        let mut key: Vec<u32> = provider.traits.iter().map(|id| u32::from(id.0)).collect();
        key.push(u32::MAX);
        if has_aggregates(query) {
            key.extend(provider.aggregates.iter().map(|id| id.0));
        }
        if let Some(factor) = self.known.get(&key) {
            return Ok(factor.clone());
        }
        let factor = factor_of_query(state, query, host)?;
        // Whether a host has too little of a class does not follow from its traits.
        if self.known.len() < KNOWN_MAX && matches!(factor, LimitingFactor::Constraint(_)) {
            self.known.insert(key, factor.clone());
        }
        Ok(factor)
    }
}

impl Scheduler {
    /// Counts the first obstacle to a further instance on each host, after the last instance of a simulation.
    pub(super) fn find_limiting_factors(
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
            let factor = if let Some(filter) = compiled.filters.rejecting_filter(slot) {
                LimitingFactor::Filter(filter.to_owned())
            } else {
                match factor_of_query(state, query, ProviderId(slot))? {
                    LimitingFactor::Claim if rules.satisfying(state, word, bit) == 0 => {
                        LimitingFactor::Rule
                    }
                    factor => factor,
                }
            };
            counts.add_limiting_factor(factor, 1);
        }
        Ok(())
    }
}
