//! A cache of resolved queries: names are looked up once for each class of requests.

use hashbrown::HashMap;
use placewright_placement::{CandidateQuery, HostSearch, KeptSearch, QueryRefusal, State};

use crate::translate::prepare::Class;

/// The minimum number of classes whose queries are cached; classes are numbered in order of
/// arrival.
const KEPT_MAX: u64 = 1_024;

/// How many queries of first-time requests are cached, for the claims that follow.
const FRESH_MAX: usize = 8;

/// The cache key of a query: the class of the request, and whether it is the fallback query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueryKey {
    pub(super) class: Class,
    pub(super) is_fallback: bool,
}

/// The cache of resolved queries.
#[derive(Debug, Default)]
pub(super) struct SearchShelf {
    kept: HashMap<QueryKey, KeptSearch, foldhash::quality::FixedState>,
    /// A ring of queries of first-time requests.
    fresh: Vec<(QueryKey, KeptSearch)>,
    /// The next entry of the ring to be replaced.
    next: usize,
}

impl SearchShelf {
    /// A cached query, if there is one and it is still valid.
    pub(super) fn known<'a>(&self, state: &'a State, key: QueryKey) -> Option<HostSearch<'a>> {
        let kept = if key.class.is_known {
            self.kept.get(&key)
        } else {
            let mut fresh = self.fresh.iter();
            fresh.find_map(|(other, kept)| (*other == key).then_some(kept))
        };
        kept?.resume(state)
    }

    /// The resolved query, from the cache or resolved now; `None` if no provider can serve it.
    ///
    /// # Errors
    ///
    /// As [`HostSearch::new`].
    pub(super) fn search<'a>(
        &mut self,
        state: &'a State,
        query: &CandidateQuery,
        key: Option<QueryKey>,
    ) -> Result<Option<HostSearch<'a>>, QueryRefusal> {
        if let Some(known) = key.and_then(|key| self.known(state, key)) {
            return Ok(Some(known));
        }
        let search = HostSearch::new(state, query)?;
        let kept = search.as_ref().and_then(HostSearch::keep);
        if let (Some(key), Some(kept)) = (key, kept) {
            self.put(key, kept);
        }
        Ok(search)
    }

    fn put(&mut self, key: QueryKey, search: KeptSearch) {
        if !key.class.is_known {
            match self.fresh.get_mut(self.next) {
                Some(place) => *place = (key, search),
                None => self.fresh.push((key, search)),
            }
            self.next = (self.next + 1) % FRESH_MAX;
            return;
        }
        let oldest = key.class.number.saturating_sub(KEPT_MAX);
        if self.kept.len() as u64 >= 2 * KEPT_MAX {
            self.kept.retain(|key, _| key.class.number > oldest);
        }
        self.kept.insert(key, search);
    }
}
