//! A query asked of hosts, not of the whole fleet: what a scheduler needs, which has hosts in mind.
//!
//! Both ways give the same candidates for a host (`tests/candidates_by_host.rs`). This one does
//! nothing for hosts that nobody asks about.

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

/// A query that can be asked of one host after the other.
pub struct HostSearch<'a> {
    plan: Plan<'a>,
    anchors: Arc<Anchors>,
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
        let bit = 1 << (host.0 % 64);
        let word = self.word(host.index() / 64);
        word.fitting & bit != 0 || (word.unsure & bit != 0 && !self.of_host(host, 1).is_empty())
    }

    /// The ways in which a host can serve the query, at most so many. They come without summaries.
    #[must_use]
    pub fn of_host(&self, host: ProviderId, most: usize) -> Candidates {
        let mut found = Candidates::new(self.plan.groups);
        let bit = 1 << (host.0 % 64);
        let word = self.word(host.index() / 64);
        if word.fitting & bit != 0 {
            found.push_host(host, &self.anchors.flat.total, self.plan.groups);
        } else if word.unsure & bit != 0 {
            let mut search = TreeSearch::new(&self.plan);
            let mut scratch = Scratch::new(&self.plan);
            let anchors = &self.anchors;
            if search.open(&self.plan, &anchors.matches, &anchors.sharing, host) {
                while found.len() < most && search.next(&self.plan, &mut scratch) {
                    found.push_choices(&self.plan, &search);
                }
            }
        }
        found
    }
}
