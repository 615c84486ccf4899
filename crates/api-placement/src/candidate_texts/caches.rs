//! The caches of whole responses and of provider summaries. A whole response is valid until
//! something changes that candidates depend on.

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
    pub(crate) responses: ResponseCache,
    pub(crate) summaries: SummaryCache,
}

/// The key of a cached response: its microversion and its query string.
pub(crate) type CacheKey<'q> = (Microversion, &'q str);

/// Whole responses by microversion and query.
///
/// All are of one version of the state; the first response of another version clears the cache.
#[derive(Debug, Default)]
pub(crate) struct ResponseCache(Mutex<CacheOfVersion>);

/// Responses of one version of the state, and their size in bytes.
#[derive(Debug, Default)]
struct CacheOfVersion {
    version: StateVersion,
    by_query: HashMap<Microversion, HashMap<String, Bytes>>,
    bytes: usize,
}

/// The version of everything that candidates depend on: the counters of the tree change log, which
/// only increase.
type StateVersion = (u64, u64, u64);

fn version_of(state: &State) -> StateVersion {
    let log = state.tree_changes();
    (
        log.position(),
        log.structure_version(),
        log.sharing_version(),
    )
}

impl ResponseCache {
    /// The cached response to a query on this state.
    pub(crate) fn get(&self, state: &State, key: CacheKey<'_>) -> Option<Bytes> {
        let cache = self.0.lock();
        if cache.version != version_of(state) {
            return None;
        }
        cache.by_query.get(&key.0)?.get(key.1).cloned()
    }

    /// Caches a response of this state.
    pub(crate) fn put(&self, state: &State, key: CacheKey<'_>, response: Bytes) {
        let bytes = key.1.len() + response.len();
        if bytes > BYTES_MAX {
            return;
        }
        let mut cache = self.0.lock();
        if cache.version != version_of(state) || cache.bytes + bytes > BYTES_MAX {
            *cache = CacheOfVersion {
                version: version_of(state),
                ..CacheOfVersion::default()
            };
        }
        cache.bytes += bytes;
        let responses_of_version = cache.by_query.entry(key.0).or_default();
        responses_of_version.insert(key.1.to_owned(), response);
    }
}
