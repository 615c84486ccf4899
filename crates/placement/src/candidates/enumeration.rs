//! The enumeration over the roots: depth first, breadth first, or shuffled.
//!
//! An enumeration can be suspended after any root or candidate, and resumed on a later state.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::answer::Candidates;
use super::plan::{CompiledQuery, Plan};
use super::query::{SearchOptions, Strategy};
use super::root_iterator::{RootIterator, SelectedRoot, ShuffledRoots};
use super::root_selection::RootSelection;
use super::scratch::Scratch;
use super::shuffle::Shuffle;
use super::taken::Taken;
use super::tree::TreeSearch;
use crate::hash::{Map, hash_of};
use crate::ids::ProviderId;

/// How many assignments all candidates beyond the first of each root may have together, unless the
/// operator sets a bound: a wide tree has more candidates than fit in memory.
const ASSIGNMENTS_MAX: usize = 500_000;

/// The first round of a breadth-first enumeration, with the trees that had a candidate in it.
struct FirstRound {
    /// One search, whose buffers are used for one tree after the other.
    search: TreeSearch,
    trees: Vec<FirstRoundTree>,
}

/// A tree that had a candidate in the first round, and what the later rounds need to start its [`TreeSearch`] again.
struct FirstRoundTree {
    root: ProviderId,
    skip_shared_only: bool,
    found_count: usize,
}

impl FirstRound {
    fn new(plan: &Plan<'_>) -> Self {
        Self {
            search: TreeSearch::new(plan),
            trees: Vec::new(),
        }
    }
}

/// The position of a suspended enumeration.
enum Phase {
    /// Depth first: all candidates of one tree before the next.
    DepthFirst {
        roots: RootIterator,
        search: Box<TreeSearch>,
        /// Whether `search` is within a tree. If not, the next root is due.
        is_in_tree: bool,
    },
    /// The first round of a breadth-first enumeration: one candidate of each root.
    FirstRound {
        roots: RootIterator,
        /// The roots in random order, if shuffled.
        shuffled: Option<ShuffledRoots>,
        first_round: Box<FirstRound>,
    },
    /// Further rounds: one more candidate of each tree in turn.
    LaterRounds {
        first_round: Box<FirstRound>,
        /// The number of trees that already have a search of their own.
        started: usize,
        searches: Vec<TreeSearch>,
        /// The index of the current search, and how many of those before it have more candidates.
        current: usize,
        unfinished: usize,
    },
    Finished,
}

/// The cost of looking at one root, in steps of about 10 ns.
const ROOT_STEPS: usize = 4;
/// What each variable of the query adds to the cost of a candidate, in steps of about 10 ns.
const VARIABLE_STEPS: usize = 6;

/// The cost of one candidate in steps of about 10 ns.
pub(crate) fn candidate_steps(plan: &CompiledQuery) -> usize {
    ROOT_STEPS + plan.variables.len() * VARIABLE_STEPS
}

/// If more candidates than this were found in a tree before it changed, it is not searched again and
/// its further candidates are left out: to find so many again would take longer than a slice may.
const MAX_REPEATED: usize = 4_096;

/// A resumable enumeration of candidates.
pub(crate) struct Enumeration {
    selection: RootSelection,
    max_candidates: usize,
    /// Whether `max_candidates` is below the limit that the client requested.
    is_bounded_below_limit: bool,
    candidates: Candidates,
    scratch: Scratch,
    /// Indexes of the candidates that use sharing providers only, which several trees can produce.
    shared_only: HashTable<usize>,
    /// The signatures of the trees whose search was started so far: see [`TreeSearch::sharing_signature`].
    sharing_signatures: Map<Vec<u32>, ()>,
    phase: Phase,
    /// The seed of the order of the roots and within each tree, if shuffled.
    seed: Option<u64>,
    /// Whether the state of placement changed since the enumeration began.
    has_state_changed: bool,
    /// Whether a tree changed within its enumeration and had more than [`MAX_REPEATED`] candidates.
    has_left_out_candidates: bool,
    /// The steps that remain of the current slice.
    steps_left: usize,
    /// The cost of one candidate in steps.
    candidate_steps: usize,
}

impl Enumeration {
    /// `limit` is the maximum that the client requested, `ceiling` the one that the operator set.
    pub(crate) fn new(
        plan: &Plan<'_>,
        selection: RootSelection,
        limit: Option<usize>,
        ceiling: Option<usize>,
        options: &SearchOptions,
    ) -> Self {
        let ceiling = ceiling.unwrap_or_else(|| {
            plan.state.roots().len() + ASSIGNMENTS_MAX / plan.variables.len().max(1)
        });
        let phase = match (options.seed, options.strategy) {
            (None, Strategy::DepthFirst) => Phase::DepthFirst {
                roots: RootIterator::default(),
                search: Box::new(TreeSearch::new(plan)),
                is_in_tree: false,
            },
            (seed, _) => Phase::FirstRound {
                roots: RootIterator::default(),
                shuffled: seed.map(|seed| ShuffledRoots::new(plan, &selection, seed)),
                first_round: Box::new(FirstRound::new(plan)),
            },
        };
        Self {
            selection,
            max_candidates: limit.unwrap_or(usize::MAX).min(ceiling).max(1),
            is_bounded_below_limit: limit.is_none_or(|limit| limit > ceiling),
            candidates: Candidates::new(plan.group_count),
            scratch: Scratch::new(plan),
            shared_only: HashTable::new(),
            sharing_signatures: Map::default(),
            phase,
            seed: options.seed,
            has_state_changed: false,
            has_left_out_candidates: false,
            steps_left: 0,
            candidate_steps: candidate_steps(plan),
        }
    }

    /// Runs to the end and returns all candidates, for callers that may hold the state that long.
    pub(crate) fn search(mut self, plan: &Plan<'_>) -> Candidates {
        self.run_slice(plan, usize::MAX);
        self.finish(plan)
    }

    /// The candidates found so far.
    pub(crate) fn found(&self) -> &Candidates {
        &self.candidates
    }

    /// The candidates with the provider summaries.
    pub(crate) fn finish(mut self, plan: &Plan<'_>) -> Candidates {
        let is_incomplete = self.is_incomplete();
        self.candidates.finish(plan, is_incomplete);
        self.candidates
    }

    /// The candidates without provider summaries.
    pub(crate) fn into_found(mut self) -> Candidates {
        let is_incomplete = self.is_incomplete();
        self.candidates.set_incomplete(is_incomplete);
        self.candidates
    }

    /// Whether a bound, the step budget or a change left out candidates within the client's limit.
    fn is_incomplete(&self) -> bool {
        self.has_left_out_candidates
            || self.scratch.ran_out_of_steps()
            || (self.is_bounded_below_limit && self.is_full())
    }

    fn is_full(&self) -> bool {
        self.candidates.len() >= self.max_candidates
    }

    /// Replaces the root selection after a change of state.
    pub(crate) fn reselect_roots(&mut self, plan: &Plan<'_>, selection: RootSelection) {
        self.selection = selection;
        self.has_state_changed = true;
        match &mut self.phase {
            Phase::DepthFirst { roots, .. } | Phase::FirstRound { roots, .. } => {
                roots.reclassify(plan, &self.selection);
            }
            Phase::LaterRounds { .. } | Phase::Finished => {}
        }
    }

    /// Continues for about `steps` steps. True at the end of the enumeration.
    pub(crate) fn run_slice(&mut self, plan: &Plan<'_>, steps: usize) -> bool {
        self.steps_left = steps;
        let mut phase = std::mem::replace(&mut self.phase, Phase::Finished);
        loop {
            let is_over = match &mut phase {
                Phase::DepthFirst {
                    roots,
                    search,
                    is_in_tree,
                } => self.run_depth_first(plan, roots, search, is_in_tree),
                Phase::FirstRound {
                    roots,
                    shuffled,
                    first_round,
                } => self.run_first_round(plan, roots, shuffled.as_mut(), first_round),
                Phase::LaterRounds {
                    first_round,
                    started,
                    searches,
                    current,
                    unfinished,
                } => {
                    self.start_searches(plan, first_round, started, searches)
                        && self.run_later_rounds(plan, searches, current, unfinished)
                }
                Phase::Finished => return true,
            };
            if !is_over {
                self.phase = phase;
                return false;
            }
            phase = match phase {
                Phase::FirstRound { first_round, .. } if !self.is_full() => Phase::LaterRounds {
                    first_round,
                    started: 0,
                    searches: Vec::new(),
                    current: 0,
                    unfinished: 0,
                },
                _ => Phase::Finished,
            };
        }
    }

    /// Subtracts steps from those that remain of the slice; false when none remained.
    #[inline]
    fn spend_steps(&mut self, steps: usize) -> bool {
        let has_steps = self.steps_left > 0;
        self.steps_left = self.steps_left.saturating_sub(steps);
        has_steps
    }

    /// Adds all candidates of one root after the other. False when the slice has no steps left, true at the end.
    fn run_depth_first(
        &mut self,
        plan: &Plan<'_>,
        roots: &mut RootIterator,
        search: &mut TreeSearch,
        is_in_tree: &mut bool,
    ) -> bool {
        loop {
            if self.is_full() {
                return true;
            }
            if !self.spend_steps(ROOT_STEPS) {
                return false;
            }
            if *is_in_tree {
                *is_in_tree = self.add_next(plan, search);
                continue;
            }
            if roots.trees == 0 && roots.hosts != 0 {
                self.push_hosts(plan, roots);
                continue;
            }
            match roots.next(plan, &self.selection) {
                None => return true,
                Some(root) if root.is_tree => *is_in_tree = self.start_root(plan, search, root.id),
                Some(root) => {
                    self.candidates.push_host(
                        root.id,
                        &self.selection.flat.total,
                        plan.group_count,
                    );
                }
            }
        }
    }

    /// Adds the remaining hosts of a word that has flat hosts only, the common case.
    #[inline]
    fn push_hosts(&mut self, plan: &Plan<'_>, roots: &mut RootIterator) {
        let base = u32::try_from((roots.next_word - 1) * 64).unwrap_or(u32::MAX);
        let room = self.max_candidates - self.candidates.len();
        let mut pushed = 0;
        while roots.hosts != 0 && pushed < room {
            let bit = roots.hosts.trailing_zeros();
            roots.hosts &= roots.hosts - 1;
            roots.ahead = u64::MAX << bit << 1;
            let total = &self.selection.flat.total;
            self.candidates
                .push_host(ProviderId(base + bit), total, plan.group_count);
            pushed += 1;
        }
        self.steps_left = self.steps_left.saturating_sub(pushed * ROOT_STEPS);
    }

    /// Adds the first candidate of each root, and keeps the trees that have one. False when no steps are left.
    fn run_first_round(
        &mut self,
        plan: &Plan<'_>,
        roots: &mut RootIterator,
        mut shuffled: Option<&mut ShuffledRoots>,
        first_round: &mut FirstRound,
    ) -> bool {
        loop {
            if self.is_full() {
                return true;
            }
            if !self.spend_steps(ROOT_STEPS) {
                return false;
            }
            let next_root = match &mut shuffled {
                Some(shuffled) => match shuffled.next() {
                    Some(root) if self.has_state_changed => {
                        let classified = self.selection.classify(plan, root.id);
                        if classified.hosts | classified.trees == 0 {
                            continue;
                        }
                        let is_tree = classified.trees != 0;
                        Some(SelectedRoot { is_tree, ..root })
                    }
                    next_root => next_root,
                },
                None => roots.next(plan, &self.selection),
            };
            match next_root {
                None => return true,
                Some(root) if root.is_tree => {
                    if self.start_root(plan, &mut first_round.search, root.id)
                        && self.add_next(plan, &mut first_round.search)
                    {
                        let search = &first_round.search;
                        first_round.trees.push(FirstRoundTree {
                            root: root.id,
                            skip_shared_only: search.skip_shared_only,
                            found_count: search.found_count,
                        });
                    }
                }
                Some(root) => {
                    self.candidates.push_host(
                        root.id,
                        &self.selection.flat.total,
                        plan.group_count,
                    );
                }
            }
        }
    }

    /// Starts a search of each tree, only now because one round is usually enough. False when no steps are left.
    fn start_searches(
        &mut self,
        plan: &Plan<'_>,
        first_round: &FirstRound,
        started: &mut usize,
        searches: &mut Vec<TreeSearch>,
    ) -> bool {
        while let Some(tree) = first_round.trees.get(*started) {
            if !self.spend_steps(self.candidate_steps) {
                return false;
            }
            *started += 1;
            let mut search = TreeSearch::new(plan);
            search.root = tree.root;
            search.skip_shared_only = tree.skip_shared_only;
            search.found_count = tree.found_count;
            if self.restart(plan, &mut search) {
                searches.push(search);
            }
        }
        true
    }

    /// Adds one candidate of each tree in turn until no tree has more. False when the slice has no steps left.
    fn run_later_rounds(
        &mut self,
        plan: &Plan<'_>,
        searches: &mut Vec<TreeSearch>,
        current: &mut usize,
        unfinished: &mut usize,
    ) -> bool {
        while !searches.is_empty() {
            while *current < searches.len() {
                if self.is_full() {
                    return true;
                }
                if !self.spend_steps(ROOT_STEPS) {
                    return false;
                }
                if self.add_next(plan, &mut searches[*current]) {
                    searches.swap(*unfinished, *current);
                    *unfinished += 1;
                }
                *current += 1;
            }
            searches.truncate(*unfinished);
            (*current, *unfinished) = (0, 0);
        }
        true
    }

    /// Starts the search of a tree; false if it is clear at once that the tree has no candidate.
    fn start_tree(&mut self, plan: &Plan<'_>, search: &mut TreeSearch, root: ProviderId) -> bool {
        let (matches, sharing) = (&self.selection.matches, &self.selection.sharing);
        let may_have_candidate = search.start(plan, matches, sharing, &Taken::default(), root);
        self.steps_left = self.steps_left.saturating_sub(search.start_steps(plan));
        if let Some(seed) = self.seed {
            // Each tree is shuffled differently.
            search.shuffle(&mut Shuffle::new(seed ^ u64::from(root.0).rotate_left(32)));
        }
        may_have_candidate
    }

    /// Starts the search of a tree that was not searched before. False if it is clear at once that the tree has no
    /// candidate, or only candidates that use sharing providers only and that another tree has produced.
    fn start_root(&mut self, plan: &Plan<'_>, search: &mut TreeSearch, root: ProviderId) -> bool {
        if !self.start_tree(plan, search, root) {
            return false;
        }
        if !self.selection.sharing.is_empty() {
            let signature = search.sharing_signature();
            if !signature.is_empty() {
                search.skip_shared_only = self.sharing_signatures.insert(signature, ()).is_some();
            }
        }
        !search.skip_shared_only || search.has_own_supplier()
    }

    /// Starts the search of a tree again on the state as it is now, and skips as many candidates as
    /// were found in the tree before. False if it has no more, or is not searched again.
    fn restart(&mut self, plan: &Plan<'_>, search: &mut TreeSearch) -> bool {
        let (root, skip_shared_only) = (search.root, search.skip_shared_only);
        let found_count = search.found_count;
        if found_count > MAX_REPEATED {
            self.has_left_out_candidates = true;
            return false;
        }
        let is_root = plan
            .state
            .provider(root)
            .is_some_and(|provider| provider.root == root);
        if !is_root || !self.start_tree(plan, search, root) {
            return false;
        }
        search.skip_shared_only = skip_shared_only;
        (0..found_count).all(|_| search.next(plan, &mut self.scratch))
    }

    /// Adds the next candidate of a tree that is not a duplicate. False if the tree has no more.
    fn add_next(&mut self, plan: &Plan<'_>, search: &mut TreeSearch) -> bool {
        if !search.is_current(plan) && !self.restart(plan, search) {
            return false;
        }
        while search.next(plan, &mut self.scratch) {
            self.steps_left = self.steps_left.saturating_sub(self.candidate_steps);
            self.candidates.push_assignment(plan, search);
            if !search.uses_sharing_only() || self.insert_shared_only() {
                return true;
            }
            self.candidates.pop();
        }
        false
    }

    /// Adds the last candidate to `shared_only`; false if an equal one is in it.
    fn insert_shared_only(&mut self) -> bool {
        let candidates = &self.candidates;
        let last = candidates.len() - 1;
        let hash = |index: usize| hash_of(&candidates.key(index));
        let entry = self.shared_only.entry(
            hash(last),
            |other| candidates.key(*other) == candidates.key(last),
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
