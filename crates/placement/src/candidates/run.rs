//! The walk over the roots: depth first, breadth first, or shuffled.

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
use crate::slot_set::bits;

/// What the candidates beyond one a root may take, in choices, unless the operator says how many
/// there may be: a wide tree has more ways to serve a request than there is memory.
const CHOICES: usize = 500_000;

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

/// One run of the search.
pub(crate) struct Run<'r, 'a> {
    plan: &'r Plan<'a>,
    anchors: &'r Anchors,
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
}

impl<'r, 'a> Run<'r, 'a> {
    /// `limit` is what the client asks for, `ceiling` what the operator allows.
    pub(crate) fn new(
        plan: &'r Plan<'a>,
        anchors: &'r Anchors,
        limit: Option<usize>,
        ceiling: Option<usize>,
    ) -> Self {
        let ceiling = ceiling
            .unwrap_or_else(|| plan.state.roots().len() + CHOICES / plan.choices.len().max(1));
        Self {
            plan,
            anchors,
            most: limit.unwrap_or(usize::MAX).min(ceiling).max(1),
            cut: limit.is_none_or(|limit| limit > ceiling),
            answer: Candidates::new(plan.groups),
            scratch: Scratch::new(plan),
            shared: HashTable::new(),
            shared_options: Map::default(),
        }
    }

    pub(crate) fn search(mut self, options: &SearchOptions) -> Candidates {
        match (options.seed, options.strategy) {
            (Some(seed), _) => self.shuffled(seed),
            (None, Strategy::DepthFirst) => self.depth_first(),
            (None, Strategy::BreadthFirst) => self.breadth_first(),
        }
        let plan = self.plan;
        let missing = self.scratch.gave_up() || (self.cut && self.is_full());
        self.answer.finish(plan.state, plan.nested, missing);
        self.answer
    }

    fn is_full(&self) -> bool {
        self.answer.len() >= self.most
    }

    fn depth_first(&mut self) {
        let mut search = TreeSearch::new(self.plan);
        for word in 0..self.anchors.words {
            let roots = self.anchors.word(self.plan, word);
            for slot in bits(roots.hosts | roots.trees, word) {
                if self.is_full() {
                    return;
                }
                let root = ProviderId(slot);
                if roots.trees >> (slot % 64) & 1 == 0 {
                    self.answer
                        .push_host(root, &self.anchors.flat.total, self.plan.groups);
                } else if self.open(&mut search, root, None) {
                    while !self.is_full() && self.step(&mut search) {}
                }
            }
        }
    }

    fn breadth_first(&mut self) {
        let mut first = FirstRound::new(self.plan, None);
        for word in 0..self.anchors.words {
            let roots = self.anchors.word(self.plan, word);
            for slot in bits(roots.hosts | roots.trees, word) {
                let is_tree = roots.trees >> (slot % 64) & 1 == 1;
                self.visit(ProviderId(slot), is_tree, &mut first);
                if self.is_full() {
                    return;
                }
            }
        }
        self.go_round(&first);
    }

    /// Breadth first over the roots in random order, each tree's choices in random order: the
    /// reference draws its sample from all candidates of all roots.
    fn shuffled(&mut self, seed: u64) {
        let mut roots = Vec::new();
        for word in 0..self.anchors.words {
            let masks = self.anchors.word(self.plan, word);
            roots.extend(
                bits(masks.hosts | masks.trees, word)
                    .map(|slot| (ProviderId(slot), masks.trees >> (slot % 64) & 1 == 1)),
            );
        }
        Shuffle::new(seed).order(&mut roots);
        let mut first = FirstRound::new(self.plan, Some(seed));
        for (root, is_tree) in roots {
            self.visit(root, is_tree, &mut first);
            if self.is_full() {
                return;
            }
        }
        self.go_round(&first);
    }

    /// Takes the first candidate of a root; a tree that has one is noted for more.
    fn visit(&mut self, root: ProviderId, is_tree: bool, first: &mut FirstRound) {
        if !is_tree {
            self.answer
                .push_host(root, &self.anchors.flat.total, self.plan.groups);
        } else if self.open(&mut first.search, root, first.seed) && self.step(&mut first.search) {
            let search = &first.search;
            first.trees.push((root, search.only_with_own, search.made));
        }
    }

    /// One candidate of each tree after the other until there are no more. Trees are only now given
    /// a search of their own: mostly the first round is enough.
    fn go_round(&mut self, first: &FirstRound) {
        let mut searches: Vec<TreeSearch> = Vec::with_capacity(first.trees.len());
        for (root, only_with_own, made) in &first.trees {
            let mut search = TreeSearch::new(self.plan);
            self.take_up(&mut search, *root, first.seed);
            search.only_with_own = *only_with_own;
            if (0..*made).all(|_| search.next(self.plan, &mut self.scratch)) {
                searches.push(search);
            }
        }
        while !searches.is_empty() {
            searches.retain_mut(|search| !self.is_full() && self.step(search));
        }
    }

    fn take_up(&mut self, search: &mut TreeSearch, root: ProviderId, seed: Option<u64>) -> bool {
        let (matches, sharing) = (&self.anchors.matches, &self.anchors.sharing);
        let opened = search.open(self.plan, matches, sharing, root);
        if let Some(seed) = seed {
            search.shuffle(&mut Shuffle::new(seed ^ u64::from(root.0).rotate_left(32)));
        }
        opened
    }

    fn open(&mut self, search: &mut TreeSearch, root: ProviderId, seed: Option<u64>) -> bool {
        if !self.take_up(search, root, seed) {
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
    fn step(&mut self, search: &mut TreeSearch) -> bool {
        while search.next(self.plan, &mut self.scratch) {
            self.answer.push_choices(self.plan, search);
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
