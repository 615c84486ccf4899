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

/// The key of a cached response: the microversion and the query string of the request.
pub(crate) type CacheKey<'q> = (Microversion, &'q str);

/// Whole responses by microversion and query.
///
/// All responses are of one version of the state. The first response of another version clears the cache.
#[derive(Debug, Default)]
pub(crate) struct ResponseCache(Mutex<CacheOfStateVersion>);

/// Responses of one version of the state, and their size in bytes.
#[derive(Debug, Default)]
struct CacheOfStateVersion {
    version: StateVersion,
    by_microversion: HashMap<Microversion, HashMap<String, Bytes>>,
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
    /// The cached response to a query on this state; none if there is none, or only that of an earlier state.
    pub(crate) fn get(&self, state: &State, key: CacheKey<'_>) -> Option<Bytes> {
        let (microversion, query) = key;
        let cache = self.0.lock();
        if cache.version != version_of(state) {
            return None;
        }
        cache
            .by_microversion
            .get(&microversion)?
            .get(query)
            .cloned()
    }

    /// Caches a response of this state.
    pub(crate) fn put(&self, state: &State, key: CacheKey<'_>, response: Bytes) {
        let (microversion, query) = key;
        let bytes = query.len() + response.len();
        if bytes > BYTES_MAX {
            return;
        }
        let mut cache = self.0.lock();
        if cache.version != version_of(state) || cache.bytes + bytes > BYTES_MAX {
            *cache = CacheOfStateVersion {
                version: version_of(state),
                ..CacheOfStateVersion::default()
            };
        }
        cache.bytes += bytes;
        let responses_by_query = cache.by_microversion.entry(microversion).or_default();
        responses_by_query.insert(query.to_owned(), response);
    }
}
