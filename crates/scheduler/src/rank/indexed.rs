//! The indexed ranking, which finds the best of very many hosts without visiting all of them.
//!
//! The score of a host is the sum of `multiplier * (value - low) / (high - low)`, as in Nova,
//! where `low` and `high` are the term's extremes over the feasible hosts of the request. In a
//! fleet with balanced load, the scores of thousands of hosts are almost equal to the best, so a
//! search with upper bounds that are computed anew for each request would visit them all. Therefore
//! scores are cached, and updated for the hosts that changed:
//!
//! - A [`ScoreTable`](scores::ScoreTable) has the score of every host under one set of scales, and
//!   the best score of each block of 64 hosts, regardless of feasibility. Requests of many classes
//!   share a table, because the hosts at the extremes are feasible for most of them.
//! - A [`ClassIndex`] belongs to one request class. It has a superset of the feasible hosts, and for
//!   each block an upper bound of their scores. A change of a host can raise its block's bound and
//!   never lowers it; a bound that is too high is corrected when the search visits the block.
//! - The extremes are found in the same way, with bounds for each block. While the host at the
//!   extreme of the whole fleet is feasible for the request, its value is the result, and the bounds are
//!   not even updated.
//! - Bounds have two layers, blocks and groups of blocks, so that a search opens few groups.
//! - A [`ScoreCache`] has the data that all classes with the same weighers share: the score tables,
//!   and the extremes of each block in each term.
//!
//! So a decision visits few blocks, and the first decision for a class costs little more. The masks
//! of a class may contain infeasible hosts but never miss a feasible one: a host is tested when it
//! has the best score, and removed from the mask if it is infeasible. Exact tests (trees, topology
//! rules) are made only for such hosts: see [`Feasibility`].

use super::feasibility::Feasibility;
use super::{Ranked, Ranker};
use crate::clock::Clock;
use crate::hosts::table::{HostChange, HostTable};
use crate::weighers::Term;

mod block_search;
mod bounds;
mod changes;
mod class_index;
mod class_masks;
mod feasibility_cache;
mod fleet;
mod range_end;
mod range_search;
mod scale;
mod scores;
#[cfg(test)]
mod tests;

pub use changes::ChangeLog;
pub use class_index::ClassIndex;
pub use fleet::Fleet;
pub use scores::ScoreCache;

/// The maximum number of score caches, each for one list of terms.
const SCORE_CACHES_MAX: usize = 8;

/// Ranks with the index of the request's class.
#[derive(Debug)]
pub struct Indexed<'r> {
    /// The index of the class, up to date with the log of changes.
    pub index: &'r mut ClassIndex,
    /// The scores for the terms of the request.
    pub scores: &'r mut ScoreCache,
    /// The current state of all hosts.
    pub fleet: Fleet<'r>,
}

impl Ranker for Indexed<'_> {
    fn best<F: Feasibility>(&mut self, count: usize, feasibility: &F) -> Vec<Ranked> {
        // A single feasible host is not weighed, so the search has to look for a second one.
        let mut ranked = self
            .index
            .best(self.scores, count.max(2), feasibility, &self.fleet);
        if let [single] = &mut ranked[..] {
            single.score = 0.0;
        }
        ranked.truncate(count);
        ranked
    }
}

/// The data that the indexes of all classes share: the change log and the score caches.
#[derive(Debug, Default)]
pub struct SharedScores {
    log: ChangeLog,
    caches: Clock<ScoreCache>,
}

impl SharedScores {
    /// Appends changes of hosts. The columns must already have the new values.
    pub fn append(&mut self, changes: impl Iterator<Item = HostChange>) {
        self.log.append(changes);
    }

    /// The score cache for a list of terms, and the state of the hosts that it is computed from.
    pub fn for_terms<'s>(
        &'s mut self,
        terms: &[Term],
        hosts: &'s HostTable,
    ) -> (&'s mut ScoreCache, Fleet<'s>) {
        let cached = self.caches.position(|cache| cache.terms() == terms);
        let index = cached.unwrap_or_else(|| {
            let make = |_| ScoreCache::new(terms.to_vec());
            self.caches.insert(SCORE_CACHES_MAX, make)
        });
        let fleet = Fleet {
            log: &self.log,
            columns: hosts.columns(),
            hosts: hosts.slots(),
        };
        (self.caches.get(index), fleet)
    }
}
