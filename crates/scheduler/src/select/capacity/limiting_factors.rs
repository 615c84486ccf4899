//! The first obstacle to a further instance on a host.

use placewright_placement::explain::{Constraint, FirstFailed};
use placewright_placement::{CandidateQuery, ConsumerUuid, ProviderId, State, Taken};
use uuid::Uuid;

use super::LimitingFactor;
use super::host_counts::HostCounts;
use crate::request::RequestSpec;
use crate::select::Scheduler;
use crate::select::rules::Rules;
use crate::select::scope::SelectRefusal;
use crate::translate::prepare::Prepared;

/// The first constraint of a query that a host does not pass, as a limiting factor; [`LimitingFactor::Claim`] if it
/// passes all.
pub(super) fn factor_of(first_failed: Option<&Constraint>) -> LimitingFactor {
    match first_failed {
        Some(Constraint::Resource { class, .. } | Constraint::Together { class, .. }) => {
            LimitingFactor::ResourceClass(class.clone())
        }
        Some(constraint) => LimitingFactor::Constraint(constraint.to_string()),
        None => LimitingFactor::Claim,
    }
}

/// Whether a query requires or forbids membership in aggregates.
pub(super) fn has_aggregates(query: &CandidateQuery) -> bool {
    let mut groups = query.groups.iter();
    groups.any(|group| !group.member_of.is_empty() || !group.forbidden_aggregates.is_empty())
}

/// The obstacles on flat hosts, by the traits and aggregates of the hosts.
#[derive(Debug, Default)]
pub(super) struct KnownFactors {
    by_traits: Map<Vec<u32>, LimitingFactor>,
    /// A buffer for the key of a host.
    key: Vec<u32>,
}

type Map<K, V> = hashbrown::HashMap<K, V, foldhash::quality::FixedState>;

/// The number of combinations of traits and aggregates whose limiting factors are kept.
const KNOWN_MAX: usize = 1_000;

impl KnownFactors {
    /// Counts the first obstacle on a flat host that cannot serve a query. If the obstacle is a trait or an aggregate,
    /// it is kept for the other hosts with the same traits and aggregates. Returns whether the obstacle was kept
    /// before, so that nothing had to be searched.
    pub(super) fn add_to(
        &mut self,
        counts: &mut HostCounts,
        state: &State,
        query: &CandidateQuery,
        host: ProviderId,
        first_failed: &mut FirstFailed<'_>,
    ) -> bool {
        let Some(provider) = state.provider(host) else {
            counts.add_limiting_factor(&LimitingFactor::Claim, 1);
            return true;
        };
        let key = &mut self.key;
        key.clear();
        key.extend(provider.traits.iter().map(|id| u32::from(id.0)));
        // Separates the numbers of traits from those of aggregates.
        key.push(u32::MAX);
        if has_aggregates(query) {
            key.extend(provider.aggregates.iter().map(|id| id.0));
        }
        if let Some(factor) = self.by_traits.get(key) {
            counts.add_limiting_factor(factor, 1);
            return true;
        }
        let factor = factor_of(first_failed.of(host, &Taken::default()));
        counts.add_limiting_factor(&factor, 1);
        // Whether a host has too little of a class, and whether a tree is the one that the query names, does not follow
        // from its traits.
        let names_tree = query.groups.iter().any(|group| group.in_tree.is_some());
        let follows_from_traits = matches!(factor, LimitingFactor::Constraint(_)) && !names_tree;
        if follows_from_traits && self.by_traits.len() < KNOWN_MAX {
            self.by_traits.insert(key.clone(), factor);
        }
        false
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
        // If no host is found, it is the query that was tried last whose constraints are the obstacles.
        let query = prepared.fallback.as_ref().unwrap_or(&prepared.query);
        let mut first_failed = FirstFailed::new(state, query)?;
        let nothing = Taken::default();
        for slot in self.hosts.slots().iter() {
            let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
            let factor = if let Some(filter) = compiled.filters.rejecting_filter(slot) {
                LimitingFactor::Filter(filter.to_owned())
            } else {
                match factor_of(first_failed.of(ProviderId(slot), &nothing)) {
                    LimitingFactor::Claim if rules.satisfying(state, word, bit) == 0 => {
                        LimitingFactor::Rule
                    }
                    factor => factor,
                }
            };
            counts.add_limiting_factor(&factor, 1);
        }
        Ok(())
    }
}
