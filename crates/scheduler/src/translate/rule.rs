//! Rules for allocation candidates that a query cannot express.

use std::collections::BTreeSet;

use placewright_placement::candidates::CandidateView;
use placewright_placement::{CandidateQuery, ProviderId, State};
use uuid::Uuid;

/// A condition on which providers serve which groups of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CandidateRule {
    /// Different providers serve the groups, as is required of guest NUMA cells.
    DifferentProviders {
        /// The suffixes of the groups.
        groups: Vec<String>,
    },
    /// The provider of a device is below the provider of one of the guest NUMA cells (not cells of the installation).
    BelowAnyCell {
        /// The suffix of the device's group.
        group: String,
        /// The suffixes of the groups of guest NUMA cells.
        cells: Vec<String>,
        /// Whether a device that is below no NUMA node is acceptable.
        may_lack_numa_node: bool,
    },
    /// The providers that serve the groups have a trait.
    Trait {
        /// The suffixes of the groups.
        groups: Vec<String>,
        /// The name of the trait.
        name: &'static str,
    },
    /// The aggregates of the host, if the unsuffixed group requests no resources: a query cannot have such a group, so
    /// its constraints on aggregates cannot be expressed there.
    Host {
        /// The host must be in one aggregate of each inner list.
        member_of: Vec<Vec<Uuid>>,
        /// The host must not be in any of these aggregates.
        forbidden_aggregates: BTreeSet<Uuid>,
    },
}

impl CandidateRule {
    /// Whether any candidate of a host can satisfy the rule.
    #[must_use]
    pub fn admits_host(&self, state: &State, root: ProviderId) -> bool {
        let Self::Host {
            member_of,
            forbidden_aggregates,
        } = self
        else {
            return true;
        };
        let is_in = |aggregate: &Uuid| {
            let id = state.aggregate_id(&aggregate.to_string());
            id.zip(state.provider(root))
                .is_some_and(|(id, host)| host.in_aggregate(id))
        };
        let is_member = member_of
            .iter()
            .all(|aggregates| aggregates.iter().any(is_in));
        is_member && !forbidden_aggregates.iter().any(is_in)
    }

    /// Whether a candidate of the query satisfies the rule.
    #[must_use]
    pub fn admits(
        &self,
        state: &State,
        query: &CandidateQuery,
        candidate: CandidateView<'_>,
    ) -> bool {
        let provider_of = |suffix: &String| {
            let mut groups = query.groups.iter().zip(candidate.mappings());
            let (_, serving) = groups.find(|(group, _)| group.suffix == *suffix)?;
            serving.first().copied()
        };
        match self {
            Self::DifferentProviders { groups } => {
                let mut providers: Vec<_> = groups.iter().filter_map(provider_of).collect();
                let count = providers.len();
                providers.sort_unstable();
                providers.dedup();
                providers.len() == count
            }
            Self::BelowAnyCell {
                group,
                cells,
                may_lack_numa_node,
            } => {
                let Some(device) = provider_of(group) else {
                    return true;
                };
                let cells: Vec<_> = cells.iter().filter_map(provider_of).collect();
                let device_and_ancestors = provider_and_ancestors(state, device);
                cells.is_empty()
                    || device_and_ancestors
                        .iter()
                        .any(|provider| cells.contains(provider))
                    || (*may_lack_numa_node && !is_in_numa_node(state, &device_and_ancestors))
            }
            Self::Trait { groups, name } => {
                let id = state.trait_id(name);
                let has_trait = |provider| {
                    let provider = state.provider(provider);
                    id.zip(provider)
                        .is_some_and(|(id, provider)| provider.has_trait(id))
                };
                groups.iter().filter_map(provider_of).all(has_trait)
            }
            Self::Host { .. } => {
                let providers = candidate.mappings().flatten();
                let mut roots = providers.filter_map(|id| Some(state.provider(*id)?.root));
                // Sharing providers serve the host and are not part of it.
                roots.all(|root| is_sharing(state, root) || self.admits_host(state, root))
            }
        }
    }
}

/// A provider and its ancestors.
fn provider_and_ancestors(state: &State, start: ProviderId) -> Vec<ProviderId> {
    let parent = |id: &ProviderId| state.provider(*id)?.parent;
    std::iter::successors(Some(start), parent).collect()
}

/// Whether any of some providers is a NUMA node, that is, has the standard trait.
fn is_in_numa_node(state: &State, providers: &[ProviderId]) -> bool {
    let Some(numa) = state.trait_id("HW_NUMA_ROOT") else {
        return false;
    };
    let mut providers = providers.iter().filter_map(|id| state.provider(*id));
    providers.any(|provider| provider.has_trait(numa))
}

/// Whether a provider is a sharing provider.
fn is_sharing(state: &State, id: ProviderId) -> bool {
    let sharing = state.sharing_trait().zip(state.provider(id));
    sharing.is_some_and(|(sharing_trait, provider)| provider.has_trait(sharing_trait))
}
