//! Long reads of the state, divided into short slices of time so that they do not block writers.

use std::time::{Duration, Instant};

use placewright_conductor::ControlState;
use placewright_control::Views;

use crate::routed_request::RoutedRequest;

/// The approximate length of a slice, during which the state is locked.
const SLICE: Duration = Duration::from_millis(1);

/// A running time slice.
#[derive(Debug)]
pub(crate) struct TimeSlice {
    started_at: Instant,
    rows_read: usize,
}

impl TimeSlice {
    pub(crate) fn begin() -> Self {
        Self {
            started_at: Instant::now(),
            rows_read: 0,
        }
    }

    /// Counts a row that is to be read, and returns whether the slice is over before this row. The first row is
    /// always read.
    pub(crate) fn ends_before_next_row(&mut self) -> bool {
        self.rows_read += 1;
        self.rows_read > 1 && self.started_at.elapsed() >= SLICE
    }
}

/// The result of one slice.
#[derive(Debug)]
pub(crate) struct SliceResult<K, T> {
    /// The items that the slice has read.
    pub(crate) items: Vec<T>,
    /// The key after which the next slice begins; `None` if this was the last slice.
    pub(crate) continue_after: Option<K>,
}

impl<K: Clone, T> SliceResult<K, T> {
    /// Reads rows until the slice is over. Rows for which `read_row` returns `None` are skipped.
    pub(crate) fn collect<'r, R: 'r>(
        rows: impl Iterator<Item = (K, R)>,
        mut read_row: impl FnMut(&K, R) -> Option<T>,
    ) -> Self {
        let mut slice = TimeSlice::begin();
        let (mut items, mut last_read) = (Vec::new(), None);
        for (key, row) in rows {
            if slice.ends_before_next_row() {
                return Self {
                    items,
                    continue_after: last_read,
                };
            }
            items.extend(read_row(&key, row));
            last_read = Some(key);
        }
        Self {
            items,
            continue_after: None,
        }
    }
}

impl RoutedRequest<'_> {
    /// Collects the items of all slices. `read_slice` receives the key after which the slice begins.
    pub(crate) async fn collect_slices<K: Clone + Send + Sync, T: Send>(
        &self,
        read_slice: impl Fn(&ControlState, &Views, Option<&K>) -> SliceResult<K, T> + Send + Sync,
    ) -> Vec<T> {
        let mut all = Vec::new();
        let mut last_key = None;
        loop {
            let slice = self.read(|control, views| read_slice(control, views, last_key.as_ref()));
            let mut slice = slice.await;
            all.append(&mut slice.items);
            match slice.continue_after {
                Some(key) => last_key = Some(key),
                None => return all,
            }
            tokio::task::yield_now().await;
        }
    }
}
