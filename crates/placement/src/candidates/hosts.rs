//! A query evaluated for single hosts rather than for the whole fleet, as a scheduler needs it.
//!
//! [`HostSearch`] gives the same candidates for a host as [`find_candidates`](super::find_candidates)
//! (`tests/placement/candidates.rs`), and does no work for hosts that the caller does not request.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use super::answer::Candidates;
use super::plan::{CompiledQuery, Plan};
use super::prepare;
use super::query::{CandidateQuery, QueryRefusal};
use super::root_selection::RootSelection;
use super::scratch::Scratch;
use super::taken::Taken;
use super::tree::TreeSearch;
use crate::ids::{ClassId, ProviderId};
use crate::state::State;

/// After this many trees were searched, the set of trees that can be feasible at all is computed once: those that have
/// a provider for each variable, looked at alone. From then on only these trees are searched.
const TREES_BEFORE_MASK: u32 = 64;

/// A prepared query that can be evaluated host by host.
pub struct HostSearch<'a> {
    pub(super) plan: Plan<'a>,
    pub(super) root_selection: Arc<RootSelection>,
    /// Buffers of a tree search, reused by the next one; `None` before the first search and during one.
    buffers: RefCell<Option<Box<(TreeSearch, Scratch)>>>,
    /// The number of trees searched so far, up to [`TREES_BEFORE_MASK`].
    searched_trees: Cell<u32>,
    /// Bit mask of the roots whose trees have a provider for each variable, looked at alone; computed on demand.
    possible_roots: OnceCell<Vec<u64>>,
}

/// A prepared query without its borrow of the state, so that it can be evaluated again later
/// without looking its names up.
#[derive(Clone, Debug)]
pub struct PreparedQuery {
    compiled: Arc<CompiledQuery>,
    root_selection: Arc<RootSelection>,
    structure_version: u64,
}

impl PreparedQuery {
    /// Binds the prepared query to the current state. `None` if it has to be prepared anew, because a name (of a class,
    /// trait or aggregate) or the topology changed, or because providers began to share. Changes of trees do not
    /// matter.
    #[must_use]
    pub fn resume<'a>(&self, state: &'a State) -> Option<HostSearch<'a>> {
        let is_current = self.structure_version == state.tree_changes().structure_version()
            && !has_sharing_provider(state);
        is_current.then(|| HostSearch {
            plan: Plan {
                state,
                compiled: Arc::clone(&self.compiled),
            },
            root_selection: Arc::clone(&self.root_selection),
            buffers: RefCell::default(),
            searched_trees: Cell::new(0),
            possible_roots: OnceCell::new(),
        })
    }
}

/// Whether any provider has the sharing trait.
fn has_sharing_provider(state: &State) -> bool {
    let sharing = state.sharing_trait();
    sharing.is_some_and(|sharing| !state.trait_members(sharing).is_empty())
}

/// 64 consecutive hosts, classified by bit masks alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostWord {
    /// Flat hosts that are feasible.
    pub feasible: u64,
    /// Hosts that need a tree search ([`HostSearch::fits`]): they have child providers, or a
    /// sharing provider is in reach.
    pub undecided: u64,
}

impl<'a> HostSearch<'a> {
    /// Prepares a query. `None` if it is already clear that no provider can serve it.
    ///
    /// # Errors
    ///
    /// As [`find_candidates`](super::find_candidates).
    pub fn new(state: &'a State, query: &CandidateQuery) -> Result<Option<Self>, QueryRefusal> {
        Ok(prepare(state, query)?.map(|plan| Self {
            root_selection: Arc::new(RootSelection::by_host(&plan)),
            plan,
            buffers: RefCell::default(),
            searched_trees: Cell::new(0),
            possible_roots: OnceCell::new(),
        }))
    }

    /// The part of the prepared query that does not borrow the state. `None` if the result of preparing depends on more
    /// than names: on sharing providers, or on the members of a tree that the query names (`in_tree`).
    #[must_use]
    pub fn to_prepared_query(&self) -> Option<PreparedQuery> {
        let state = self.plan.state;
        let has_in_tree = self
            .plan
            .conditions
            .iter()
            .any(|condition| condition.tree.is_some());
        let depends_on_names_only = !has_in_tree && !has_sharing_provider(state);
        depends_on_names_only.then(|| PreparedQuery {
            compiled: Arc::clone(&self.plan.compiled),
            root_selection: Arc::clone(&self.root_selection),
            structure_version: state.tree_changes().structure_version(),
        })
    }

    /// The number of words of 64 hosts.
    #[must_use]
    pub fn word_count(&self) -> usize {
        self.plan.state.provider_slots().div_ceil(64)
    }

    /// Classifies the 64 hosts from slot `64 * word` on.
    #[must_use]
    #[inline]
    pub fn word(&self, word: usize) -> HostWord {
        let roots = self.root_selection.word(&self.plan, word);
        HostWord {
            feasible: roots.hosts,
            undecided: roots.trees,
        }
    }

    /// Classifies a single host, as [`Self::word`] would: only the host's own bit can be set.
    #[must_use]
    #[inline]
    pub fn classify(&self, host: ProviderId) -> HostWord {
        let classified = self.root_selection.classify(&self.plan, host);
        HostWord {
            feasible: classified.hosts,
            undecided: classified.trees,
        }
    }

    /// The eligible ones of the 64 hosts from slot `64 * word` on: every host that [`Self::word`] can return, whatever
    /// amounts are free. Of a flat host its traits and aggregates are tested, of a tree only those of the root.
    #[must_use]
    pub fn eligible_word(&self, word: usize) -> u64 {
        self.root_selection.eligible_word(&self.plan, word)
    }

    /// Whether the result for a host can depend on providers outside its own tree.
    #[must_use]
    pub fn depends_on_sharing(&self) -> bool {
        !self.root_selection.sharing.is_empty()
    }

    /// How many consumers have room on a flat host of [`HostWord::feasible`] at the same time, and the class of which
    /// it then has too little for another one. `None` if the query has no resources.
    #[must_use]
    pub fn flat_room(&self, host: ProviderId) -> Option<(u64, ClassId)> {
        self.root_selection.flat.room(&self.plan, host)
    }

    /// The first class of which a flat host of [`Self::eligible_word`] has too little for one consumer; `None` if it
    /// has enough of each.
    #[must_use]
    pub fn lacking_class(&self, host: ProviderId) -> Option<ClassId> {
        self.root_selection.flat.lacking_class(&self.plan, host)
    }

    /// Whether a host can serve the query.
    #[must_use]
    pub fn fits(&self, host: ProviderId) -> bool {
        let classified = self.root_selection.classify(&self.plan, host);
        classified.hosts != 0
            || (classified.trees != 0
                && self.is_possible(host)
                && self.search_tree(host, &Taken::default(), |search, scratch| {
                    search.next(&self.plan, scratch)
                }))
    }

    /// The candidates of a host, at most `max_count`, without provider summaries.
    #[must_use]
    pub fn candidates_of(&self, host: ProviderId, max_count: usize) -> Candidates {
        let mut found = Candidates::new(self.plan.group_count);
        let classified = self.root_selection.classify(&self.plan, host);
        if classified.hosts != 0 {
            found.push_host(host, &self.root_selection.flat.total, self.plan.group_count);
        } else if classified.trees != 0 && self.is_possible(host) {
            self.search_tree(host, &Taken::default(), |search, scratch| {
                while found.len() < max_count && search.next(&self.plan, scratch) {
                    found.push_assignment(&self.plan, search);
                }
                true
            });
        }
        found
    }

    /// Starts the search of a tree, as if `taken` were already taken from its providers, and returns what `evaluate`
    /// makes of that search. False without calling `evaluate` if it is clear at once that the tree has no candidate.
    pub(super) fn search_tree(
        &self,
        root: ProviderId,
        taken: &Taken,
        evaluate: impl FnOnce(&mut TreeSearch, &mut Scratch) -> bool,
    ) -> bool {
        let buffers = self.buffers.borrow_mut().take();
        let new = || Box::new((TreeSearch::new(&self.plan), Scratch::new(&self.plan)));
        let mut buffers = buffers.unwrap_or_else(new);
        let (search, scratch) = &mut *buffers;
        scratch.reset_steps();
        let root_selection = &self.root_selection;
        let found = search.start(
            &self.plan,
            &root_selection.matches,
            &root_selection.sharing,
            taken,
            root,
        ) && evaluate(search, scratch);
        *self.buffers.borrow_mut() = Some(buffers);
        found
    }

    /// A cheap necessary condition: whether the tree may have a provider for each variable. The first
    /// [`TREES_BEFORE_MASK`] calls are counted and return true.
    fn is_possible(&self, root: ProviderId) -> bool {
        let searched = self.searched_trees.get();
        if searched < TREES_BEFORE_MASK {
            self.searched_trees.set(searched + 1);
            return true;
        }
        let possible = self
            .possible_roots
            .get_or_init(|| self.root_selection.possible_roots(&self.plan));
        possible[root.index() / 64] >> (root.0 % 64) & 1 == 1
    }
}
