//! Which roots fail which constraint.

use std::cell::Cell;

use super::constraint::{Part, Parts};
use super::relaxed::{Extent, Relaxed};
use crate::candidates::CandidateQuery;
use crate::candidates::lookup::room_for_total;
use crate::ids::ProviderId;
use crate::slot_set::bits;
use crate::state::State;

/// How many searches of trees each part of an explanation may take.
const SEARCHES: u32 = 100_000;

/// What is known about every root.
pub(super) struct Ledger<'a, 'q> {
    pub(super) state: &'a State,
    pub(super) query: &'q CandidateQuery,
    pub(super) parts: &'q Parts,
    /// Words of hosts that are no trees and that nobody shares with: a constraint binds them alone
    /// as it does together with others.
    pub(super) hosts: Vec<u64>,
    /// All other roots, in rising order.
    pub(super) trees: Vec<ProviderId>,
    /// By constraint: words of the roots that can serve it alone.
    pub(super) serve: Vec<Vec<u64>>,
    /// Trees that can serve the whole request, once that was found out.
    pub(super) fitting_trees: Vec<ProviderId>,
    /// How many trees there was no time to search.
    pub(super) unsearched: usize,
    searches: Cell<u32>,
}

impl<'a, 'q> Ledger<'a, 'q> {
    pub(super) fn new(state: &'a State, query: &'q CandidateQuery, parts: &'q Parts) -> Self {
        let words = state.provider_slots().div_ceil(64);
        let reached = reached_by_sharing(state);
        let is_tree = |word: usize| {
            state.parents().word(word) | reached.get(word).copied().unwrap_or_default()
        };
        let roots = |word: usize| state.roots().word(word);
        let mut ledger = Self {
            state,
            query,
            parts,
            hosts: (0..words)
                .map(|word| roots(word) & !is_tree(word))
                .collect(),
            trees: (0..words)
                .flat_map(|word| bits(roots(word) & is_tree(word), word))
                .map(ProviderId)
                .collect(),
            serve: Vec::new(),
            fitting_trees: Vec::new(),
            unsearched: 0,
            searches: Cell::new(SEARCHES),
        };
        for index in 0..parts.parts.len() {
            let served = ledger.serving_alone(index);
            ledger.serve.push(served);
        }
        ledger
    }

    /// Takes one search of the allowance. False when there is none left.
    pub(super) fn may_search(&self) -> bool {
        let left = self.searches.get();
        self.searches.set(left.saturating_sub(1));
        left > 0
    }

    /// Gives the next part of the explanation an allowance of its own.
    pub(super) fn renew_allowance(&self) {
        self.searches.set(SEARCHES);
    }

    /// The query with the constraints that `includes` admits.
    pub(super) fn relaxed(&self, includes: impl Fn(usize) -> bool) -> Option<Relaxed<'a>> {
        Relaxed::new(self.state, self.query, self.parts, includes, Extent::Fleet)
    }

    /// The same, to be asked of a few trees only.
    pub(super) fn relaxed_for_few(&self, includes: impl Fn(usize) -> bool) -> Option<Relaxed<'a>> {
        Relaxed::new(self.state, self.query, self.parts, includes, Extent::Few)
    }

    /// The roots that can serve a constraint alone. For trees, relations between groups count as
    /// served by all.
    fn serving_alone(&self, index: usize) -> Vec<u64> {
        let words = self.hosts.len();
        let is_relation = match &self.parts.parts[index] {
            Part::Nobody => return vec![0; words],
            Part::Together(class, amount) => {
                return (0..words)
                    .map(|word| {
                        let hosts = self.hosts[word];
                        self.state.roots().word(word) & !hosts
                            | room_for_total(self.state, *class, *amount, word, hosts)
                    })
                    .collect();
            }
            Part::Isolate | Part::SameSubtree(_) | Part::OneProviderOfTree => true,
            _ => false,
        };
        let Some(alone) = self.relaxed(|other| other == index) else {
            return vec![0; words];
        };
        let mut served = if is_relation {
            (0..words)
                .map(|word| self.state.roots().word(word))
                .collect()
        } else {
            alone.served_trees(&self.hosts)
        };
        for (word, served) in served.iter_mut().enumerate() {
            let hosts = self.hosts[word];
            *served = *served & !hosts | alone.hosts(word) & hosts;
        }
        served
    }

    /// Whether a root can serve a constraint alone, as far as `serve` knows.
    pub(super) fn serves(&self, index: usize, root: ProviderId) -> bool {
        self.serve[index][root.index() / 64] >> (root.0 % 64) & 1 == 1
    }

    pub(super) fn removed_alone(&self, index: usize) -> usize {
        let serving: u32 = (self.serve[index].iter().enumerate())
            .map(|(word, served)| (served & self.state.roots().word(word)).count_ones())
            .sum();
        self.state.roots().len() - serving as usize
    }

    /// How many roots each constraint removed of those that the ones before it left, and how many
    /// are left.
    pub(super) fn apply_in_order(&mut self) -> (Vec<usize>, usize) {
        let count = self.parts.parts.len();
        let mut removed = vec![0usize; count + 1];
        for (word, hosts) in self.hosts.iter().enumerate() {
            let mut left = *hosts;
            for (index, served) in self.serve.iter().enumerate() {
                removed[index] += (left & !served[word]).count_ones() as usize;
                left &= served[word];
            }
            removed[count] += left.count_ones() as usize;
        }
        let mut prefixes = Prefixes {
            ledger: self,
            ready: (0..=count).map(|_| None).collect(),
            last_end: count,
        };
        let mut fitting = Vec::new();
        let mut unsearched = 0;
        for root in &self.trees {
            match prefixes.end_of_tree(*root) {
                Some(end) => {
                    removed[end] += 1;
                    if end == count {
                        fitting.push(*root);
                    }
                }
                None => unsearched += 1,
            }
        }
        self.fitting_trees = fitting;
        self.unsearched = unsearched;
        let left = removed.pop().unwrap_or_default();
        (removed, left)
    }
}

/// The query with its first constraint, its first two, and so on.
struct Prefixes<'l, 'a, 'q> {
    ledger: &'l Ledger<'a, 'q>,
    ready: Vec<Option<Option<Relaxed<'a>>>>,
    /// Where the last tree ended: many trees are alike.
    last_end: usize,
}

impl Prefixes<'_, '_, '_> {
    /// Whether a tree can serve the first so many constraints; nothing when there is no time.
    fn fits(&mut self, root: ProviderId, length: usize) -> Option<bool> {
        if !self.ledger.may_search() {
            return None;
        }
        let ledger = self.ledger;
        let prefix =
            self.ready[length].get_or_insert_with(|| ledger.relaxed(|index| index < length));
        Some(prefix.as_mut().is_some_and(|prefix| prefix.tree_fits(root)))
    }

    /// The first constraint that a tree cannot serve together with all before it; their number if
    /// it can serve all.
    fn end_of_tree(&mut self, root: ProviderId) -> Option<usize> {
        let count = self.ready.len() - 1;
        let first_alone = (0..count).find(|index| !self.ledger.serves(*index, root));
        // The first `low` constraints can be served, the first `high` cannot.
        let (mut low, mut high) = (0, first_alone.unwrap_or(count));
        // One constraint that is served alone is served.
        if (first_alone.is_some() && high <= 1) || self.fits(root, high)? {
            self.last_end = high;
            return Some(high);
        }
        let mut probe = self.last_end;
        while high - low > 1 {
            if probe <= low || probe >= high {
                probe = low.midpoint(high);
            }
            if self.fits(root, probe)? {
                low = probe;
                probe += 1;
            } else {
                high = probe;
                probe -= 1;
            }
        }
        self.last_end = high - 1;
        Some(high - 1)
    }
}

/// Words of the members of all aggregates that have a sharing member.
fn reached_by_sharing(state: &State) -> Vec<u64> {
    let mut reached = Vec::new();
    let Some(sharing) = state.sharing_trait() else {
        return reached;
    };
    let mut aggregates: Vec<_> = state
        .trait_members(sharing)
        .iter()
        .filter_map(|slot| state.provider(ProviderId(slot)))
        .flat_map(|provider| provider.aggregates.iter().copied())
        .collect();
    aggregates.sort_unstable();
    aggregates.dedup();
    for aggregate in aggregates {
        state.aggregate_members(aggregate).union_into(&mut reached);
    }
    reached
}
