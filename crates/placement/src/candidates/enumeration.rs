//! The enumeration over the roots: depth first, breadth first, or shuffled.
//!
//! An enumeration can be suspended after any root or candidate and resumed later on the state as
//! it is then.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::answer::Candidates;
use super::plan::Plan;
use super::query::{SearchOptions, Strategy};
use super::root_selection::RootSelection;
use super::scratch::Scratch;
use super::shuffle::Shuffle;
use super::tree::TreeSearch;
use crate::hash::{Map, hash_of};
use crate::ids::ProviderId;

/// The bound, in choices, on all candidates beyond the first of each root, unless the operator
/// sets one: a wide tree has more candidates than fit in memory.
const CHOICES: usize = 500_000;

/// An iterator over the roots, by words of 64.
#[derive(Default)]
struct RootIterator {
    /// The index of the next word.
    next: usize,
    /// Flat hosts and trees of the current word that remain.
    hosts: u64,
    trees: u64,
    /// The roots of the current word that were not yet passed.
    ahead: u64,
}

impl RootIterator {
    /// The next root, and whether it has to be searched as a tree.
    #[inline]
    fn next(&mut self, plan: &Plan<'_>, anchors: &RootSelection) -> Option<(ProviderId, bool)> {
        loop {
            let mask = self.hosts | self.trees;
            if mask != 0 {
                let bit = mask.trailing_zeros();
                let is_tree = self.trees >> bit & 1 == 1;
                self.ahead = u64::MAX << bit << 1;
                self.hosts &= self.ahead;
                self.trees &= self.ahead;
                let base = u32::try_from((self.next - 1) * 64).unwrap_or(u32::MAX);
                return Some((ProviderId(base + bit), is_tree));
            }
            if self.next >= anchors.words {
                return None;
            }
            let roots = anchors.word(plan, self.next);
            (self.hosts, self.trees) = (roots.hosts, roots.trees);
            self.ahead = u64::MAX;
            self.next += 1;
        }
    }

    /// Reclassifies the remaining roots of the current word after a change of state.
    fn renew(&mut self, plan: &Plan<'_>, anchors: &RootSelection) {
        let Some(word) = self.next.checked_sub(1) else {
            return;
        };
        let roots = anchors.word(plan, word);
        (self.hosts, self.trees) = (roots.hosts & self.ahead, roots.trees & self.ahead);
    }
}

/// The trees that had a candidate in the first of several breadth-first rounds.
struct BreadthFirstRound {
    /// One search whose buffers all of them share.
    search: TreeSearch,
    /// The seed of the order within each tree, if shuffled.
    seed: Option<u64>,
    /// Each root with the `only_with_own` flag of its search and the number of its candidates so
    /// far.
    trees: Vec<(ProviderId, bool, usize)>,
}

impl BreadthFirstRound {
    fn new(plan: &Plan<'_>, seed: Option<u64>) -> Self {
        Self {
            search: TreeSearch::new(plan),
            seed,
            trees: Vec::new(),
        }
    }
}

/// The position of a suspended enumeration.
enum EnumerationState {
    /// Depth first: all candidates of one tree before the next.
    Deep {
        roots: RootIterator,
        search: Box<TreeSearch>,
        /// Whether the search is within a tree.
        is_open: bool,
    },
    /// First round of a breadth-first enumeration: one candidate of each root.
    First {
        roots: RootIterator,
        /// The shuffled roots and the number of them already done.
        shuffled: Option<(Vec<(ProviderId, bool)>, usize)>,
        first: Box<BreadthFirstRound>,
    },
    /// Further rounds: one more candidate of each tree in turn.
    Rounds {
        first: Box<BreadthFirstRound>,
        /// The number of trees that already have a search of their own.
        opened: usize,
        searches: Vec<TreeSearch>,
        /// The index of the current search, and the number of those before it that have more
        /// candidates.
        place: usize,
        kept: usize,
    },
    Over,
}

/// Cost of one root, and of one candidate for each of its choices, in steps of about 10 ns.
const ROOT_STEPS: usize = 4;
const CHOICE_STEPS: usize = 6;

/// A resumable enumeration of candidates.
pub(crate) struct Enumeration {
    anchors: RootSelection,
    most: usize,
    /// Whether the bound `most` is below the limit that the client asks for.
    cut: bool,
    answer: Candidates,
    scratch: Scratch,
    /// Hash set of the candidates that use sharing providers only, by index in the answer: several
    /// trees can produce the same one.
    shared: HashTable<usize>,
    /// The sets of sharing providers available to the trees seen so far.
    shared_options: Map<Vec<u32>, ()>,
    walk: EnumerationState,
    /// Steps that remain of the current slice.
    left: usize,
    /// The cost of one candidate in steps.
    candidate_steps: usize,
}

impl Enumeration {
    /// `limit` is what the client asks for, `ceiling` what the operator allows.
    pub(crate) fn new(
        plan: &Plan<'_>,
        anchors: RootSelection,
        limit: Option<usize>,
        ceiling: Option<usize>,
        options: &SearchOptions,
    ) -> Self {
        let ceiling = ceiling
            .unwrap_or_else(|| plan.state.roots().len() + CHOICES / plan.choices.len().max(1));
        let walk = match (options.seed, options.strategy) {
            (None, Strategy::DepthFirst) => EnumerationState::Deep {
                roots: RootIterator::default(),
                search: Box::new(TreeSearch::new(plan)),
                is_open: false,
            },
            (seed, _) => EnumerationState::First {
                roots: RootIterator::default(),
                shuffled: seed.map(|seed| (shuffled(plan, &anchors, seed), 0)),
                first: Box::new(BreadthFirstRound::new(plan, seed)),
            },
        };
        Self {
            anchors,
            most: limit.unwrap_or(usize::MAX).min(ceiling).max(1),
            cut: limit.is_none_or(|limit| limit > ceiling),
            answer: Candidates::new(plan.groups),
            scratch: Scratch::new(plan),
            shared: HashTable::new(),
            shared_options: Map::default(),
            walk,
            left: 0,
            candidate_steps: ROOT_STEPS + plan.choices.len() * CHOICE_STEPS,
        }
    }

    /// Runs to the end and returns all candidates, for callers that may hold the state that long.
    pub(crate) fn search(mut self, plan: &Plan<'_>) -> Candidates {
        self.go_on(plan, usize::MAX);
        self.finish(plan)
    }

    /// The candidates found so far.
    pub(crate) fn found(&self) -> &Candidates {
        &self.answer
    }

    /// The candidates with the provider summaries.
    pub(crate) fn finish(mut self, plan: &Plan<'_>) -> Candidates {
        let is_cut = self.is_cut();
        self.answer.finish(plan.state, plan.nested, is_cut);
        self.answer
    }

    /// The candidates without provider summaries.
    pub(crate) fn into_found(mut self) -> Candidates {
        let is_cut = self.is_cut();
        self.answer.note_incomplete(is_cut);
        self.answer
    }

    /// Whether candidates within the client's limit are missing: a bound or the step budget was
    /// reached.
    fn is_cut(&self) -> bool {
        self.scratch.gave_up() || (self.cut && self.is_full())
    }

    fn is_full(&self) -> bool {
        self.answer.len() >= self.most
    }

    /// Replaces the prepared anchors after a change of state.
    pub(crate) fn renew(&mut self, plan: &Plan<'_>, anchors: RootSelection) {
        self.anchors = anchors;
        match &mut self.walk {
            EnumerationState::Deep { roots, .. } | EnumerationState::First { roots, .. } => {
                roots.renew(plan, &self.anchors);
            }
            EnumerationState::Rounds { .. } | EnumerationState::Over => {}
        }
    }

    /// Continues for about `steps` steps. True at the end of the enumeration.
    pub(crate) fn go_on(&mut self, plan: &Plan<'_>, steps: usize) -> bool {
        self.left = steps;
        let mut walk = std::mem::replace(&mut self.walk, EnumerationState::Over);
        loop {
            let is_over = match &mut walk {
                EnumerationState::Deep {
                    roots,
                    search,
                    is_open,
                } => self.go_deep(plan, roots, search, is_open),
                EnumerationState::First {
                    roots,
                    shuffled,
                    first,
                } => self.go_first(plan, roots, shuffled.as_mut(), first),
                EnumerationState::Rounds {
                    first,
                    opened,
                    searches,
                    place,
                    kept,
                } => {
                    self.open_all(plan, first, opened, searches)
                        && self.go_round(plan, searches, place, kept)
                }
                EnumerationState::Over => return true,
            };
            if !is_over {
                self.walk = walk;
                return false;
            }
            walk = match walk {
                EnumerationState::First { first, .. } if !self.is_full() => {
                    EnumerationState::Rounds {
                        first,
                        opened: 0,
                        searches: Vec::new(),
                        place: 0,
                        kept: 0,
                    }
                }
                _ => EnumerationState::Over,
            };
        }
    }

    /// Spends steps; false when none were left.
    #[inline]
    fn spend(&mut self, steps: usize) -> bool {
        let has_some = self.left > 0;
        self.left = self.left.saturating_sub(steps);
        has_some
    }

    fn go_deep(
        &mut self,
        plan: &Plan<'_>,
        roots: &mut RootIterator,
        search: &mut TreeSearch,
        is_open: &mut bool,
    ) -> bool {
        loop {
            if self.is_full() {
                return true;
            }
            if !self.spend(ROOT_STEPS) {
                return false;
            }
            if *is_open {
                *is_open = self.step(plan, search);
                continue;
            }
            if roots.trees == 0 && roots.hosts != 0 {
                self.push_hosts(plan, roots);
                continue;
            }
            match roots.next(plan, &self.anchors) {
                None => return true,
                Some((root, true)) => *is_open = self.open(plan, search, root, None),
                Some((root, false)) => {
                    self.answer
                        .push_host(root, &self.anchors.flat.total, plan.groups);
                }
            }
        }
    }

    /// Takes the rest of a word that has flat hosts only, the common case.
    #[inline]
    fn push_hosts(&mut self, plan: &Plan<'_>, roots: &mut RootIterator) {
        let base = u32::try_from((roots.next - 1) * 64).unwrap_or(u32::MAX);
        let room = self.most - self.answer.len();
        let mut pushed = 0;
        while roots.hosts != 0 && pushed < room {
            let bit = roots.hosts.trailing_zeros();
            roots.hosts &= roots.hosts - 1;
            roots.ahead = u64::MAX << bit << 1;
            let total = &self.anchors.flat.total;
            self.answer
                .push_host(ProviderId(base + bit), total, plan.groups);
            pushed += 1;
        }
        self.left = self.left.saturating_sub(pushed * ROOT_STEPS);
    }

    /// Takes the first candidate of each root; a tree that has one is remembered for the next
    /// rounds.
    fn go_first(
        &mut self,
        plan: &Plan<'_>,
        roots: &mut RootIterator,
        mut shuffled: Option<&mut (Vec<(ProviderId, bool)>, usize)>,
        first: &mut BreadthFirstRound,
    ) -> bool {
        loop {
            if self.is_full() {
                return true;
            }
            if !self.spend(ROOT_STEPS) {
                return false;
            }
            let next = match &mut shuffled {
                Some((roots, passed)) => {
                    *passed += 1;
                    roots.get(*passed - 1).copied()
                }
                None => roots.next(plan, &self.anchors),
            };
            match next {
                None => return true,
                Some((root, true)) => {
                    if self.open(plan, &mut first.search, root, first.seed)
                        && self.step(plan, &mut first.search)
                    {
                        let search = &first.search;
                        first.trees.push((root, search.only_with_own, search.made));
                    }
                }
                Some((root, false)) => {
                    self.answer
                        .push_host(root, &self.anchors.flat.total, plan.groups);
                }
            }
        }
    }

    /// Opens a search for each tree of the first round. This is deferred because the first round
    /// is usually enough.
    fn open_all(
        &mut self,
        plan: &Plan<'_>,
        first: &BreadthFirstRound,
        opened: &mut usize,
        searches: &mut Vec<TreeSearch>,
    ) -> bool {
        while let Some((root, only_with_own, made)) = first.trees.get(*opened) {
            if !self.spend(self.candidate_steps) {
                return false;
            }
            *opened += 1;
            let mut search = TreeSearch::new(plan);
            let opened = self.take_up(plan, &mut search, *root, first.seed);
            search.only_with_own = *only_with_own;
            if opened && (0..*made).all(|_| search.next(plan, &mut self.scratch)) {
                searches.push(search);
            }
        }
        true
    }

    /// Takes one candidate of each tree in turn until none has more.
    fn go_round(
        &mut self,
        plan: &Plan<'_>,
        searches: &mut Vec<TreeSearch>,
        place: &mut usize,
        kept: &mut usize,
    ) -> bool {
        while !searches.is_empty() {
            while *place < searches.len() {
                if self.is_full() {
                    return true;
                }
                if !self.spend(ROOT_STEPS) {
                    return false;
                }
                if self.step(plan, &mut searches[*place]) {
                    searches.swap(*kept, *place);
                    *kept += 1;
                }
                *place += 1;
            }
            searches.truncate(*kept);
            (*place, *kept) = (0, 0);
        }
        true
    }

    fn take_up(
        &mut self,
        plan: &Plan<'_>,
        search: &mut TreeSearch,
        root: ProviderId,
        seed: Option<u64>,
    ) -> bool {
        let (matches, sharing) = (&self.anchors.matches, &self.anchors.sharing);
        let opened = search.open(plan, matches, sharing, root);
        self.left = self.left.saturating_sub(search.size(plan));
        if let Some(seed) = seed {
            search.shuffle(&mut Shuffle::new(seed ^ u64::from(root.0).rotate_left(32)));
        }
        opened
    }

    fn open(
        &mut self,
        plan: &Plan<'_>,
        search: &mut TreeSearch,
        root: ProviderId,
        seed: Option<u64>,
    ) -> bool {
        if !self.take_up(plan, search, root, seed) {
            return false;
        }
        if !self.anchors.sharing.is_empty() {
            let options = search.shared_options();
            if !options.is_empty() {
                search.only_with_own = self.shared_options.insert(options, ()).is_some();
            }
        }
        !search.only_with_own || search.has_own()
    }

    /// Adds the next candidate of a tree that is not a duplicate.
    fn step(&mut self, plan: &Plan<'_>, search: &mut TreeSearch) -> bool {
        while search.next(plan, &mut self.scratch) {
            self.left = self.left.saturating_sub(self.candidate_steps);
            self.answer.push_choices(plan, search);
            if !search.all_shared() || self.is_new() {
                return true;
            }
            self.answer.pop();
        }
        false
    }

    /// Whether the last candidate is no duplicate among those that use sharing providers only.
    fn is_new(&mut self) -> bool {
        let answer = &self.answer;
        let last = answer.len() - 1;
        let hash = |index: usize| hash_of(&answer.key(index));
        let entry = self.shared.entry(
            hash(last),
            |other| answer.key(*other) == answer.key(last),
            |other| hash(*other),
        );
        match entry {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(last);
                true
            }
        }
    }
}

/// The roots in random order, as the reference draws its sample from the candidates of all roots.
fn shuffled(plan: &Plan<'_>, anchors: &RootSelection, seed: u64) -> Vec<(ProviderId, bool)> {
    let mut roots = RootIterator::default();
    let mut all: Vec<_> = std::iter::from_fn(|| roots.next(plan, anchors)).collect();
    Shuffle::new(seed).order(&mut all);
    all
}
