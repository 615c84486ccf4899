//! Long reads of the state in slices of time, so that writers are not blocked.

use std::time::{Duration, Instant};

use placewright_conductor::ControlState;
use placewright_control::Views;

use crate::routed_request::RoutedRequest;

/// The approximate time for which one slice blocks writers.
const SLICE: Duration = Duration::from_millis(1);

/// A running time slice.
#[derive(Debug)]
pub(crate) struct TimeSlice {
    began: Instant,
    looked_at: usize,
}

impl TimeSlice {
    pub(crate) fn begin() -> Self {
        Self {
            began: Instant::now(),
            looked_at: 0,
        }
    }

    /// Whether the slice is over. Called before each row; the first row is always read.
    pub(crate) fn is_over(&mut self) -> bool {
        self.looked_at += 1;
        self.looked_at > 1 && self.began.elapsed() >= SLICE
    }
}

/// The result of one slice, and the key after which the next begins; none if this was the last.
#[derive(Debug)]
pub(crate) struct SliceResult<K, T> {
    pub(crate) found: Vec<T>,
    pub(crate) next: Option<K>,
}

impl<K: Clone, T> SliceResult<K, T> {
    /// Reads rows until the slice is over. `look` may skip rows.
    pub(crate) fn look<'r, R: 'r>(
        rows: impl Iterator<Item = (K, R)>,
        mut look: impl FnMut(&K, R) -> Option<T>,
    ) -> Self {
        let mut slice = TimeSlice::begin();
        let (mut found, mut last) = (Vec::new(), None);
        for (key, row) in rows {
            if slice.is_over() {
                return Self { found, next: last };
            }
            found.extend(look(&key, row));
            last = Some(key);
        }
        Self { found, next: None }
    }
}

impl RoutedRequest<'_> {
    /// Collects the results of all slices. `look` receives the key after which it has to begin.
    pub(crate) async fn gather<K: Clone + Send + Sync, T: Send>(
        &self,
        look: impl Fn(&ControlState, &Views, Option<&K>) -> SliceResult<K, T> + Send + Sync,
    ) -> Vec<T> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let slice = self.read(|control, views| look(control, views, after.as_ref()));
            let mut slice = slice.await;
            all.append(&mut slice.found);
            match slice.next {
                Some(next) => after = Some(next),
                None => return all,
            }
            tokio::task::yield_now().await;
        }
    }
}
