//! A query evaluated for single hosts rather than for the whole fleet, as a scheduler needs it.
//!
//! Both entry points give the same candidates for a host (`tests/candidates_by_host.rs`); this one
//! spends nothing on hosts that are not asked about.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use super::answer::Candidates;
use super::plan::{CompiledQuery, Plan};
use super::prepare;
use super::query::{CandidateQuery, QueryRefusal};
use super::root_selection::RootSelection;
use super::scratch::Scratch;
use super::tree::TreeSearch;
use crate::ids::ProviderId;
use crate::state::State;

/// From this many trees on, the set of trees that have any provider for each choice is computed
/// once, instead of finding out tree by tree.
const TREES_ASKED: u32 = 64;

/// A prepared query that can be evaluated host by host.
pub struct HostSearch<'a> {
    plan: Plan<'a>,
    anchors: Arc<RootSelection>,
    /// Buffers of a tree search, reused by the next one.
    buffers: RefCell<Option<Box<(TreeSearch, Scratch)>>>,
    /// The number of trees evaluated so far.
    asked: Cell<u32>,
    /// Bit mask of the roots whose trees have a place for each choice; computed on demand.
    possible: OnceCell<Vec<u64>>,
}

/// A prepared query without its borrow of the state, so that it can be evaluated again later
/// without looking its names up.
#[derive(Clone, Debug)]
pub struct PreparedQuery {
    form: Arc<CompiledQuery>,
    anchors: Arc<RootSelection>,
    structure: u64,
}

impl PreparedQuery {
    /// Binds the prepared query to the current state. `None` if its names or the topology changed
    /// and it has to be prepared anew.
    #[must_use]
    pub fn resume<'a>(&self, state: &'a State) -> Option<HostSearch<'a>> {
        let is_same = self.structure == state.touched().structure() && !anybody_shares(state);
        is_same.then(|| HostSearch {
            plan: Plan {
                state,
                form: Arc::clone(&self.form),
            },
            anchors: Arc::clone(&self.anchors),
            buffers: RefCell::default(),
            asked: Cell::new(0),
            possible: OnceCell::new(),
        })
    }
}

/// Whether any provider has the sharing trait.
fn anybody_shares(state: &State) -> bool {
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
            anchors: Arc::new(RootSelection::by_host(&plan)),
            plan,
            buffers: RefCell::default(),
            asked: Cell::new(0),
            possible: OnceCell::new(),
        }))
    }

    /// The part of the prepared query that does not borrow the state. `None` if it depends on more
    /// than names: on sharing providers, or on the members of a tree.
    #[must_use]
    pub fn keep(&self) -> Option<PreparedQuery> {
        let state = self.plan.state;
        let names_tree = self.plan.kinds.iter().any(|kind| kind.tree.is_some());
        let may_keep = !names_tree && !anybody_shares(state);
        may_keep.then(|| PreparedQuery {
            form: Arc::clone(&self.plan.form),
            anchors: Arc::clone(&self.anchors),
            structure: state.touched().structure(),
        })
    }

    /// The number of words of 64 hosts.
    #[must_use]
    pub fn words(&self) -> usize {
        self.plan.state.provider_slots().div_ceil(64)
    }

    /// Classifies the 64 hosts from slot `64 * word` on.
    #[must_use]
    #[inline]
    pub fn word(&self, word: usize) -> HostWord {
        let roots = self.anchors.word(&self.plan, word);
        HostWord {
            feasible: roots.hosts,
            undecided: roots.trees,
        }
    }

    /// Classifies a single host, as [`Self::word`] would.
    #[must_use]
    #[inline]
    pub fn one(&self, host: ProviderId) -> HostWord {
        let room = self.anchors.host(&self.plan, host);
        HostWord {
            feasible: room.hosts,
            undecided: room.trees,
        }
    }

    /// Of the 64 hosts from slot `64 * word` on, those that satisfy everything but capacity: a
    /// superset of [`Self::word`], whatever the amounts.
    #[must_use]
    pub fn eligible_word(&self, word: usize) -> u64 {
        self.anchors.eligible_word(&self.plan, word)
    }

    /// Whether the result for a host can depend on providers outside its own tree.
    #[must_use]
    pub fn takes_shared(&self) -> bool {
        !self.anchors.sharing.is_empty()
    }

    /// Whether a host can serve the query.
    #[must_use]
    pub fn fits(&self, host: ProviderId) -> bool {
        let room = self.anchors.host(&self.plan, host);
        room.hosts != 0
            || (room.trees != 0
                && self.is_possible(host)
                && self.searched(host, |search, scratch| search.next(&self.plan, scratch)))
    }

    /// The candidates of a host, at most `most` of them, without provider summaries.
    #[must_use]
    pub fn of_host(&self, host: ProviderId, most: usize) -> Candidates {
        let mut found = Candidates::new(self.plan.groups);
        let room = self.anchors.host(&self.plan, host);
        if room.hosts != 0 {
            found.push_host(host, &self.anchors.flat.total, self.plan.groups);
        } else if room.trees != 0 && self.is_possible(host) {
            self.searched(host, |search, scratch| {
                while found.len() < most && search.next(&self.plan, scratch) {
                    found.push_choices(&self.plan, search);
                }
                true
            });
        }
        found
    }

    /// Runs a tree search; false if some choice has no place in the tree.
    fn searched(
        &self,
        root: ProviderId,
        look: impl FnOnce(&mut TreeSearch, &mut Scratch) -> bool,
    ) -> bool {
        let buffers = self.buffers.borrow_mut().take();
        let new = || Box::new((TreeSearch::new(&self.plan), Scratch::new(&self.plan)));
        let mut buffers = buffers.unwrap_or_else(new);
        let (search, scratch) = &mut *buffers;
        scratch.renew();
        let anchors = &self.anchors;
        let found = search.open(&self.plan, &anchors.matches, &anchors.sharing, root)
            && look(search, scratch);
        *self.buffers.borrow_mut() = Some(buffers);
        found
    }

    /// A cheap necessary condition: whether the tree may have a place for each choice.
    fn is_possible(&self, root: ProviderId) -> bool {
        let asked = self.asked.get();
        if asked < TREES_ASKED {
            self.asked.set(asked + 1);
            return true;
        }
        let possible = self
            .possible
            .get_or_init(|| self.anchors.possible_roots(&self.plan));
        possible[root.index() / 64] >> (root.0 % 64) & 1 == 1
    }
}
