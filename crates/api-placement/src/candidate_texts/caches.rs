//! A cache of responses for the case that the same query comes again before anything has changed.

use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::Mutex;
use placewright_placement::State;

use super::summary_cache::SummaryCache;
use crate::microversion::Microversion;

/// The most bytes of all cached responses.
const BYTES_MAX: usize = 16 << 20;

/// The caches of whole responses and of summaries.
#[derive(Debug, Default)]
pub(crate) struct CandidateCaches {
    pub(crate) answers: ResponseCache,
    pub(crate) summaries: SummaryCache,
}

/// Whole responses by microversion and query.
///
/// All are of one state; the first query after a change clears the cache.
#[derive(Debug, Default)]
pub(crate) struct ResponseCache(Mutex<CacheOfVersion>);

/// Responses of one version of the state, and their size in bytes.
#[derive(Debug, Default)]
struct CacheOfVersion {
    version: StateVersion,
    by_query: HashMap<Microversion, HashMap<String, Bytes>>,
    bytes: usize,
}

/// The version of everything that candidates depend on: the counters of the log of changed trees,
/// which only increase.
type StateVersion = (u64, u64, u64);

fn version_of(state: &State) -> StateVersion {
    let log = state.tree_changes();
    (log.position(), log.structure(), log.sharing())
}

impl ResponseCache {
    /// The cached response to a query on this state.
    pub(crate) fn get(&self, state: &State, asked: (Microversion, &str)) -> Option<Bytes> {
        let kept = self.0.lock();
        if kept.version != version_of(state) {
            return None;
        }
        kept.by_query.get(&asked.0)?.get(asked.1).cloned()
    }

    /// Caches a response of this state.
    pub(crate) fn put(&self, state: &State, asked: (Microversion, &str), answer: Bytes) {
        let bytes = asked.1.len() + answer.len();
        if bytes > BYTES_MAX {
            return;
        }
        let mut kept = self.0.lock();
        if kept.version != version_of(state) || kept.bytes + bytes > BYTES_MAX {
            *kept = CacheOfVersion {
                version: version_of(state),
                ..CacheOfVersion::default()
            };
        }
        kept.bytes += bytes;
        let of_version = kept.by_query.entry(asked.0).or_default();
        of_version.insert(asked.1.to_owned(), answer);
    }
}
