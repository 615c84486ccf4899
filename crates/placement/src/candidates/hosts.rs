//! A query asked of hosts, not of the whole fleet: what a scheduler needs, which has hosts in mind.
//!
//! Both ways give the same candidates for a host (`tests/candidates_by_host.rs`). This one does
//! nothing for hosts that nobody asks about.

use super::anchors::Anchors;
use super::answer::Candidates;
use super::complete::Scratch;
use super::make_ready;
use super::plan::Plan;
use super::query::{CandidateQuery, QueryRefusal};
use super::tree::TreeSearch;
use crate::ids::ProviderId;
use crate::state::State;

/// A query that can be asked of one host after the other.
pub struct HostSearch<'a> {
    plan: Plan<'a>,
    anchors: Anchors<'a>,
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
            anchors: Anchors::by_host(&plan),
            plan,
        }))
    }

    /// How many words of 64 hosts there are.
    #[must_use]
    pub fn words(&self) -> usize {
        self.anchors.words
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
