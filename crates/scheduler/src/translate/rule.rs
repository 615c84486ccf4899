//! What must hold for a candidate beyond what a query can say.

use placewright_placement::{ProviderId, State};

/// A condition on which providers serve which groups of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CandidateRule {
    /// The groups are served by different providers: the cells of a guest.
    Apart {
        /// Their suffixes.
        groups: Vec<String>,
    },
    /// The provider of a group lies under that of one of the cells: a device near its guest.
    NearAny {
        /// The device's suffix.
        group: String,
        /// The cells' suffixes.
        cells: Vec<String>,
        /// Whether a device that belongs to no NUMA node will do.
        may_be_nowhere: bool,
    },
}

impl CandidateRule {
    /// Whether a candidate keeps the rule. `provider_of` says who serves a group; groups that the
    /// candidate does not have keep every rule.
    pub fn holds(&self, state: &State, provider_of: impl Fn(&str) -> Option<ProviderId>) -> bool {
        match self {
            Self::Apart { groups } => {
                let mut providers: Vec<_> = groups
                    .iter()
                    .filter_map(|group| provider_of(group))
                    .collect();
                let count = providers.len();
                providers.sort_unstable();
                providers.dedup();
                providers.len() == count
            }
            Self::NearAny {
                group,
                cells,
                may_be_nowhere,
            } => {
                let Some(device) = provider_of(group) else {
                    return true;
                };
                let cells: Vec<_> = cells.iter().filter_map(|cell| provider_of(cell)).collect();
                let way_up = ancestors(state, device);
                cells.is_empty()
                    || way_up.iter().any(|provider| cells.contains(provider))
                    || (*may_be_nowhere && !is_in_numa_node(state, &way_up))
            }
        }
    }
}

/// A provider and everything that it is a part of.
fn ancestors(state: &State, start: ProviderId) -> Vec<ProviderId> {
    let parent = |id: &ProviderId| state.provider(*id)?.parent;
    std::iter::successors(Some(start), parent).collect()
}

/// Whether any of some providers is a NUMA node, by the standard trait.
fn is_in_numa_node(state: &State, providers: &[ProviderId]) -> bool {
    let Some(numa) = state.trait_id("HW_NUMA_ROOT") else {
        return false;
    };
    let mut providers = providers.iter().filter_map(|id| state.provider(*id));
    providers.any(|provider| provider.has_trait(numa))
}
