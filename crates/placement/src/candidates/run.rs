//! The walk over the roots: depth first, breadth first, or shuffled.
//!
//! A walk can stop after any root and any candidate and go on later, on the state as it is then.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::anchors::Anchors;
use super::answer::Candidates;
use super::complete::Scratch;
use super::order::Shuffle;
use super::plan::Plan;
use super::query::{SearchOptions, Strategy};
use super::tree::TreeSearch;
use crate::hash::{Map, hash_of};
use crate::ids::ProviderId;

/// What the candidates beyond one a root may take, in choices, unless the operator says how many
/// there may be: a wide tree has more ways to serve a request than there is memory.
const CHOICES: usize = 500_000;

/// The roots in their order, 64 at a time.
#[derive(Default)]
struct Roots {
    /// The word that comes next.
    next: usize,
    /// What is left of the one before.
    hosts: u64,
    trees: u64,
    /// Which of its roots were not passed yet.
    ahead: u64,
}

impl Roots {
    /// The next root, and whether its tree is to be searched.
    #[inline]
    fn next(&mut self, plan: &Plan<'_>, anchors: &Anchors) -> Option<(ProviderId, bool)> {
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

    /// Looks anew at what is left, as the state is now.
    fn renew(&mut self, plan: &Plan<'_>, anchors: &Anchors) {
        let Some(word) = self.next.checked_sub(1) else {
            return;
        };
        let roots = anchors.word(plan, word);
        (self.hosts, self.trees) = (roots.hosts & self.ahead, roots.trees & self.ahead);
    }
}

/// The trees that had a candidate in the first of several rounds.
struct FirstRound {
    /// One search for all of them.
    search: TreeSearch,
    /// The seed of the order within each, if it is to be random.
    seed: Option<u64>,
    /// Each with what its search was told, and how many candidates it made.
    trees: Vec<(ProviderId, bool, usize)>,
}

impl FirstRound {
    fn new(plan: &Plan<'_>, seed: Option<u64>) -> Self {
        Self {
            search: TreeSearch::new(plan),
            seed,
            trees: Vec::new(),
        }
    }
}

/// How far a walk has come.
enum Walk {
    /// All candidates of one tree before the next.
    Deep {
        roots: Roots,
        search: Box<TreeSearch>,
        /// Whether the search is in the midst of a tree.
        is_open: bool,
    },
    /// One candidate of each root.
    First {
        roots: Roots,
        /// The roots in random order, and how many of them are behind.
        shuffled: Option<(Vec<(ProviderId, bool)>, usize)>,
        first: Box<FirstRound>,
    },
    /// One more candidate of each tree in turn.
    Rounds {
        first: Box<FirstRound>,
        /// How many of its trees have a search of their own.
        opened: usize,
        searches: Vec<TreeSearch>,
        /// The search whose turn it is, and how many before it have more.
        place: usize,
        kept: usize,
    },
    Over,
}

/// What one root costs, and one candidate for each of its choices, in steps of about 10 ns.
const ROOT_STEPS: usize = 4;
const CHOICE_STEPS: usize = 6;

/// One run of the search.
pub(crate) struct Run {
    anchors: Anchors,
    most: usize,
    /// Whether `most` is less than what the client asks for.
    cut: bool,
    answer: Candidates,
    scratch: Scratch,
    /// Hashes of the candidates of sharing providers only, by their place in the answer: several
    /// trees can have the same.
    shared: HashTable<usize>,
    /// What the trees seen so far could take of sharing providers.
    shared_options: Map<Vec<u32>, ()>,
    walk: Walk,
    /// Steps left before it stops for others.
    left: usize,
    /// What a candidate costs.
    candidate_steps: usize,
}

impl Run {
    /// `limit` is what the client asks for, `ceiling` what the operator allows.
    pub(crate) fn new(
        plan: &Plan<'_>,
        anchors: Anchors,
        limit: Option<usize>,
        ceiling: Option<usize>,
        options: &SearchOptions,
    ) -> Self {
        let ceiling = ceiling
            .unwrap_or_else(|| plan.state.roots().len() + CHOICES / plan.choices.len().max(1));
        let walk = match (options.seed, options.strategy) {
            (None, Strategy::DepthFirst) => Walk::Deep {
                roots: Roots::default(),
                search: Box::new(TreeSearch::new(plan)),
                is_open: false,
            },
            (seed, _) => Walk::First {
                roots: Roots::default(),
                shuffled: seed.map(|seed| (shuffled(plan, &anchors, seed), 0)),
                first: Box::new(FirstRound::new(plan, seed)),
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

    /// All candidates, of a search that nobody has to wait for.
    pub(crate) fn search(mut self, plan: &Plan<'_>) -> Candidates {
        self.go_on(plan, usize::MAX);
        self.finish(plan)
    }

    /// The candidates found so far.
    pub(crate) fn found(&self) -> &Candidates {
        &self.answer
    }

    /// The candidates, with the providers that a client should be told about.
    pub(crate) fn finish(mut self, plan: &Plan<'_>) -> Candidates {
        let is_cut = self.is_cut();
        self.answer.finish(plan.state, plan.nested, is_cut);
        self.answer
    }

    /// The candidates alone.
    pub(crate) fn into_found(mut self) -> Candidates {
        let is_cut = self.is_cut();
        self.answer.note_incomplete(is_cut);
        self.answer
    }

    /// Whether candidates within the client's limit are missing.
    fn is_cut(&self) -> bool {
        self.scratch.gave_up() || (self.cut && self.is_full())
    }

    fn is_full(&self) -> bool {
        self.answer.len() >= self.most
    }

    /// Takes over who may serve what, as the state is now.
    pub(crate) fn renew(&mut self, plan: &Plan<'_>, anchors: Anchors) {
        self.anchors = anchors;
        match &mut self.walk {
            Walk::Deep { roots, .. } | Walk::First { roots, .. } => {
                roots.renew(plan, &self.anchors);
            }
            Walk::Rounds { .. } | Walk::Over => {}
        }
    }

    /// Goes on for about so many steps. True when there is nothing more to find.
    pub(crate) fn go_on(&mut self, plan: &Plan<'_>, steps: usize) -> bool {
        self.left = steps;
        let mut walk = std::mem::replace(&mut self.walk, Walk::Over);
        loop {
            let is_over = match &mut walk {
                Walk::Deep {
                    roots,
                    search,
                    is_open,
                } => self.go_deep(plan, roots, search, is_open),
                Walk::First {
                    roots,
                    shuffled,
                    first,
                } => self.go_first(plan, roots, shuffled.as_mut(), first),
                Walk::Rounds {
                    first,
                    opened,
                    searches,
                    place,
                    kept,
                } => {
                    self.open_all(plan, first, opened, searches)
                        && self.go_round(plan, searches, place, kept)
                }
                Walk::Over => return true,
            };
            if !is_over {
                self.walk = walk;
                return false;
            }
            walk = match walk {
                Walk::First { first, .. } if !self.is_full() => Walk::Rounds {
                    first,
                    opened: 0,
                    searches: Vec::new(),
                    place: 0,
                    kept: 0,
                },
                _ => Walk::Over,
            };
        }
    }

    /// Takes steps away. False when there were none left.
    #[inline]
    fn spend(&mut self, steps: usize) -> bool {
        let has_some = self.left > 0;
        self.left = self.left.saturating_sub(steps);
        has_some
    }

    fn go_deep(
        &mut self,
        plan: &Plan<'_>,
        roots: &mut Roots,
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

    /// Takes what is left of a word that has lone hosts only, which is what most words are.
    #[inline]
    fn push_hosts(&mut self, plan: &Plan<'_>, roots: &mut Roots) {
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

    /// Takes the first candidate of each root; a tree that has one is noted for more.
    fn go_first(
        &mut self,
        plan: &Plan<'_>,
        roots: &mut Roots,
        mut shuffled: Option<&mut (Vec<(ProviderId, bool)>, usize)>,
        first: &mut FirstRound,
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

    /// Gives the trees of the first round a search of their own: mostly that round was enough.
    fn open_all(
        &mut self,
        plan: &Plan<'_>,
        first: &FirstRound,
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

    /// One candidate of each tree after the other until there are no more.
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

    /// Adds the next candidate of a tree that is not there yet.
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

    /// Whether the last candidate differs from all earlier ones of sharing providers only.
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

/// The roots in random order: the reference draws its sample from all candidates of all roots.
fn shuffled(plan: &Plan<'_>, anchors: &Anchors, seed: u64) -> Vec<(ProviderId, bool)> {
    let mut roots = Roots::default();
    let mut all: Vec<_> = std::iter::from_fn(|| roots.next(plan, anchors)).collect();
    Shuffle::new(seed).order(&mut all);
    all
}
