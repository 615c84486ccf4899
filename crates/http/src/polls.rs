//! Measures how long one poll of a connection's future occupies a socket thread.
//!
//! Whatever is computed within a poll delays all other connections of the thread, so a poll should
//! take microseconds. Longer work belongs to [`CostlyExecutor`](crate::CostlyExecutor).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The duration from which a poll is counted as long, because other connections may notice it.
const LONG: Duration = Duration::from_millis(10);

/// The duration of the longest poll since the start, and the number of those longer than [`LONG`].
#[derive(Debug, Clone, Default)]
pub(crate) struct PollTimes {
    longest_ns: Arc<AtomicU64>,
    longest: Gauge<f64, AtomicU64>,
    long: Counter,
}

impl PollTimes {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "http_poll_longest",
            "The longest that one connection held its thread since the start",
            Unit::Seconds,
            self.longest.clone(),
        );
        registry.register(
            "http_polls_long",
            "How often one connection held its thread for more than 10 milliseconds",
            self.long.clone(),
        );
    }

    /// Runs a future, and measures each of its polls. The output should be small, because it is copied after each poll,
    /// also when it is not there yet.
    pub(crate) async fn time<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        poll_fn(|context| {
            let started = Instant::now();
            let poll = future.as_mut().poll(context);
            self.note(started.elapsed());
            poll
        })
        .await
    }

    fn note(&self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // A poll is rarely the longest so far. The load is cheaper than a write to memory that all threads share.
        if took_ns > self.longest_ns.load(Ordering::Relaxed)
            && took_ns > self.longest_ns.fetch_max(took_ns, Ordering::Relaxed)
        {
            self.longest.set(took.as_secs_f64());
        }
        if took > LONG {
            self.long.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_kept_and_long_ones_are_counted() {
        let times = PollTimes::default();
        for ms in [3, 20, 11] {
            times.note(Duration::from_millis(ms));
        }
        assert_eq!((times.longest.get(), times.long.get()), (0.02, 2));
    }
}
