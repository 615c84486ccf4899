//! Which trees are worth a look, in the order of their roots' slots.

use super::flat::FlatPass;
use super::plan::Plan;
use super::sharing::{Sharing, mark_root};
use super::tree::Matches;
use crate::ids::ProviderId;
use crate::slot_set::bits;

/// A kind that so small a part of all trees can serve is used to find them.
const RARE: usize = 8;

/// How the roots of a fleet are to be searched.
#[derive(Debug)]
pub(crate) struct Anchors {
    pub(crate) flat: FlatPass,
    pub(crate) sharing: Sharing,
    /// By kind, the providers that may serve it; empty when there are only lone hosts, or when
    /// each provider is asked as it comes up.
    pub(crate) matches: Matches,
    /// The roots of trees that can have what is rare, if anything is.
    worth: Option<Vec<u64>>,
    /// Whether lone hosts, too, are searched as trees.
    as_trees: bool,
    /// How many words of 64 roots there are.
    pub(crate) words: usize,
}

/// 64 roots, by the way in which they are to be searched.
#[derive(Clone, Copy)]
pub(crate) struct RootWord {
    /// Hosts that can serve the request alone, all of it.
    pub(crate) hosts: u64,
    /// Roots whose trees are to be searched.
    pub(crate) trees: u64,
}

impl Anchors {
    /// Makes a search of single hosts ready.
    pub(crate) fn by_host(plan: &Plan<'_>) -> Self {
        Self {
            flat: FlatPass::new(plan),
            sharing: Sharing::new(plan),
            matches: Matches::new(),
            worth: None,
            as_trees: false,
            words: plan.state.provider_slots().div_ceil(64),
        }
    }

    /// Makes a search ready. Nothing when it can be seen already that there is no candidate.
    pub(crate) fn new(plan: &Plan<'_>, as_trees: bool) -> Option<Self> {
        let state = plan.state;
        let mut anchors = Self {
            as_trees,
            ..Self::by_host(plan)
        };
        if as_trees || !state.parents().is_empty() || !anchors.sharing.is_empty() {
            anchors.match_kinds(plan)?;
        }
        Some(anchors)
    }

    /// Finds out who may serve each kind. Nothing when nobody may serve one.
    fn match_kinds(&mut self, plan: &Plan<'_>) -> Option<()> {
        let state = plan.state;
        let mut rarest = (usize::MAX, 0);
        for (index, kind) in plan.kinds.iter().enumerate() {
            let words: Vec<u64> = (0..self.words)
                .map(|word| kind.word(state, word, state.existing_word(word)))
                .collect();
            let count = words.iter().map(|word| word.count_ones() as usize).sum();
            if count == 0 {
                return None;
            }
            rarest = rarest.min((count, index));
            self.matches.push(words);
        }
        if rarest.0 < state.roots().len() / RARE {
            let mut roots = vec![0; self.words];
            let kind = &plan.kinds[rarest.1];
            for (word, mask) in self.matches[rarest.1].iter().enumerate() {
                for slot in bits(*mask, word) {
                    mark_root(plan, ProviderId(slot), &mut roots);
                    if kind.takes_shared {
                        self.sharing
                            .mark_served_roots(plan, ProviderId(slot), &mut roots);
                    }
                }
            }
            self.worth = Some(roots);
        }
        Some(())
    }

    /// Of the 64 roots from slot `64 * word` on, those that could serve the request with more room.
    pub(crate) fn kind_word(&self, plan: &Plan<'_>, word: usize) -> u64 {
        let state = plan.state;
        let roots = state.roots().word(word);
        let trees = state.parents().word(word) | self.sharing.reached_word(word);
        self.flat.kind_word(plan, word, roots & !trees) | plan.root.word(state, word, roots & trees)
    }

    /// The roots of the trees in which, or with whom, somebody may serve each kind.
    pub(crate) fn possible_roots(&self, plan: &Plan<'_>) -> Vec<u64> {
        let state = plan.state;
        let words = state.provider_slots().div_ceil(64);
        let mut possible = vec![u64::MAX; words];
        for kind in &plan.kinds {
            let mut roots = vec![0; words];
            for word in 0..words {
                let mask = kind.word(state, word, state.existing_word(word));
                let nested = state.nested().word(word);
                roots[word] |= mask & !nested;
                for slot in bits(mask & nested, word) {
                    mark_root(plan, ProviderId(slot), &mut roots);
                }
            }
            if kind.takes_shared {
                for (id, _) in self.sharing.providers(plan) {
                    if kind.admits(state, id) {
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

    /// A root alone, as [`Self::word`] has it.
    pub(crate) fn host(&self, plan: &Plan<'_>, root: ProviderId) -> RootWord {
        let state = plan.state;
        let (word, bit) = (root.index() / 64, 1 << (root.0 % 64));
        let mut is_tree = state.parents().word(word) | self.sharing.reached_word(word);
        if self.as_trees {
            is_tree = u64::MAX;
        }
        let root = state.roots().word(word) & bit;
        let mut trees = plan.root.word(state, word, root & is_tree);
        if let Some(worth) = &self.worth {
            trees &= worth[word];
        }
        RootWord {
            hosts: self.flat.word(plan, word, root & !is_tree),
            trees,
        }
    }

    /// The 64 roots from slot `64 * word` on.
    pub(crate) fn word(&self, plan: &Plan<'_>, word: usize) -> RootWord {
        let state = plan.state;
        let roots = state.roots().word(word);
        let mut trees = state.parents().word(word) | self.sharing.reached_word(word);
        if self.as_trees {
            trees = roots;
        }
        let hosts = self.flat.word(plan, word, roots & !trees);
        trees = plan.root.word(state, word, roots & trees);
        if let Some(worth) = &self.worth {
            trees &= worth[word];
        }
        RootWord { hosts, trees }
    }
}
