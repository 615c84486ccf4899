//! Selects the trees that are worth searching, in the order of their roots' slots.

use super::flat::FlatQuery;
use super::plan::Plan;
use super::sharing::{Sharing, mark_root};
use super::tree::Matches;
use crate::ids::ProviderId;
use crate::slot_set::bits;

/// If the condition with the fewest providers has fewer than the number of roots divided by this,
/// only the trees of those providers are searched.
const ROOTS_PER_RARE_PROVIDER: usize = 8;

/// How the roots of a fleet are to be searched: which as flat hosts, which as trees, which not at
/// all.
#[derive(Debug)]
pub(crate) struct RootSelection {
    pub(crate) flat: FlatQuery,
    pub(crate) sharing: Sharing,
    /// By condition, a bit mask of the providers that may serve it. Empty when all hosts are flat,
    /// or when hosts are evaluated one by one.
    pub(crate) matches: Matches,
    /// Bit mask of the roots that providers of the rarest condition can serve; `None` when no
    /// condition is rare.
    roots_of_rarest: Option<Vec<u64>>,
    /// Whether flat hosts, too, are searched as trees (for tests).
    as_trees: bool,
    /// The number of words of 64 roots.
    pub(crate) word_count: usize,
}

/// 64 consecutive roots, split by the way in which they are to be searched.
#[derive(Clone, Copy)]
pub(crate) struct RootWord {
    /// Flat hosts that are feasible for the whole request.
    pub(crate) hosts: u64,
    /// Roots whose trees have to be searched.
    pub(crate) trees: u64,
}

impl RootSelection {
    /// Prepares a search that evaluates single hosts.
    pub(crate) fn by_host(plan: &Plan<'_>) -> Self {
        Self {
            flat: FlatQuery::new(plan),
            sharing: Sharing::new(plan),
            matches: Matches::new(),
            roots_of_rarest: None,
            as_trees: false,
            word_count: plan.state.provider_slots().div_ceil(64),
        }
    }

    /// Prepares a search of the whole fleet. `None` when it is already clear that there is no
    /// candidate.
    pub(crate) fn new(plan: &Plan<'_>) -> Option<Self> {
        let as_trees = false;
        Self::of_fleet(plan, as_trees)
    }

    /// As [`Self::new`], but flat hosts, too, are searched as trees (for tests).
    pub(crate) fn new_as_trees(plan: &Plan<'_>) -> Option<Self> {
        let as_trees = true;
        Self::of_fleet(plan, as_trees)
    }

    fn of_fleet(plan: &Plan<'_>, as_trees: bool) -> Option<Self> {
        let state = plan.state;
        let mut selection = Self {
            as_trees,
            ..Self::by_host(plan)
        };
        if as_trees || !state.parents().is_empty() || !selection.sharing.is_empty() {
            selection.match_conditions(plan)?;
        }
        Some(selection)
    }

    /// Computes which providers may serve each condition. `None` when some condition has no
    /// provider.
    fn match_conditions(&mut self, plan: &Plan<'_>) -> Option<()> {
        let state = plan.state;
        let (mut fewest, mut rarest) = (usize::MAX, 0);
        for (index, condition) in plan.conditions.iter().enumerate() {
            let words: Vec<u64> = (0..self.word_count)
                .map(|word| condition.word(state, word, state.existing_word(word)))
                .collect();
            let count = words.iter().map(|word| word.count_ones() as usize).sum();
            if count == 0 {
                return None;
            }
            (fewest, rarest) = (fewest, rarest).min((count, index));
            self.matches.push(words);
        }
        if fewest < state.roots().len() / ROOTS_PER_RARE_PROVIDER {
            let mut roots = vec![0; self.word_count];
            let condition = &plan.conditions[rarest];
            for (word, mask) in self.matches[rarest].iter().enumerate() {
                for slot in bits(*mask, word) {
                    mark_root(plan, ProviderId(slot), &mut roots);
                    if condition.takes_shared {
                        self.sharing
                            .mark_served_roots(plan, ProviderId(slot), &mut roots);
                    }
                }
            }
            self.roots_of_rarest = Some(roots);
        }
        Some(())
    }

    /// Of the 64 roots from slot `64 * word` on, a superset of the feasible ones, whatever the amounts. For a tree,
    /// only the traits and aggregates of its root are tested.
    pub(crate) fn eligible_word(&self, plan: &Plan<'_>, word: usize) -> u64 {
        let state = plan.state;
        let roots = state.roots().word(word);
        let trees = state.parents().word(word) | self.sharing.reached_word(word);
        self.flat.eligible_word(plan, word, roots & !trees)
            | plan.root.word(state, word, roots & trees)
    }

    /// The roots of the trees in which each condition has at least one provider, of the tree or
    /// sharing with it.
    pub(crate) fn possible_roots(&self, plan: &Plan<'_>) -> Vec<u64> {
        let state = plan.state;
        let words = state.provider_slots().div_ceil(64);
        let mut possible = vec![u64::MAX; words];
        for condition in &plan.conditions {
            let mut roots = vec![0; words];
            for word in 0..words {
                let mask = condition.word(state, word, state.existing_word(word));
                let non_roots = state.non_roots().word(word);
                roots[word] |= mask & !non_roots;
                for slot in bits(mask & non_roots, word) {
                    mark_root(plan, ProviderId(slot), &mut roots);
                }
            }
            if condition.takes_shared {
                for (id, _) in self.sharing.providers(plan) {
                    if condition.admits(state, id) {
                        self.sharing.mark_served_roots(plan, id, &mut roots);
                    }
                }
            }
            for (possible, roots) in possible.iter_mut().zip(roots) {
                *possible &= roots;
            }
        }
        possible
    }

    /// A single root, classified as [`Self::word`] would.
    pub(crate) fn classify(&self, plan: &Plan<'_>, root: ProviderId) -> RootWord {
        let state = plan.state;
        let (word, bit) = (root.index() / 64, 1 << (root.0 % 64));
        let mut tree_mask = state.parents().word(word) | self.sharing.reached_word(word);
        if self.as_trees {
            tree_mask = u64::MAX;
        }
        let root_mask = state.roots().word(word) & bit;
        let mut trees = plan.root.word(state, word, root_mask & tree_mask);
        if let Some(roots_of_rarest) = &self.roots_of_rarest {
            trees &= roots_of_rarest.get(word).copied().unwrap_or(0);
        }
        RootWord {
            hosts: self.flat.word(plan, word, root_mask & !tree_mask),
            trees,
        }
    }

    /// Classifies the 64 roots from slot `64 * word` on.
    pub(crate) fn word(&self, plan: &Plan<'_>, word: usize) -> RootWord {
        let state = plan.state;
        let roots = state.roots().word(word);
        let mut tree_mask = state.parents().word(word) | self.sharing.reached_word(word);
        if self.as_trees {
            tree_mask = roots;
        }
        let hosts = self.flat.word(plan, word, roots & !tree_mask);
        let mut trees = plan.root.word(state, word, roots & tree_mask);
        if let Some(roots_of_rarest) = &self.roots_of_rarest {
            trees &= roots_of_rarest.get(word).copied().unwrap_or(0);
        }
        RootWord { hosts, trees }
    }
}
