//! Queries that were made ready before: names are looked up once a class.

use hashbrown::HashMap;
use placewright_placement::{CandidateQuery, HostSearch, KeptSearch, QueryRefusal, State};

/// The queries of how many classes are kept: classes are numbered in the order in which they came.
const KEPT_MAX: u64 = 1_024;

/// The number of a class of requests, and whether it is about their second query.
pub(super) type QueryKey = (u64, bool);

/// The queries that were made ready before.
#[derive(Debug, Default)]
pub(super) struct SearchShelf {
    kept: HashMap<QueryKey, KeptSearch, foldhash::quality::FixedState>,
}

impl SearchShelf {
    /// A query that was made ready before and still is.
    pub(super) fn known<'a>(&self, state: &'a State, key: QueryKey) -> Option<HostSearch<'a>> {
        self.kept.get(&key)?.resume(state)
    }

    /// A query made ready, now or before; nothing if nobody serves it.
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
            let oldest = key.0.saturating_sub(KEPT_MAX);
            if self.kept.len() as u64 >= 2 * KEPT_MAX {
                self.kept.retain(|(class, _), _| *class > oldest);
            }
            self.kept.insert(key, kept);
        }
        Ok(search)
    }
}
