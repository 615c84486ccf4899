//! Long looks at the state, a slice at a time: others are decided in between.

use std::time::{Duration, Instant};

use placewright_conductor::Control;
use placewright_control::Views;

use crate::call::Call;

/// A slice holds up writers for about so long.
const SLICE: Duration = Duration::from_millis(1);

/// How long one slice has gone on.
#[derive(Debug)]
pub(crate) struct Slice {
    began: Instant,
    looked_at: usize,
}

impl Slice {
    pub(crate) fn begin() -> Self {
        Self {
            began: Instant::now(),
            looked_at: 0,
        }
    }

    /// Whether to go on in another slice. Asked before each row; the first is always looked at.
    pub(crate) fn is_over(&mut self) -> bool {
        self.looked_at += 1;
        self.looked_at > 1 && self.began.elapsed() >= SLICE
    }
}

/// What one slice found, and behind which key the next goes on; nothing if it was the last.
#[derive(Debug)]
pub(crate) struct Sliced<K, T> {
    pub(crate) found: Vec<T>,
    pub(crate) next: Option<K>,
}

impl<K: Clone, T> Sliced<K, T> {
    /// Looks at rows until the slice is over. `look` may pass rows over.
    pub(crate) fn look<'r, R: 'r>(
        rows: impl Iterator<Item = (K, R)>,
        mut look: impl FnMut(&K, R) -> Option<T>,
    ) -> Self {
        let mut slice = Slice::begin();
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

impl Call<'_> {
    /// Gathers what all slices find. `look` is given the key behind which it goes on.
    pub(crate) async fn gather<K: Clone + Send + Sync, T: Send>(
        &self,
        look: impl Fn(&Control, &Views, Option<&K>) -> Sliced<K, T> + Send + Sync,
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
