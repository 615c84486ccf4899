//! A query asked of hosts, not of the whole fleet: what a scheduler needs, which has hosts in mind.
//!
//! Both ways give the same candidates for a host (`tests/candidates_by_host.rs`). This one does
//! nothing for hosts that nobody asks about.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use super::anchors::Anchors;
use super::answer::Candidates;
use super::complete::Scratch;
use super::make_ready;
use super::plan::{Form, Plan};
use super::query::{CandidateQuery, QueryRefusal};
use super::tree::TreeSearch;
use crate::ids::ProviderId;
use crate::state::State;

/// After so many trees it pays to find out which trees have everything at all.
const TREES_ASKED: u32 = 64;

/// A query that can be asked of one host after the other.
pub struct HostSearch<'a> {
    plan: Plan<'a>,
    anchors: Arc<Anchors>,
    /// What a search of a tree works with, for the next one.
    buffers: RefCell<Option<Box<(TreeSearch, Scratch)>>>,
    /// How many trees were asked about.
    asked: Cell<u32>,
    /// Words of the roots of which each choice has a place, once that was found out.
    possible: OnceCell<Vec<u64>>,
}

/// A query that was made ready, to be asked again later without looking its names up.
#[derive(Clone, Debug)]
pub struct KeptSearch {
    form: Arc<Form>,
    anchors: Arc<Anchors>,
    structure: u64,
}

impl KeptSearch {
    /// The search, of the state as it is now; nothing if the query has to be made ready anew.
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

/// Whether some provider shares what it has, with whomever.
fn anybody_shares(state: &State) -> bool {
    let sharing = state.sharing_trait();
    sharing.is_some_and(|sharing| !state.trait_members(sharing).is_empty())
}

/// 64 hosts, by what can be said of them at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostWord {
    /// Lone hosts that can serve the query.
    pub fitting: u64,
    /// Hosts with parts, or with which somebody shares: ask [`HostSearch::fits`] of each.
    pub unsure: u64,
}

impl<'a> HostSearch<'a> {
    /// Makes a query ready; nothing if it can be seen already that nobody serves it.
    ///
    /// # Errors
    ///
    /// As [`find_candidates`](super::find_candidates).
    pub fn new(state: &'a State, query: &CandidateQuery) -> Result<Option<Self>, QueryRefusal> {
        Ok(make_ready(state, query)?.map(|plan| Self {
            anchors: Arc::new(Anchors::by_host(&plan)),
            plan,
            buffers: RefCell::default(),
            asked: Cell::new(0),
            possible: OnceCell::new(),
        }))
    }

    /// What is worth keeping of it; nothing if it depends on more than names: on providers that
    /// share, or on the members of a tree.
    #[must_use]
    pub fn keep(&self) -> Option<KeptSearch> {
        let state = self.plan.state;
        let names_tree = self.plan.kinds.iter().any(|kind| kind.tree.is_some());
        let may_keep = !names_tree && !anybody_shares(state);
        may_keep.then(|| KeptSearch {
            form: Arc::clone(&self.plan.form),
            anchors: Arc::clone(&self.anchors),
            structure: state.touched().structure(),
        })
    }

    /// How many words of 64 hosts there are.
    #[must_use]
    pub fn words(&self) -> usize {
        self.plan.state.provider_slots().div_ceil(64)
    }

    /// The 64 hosts from slot `64 * word` on.
    #[must_use]
    #[inline]
    pub fn word(&self, word: usize) -> HostWord {
        let roots = self.anchors.word(&self.plan, word);
        HostWord {
            fitting: roots.hosts,
            unsure: roots.trees,
        }
    }

    /// One host as [`Self::word`] has it, looked at alone.
    #[must_use]
    #[inline]
    pub fn one(&self, host: ProviderId) -> HostWord {
        let room = self.anchors.host(&self.plan, host);
        HostWord {
            fitting: room.hosts,
            unsure: room.trees,
        }
    }

    /// Of the 64 hosts from slot `64 * word` on, those that could serve a query of this kind if they
    /// had room: never fewer than [`Self::word`] says, whatever the amounts.
    #[must_use]
    pub fn kind_word(&self, word: usize) -> u64 {
        self.anchors.kind_word(&self.plan, word)
    }

    /// Whether the answer for a host depends on more than its own tree.
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

    /// The ways in which a host can serve the query, at most so many. They come without summaries.
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

    /// What a search of a tree gives; false where some choice has no place in it.
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

    /// Whether a tree may have a place for each choice.
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
