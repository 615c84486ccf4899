//! The measurements of a phase of the load, and their output.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// The measurements of one or more connections.
#[derive(Debug, Default)]
pub(crate) struct Measurements {
    /// The duration of each request that got a response, in microseconds.
    pub(crate) latencies_us: Vec<u32>,
    /// The number of responses by status; 0 stands for a broken connection.
    pub(crate) by_status: BTreeMap<u16, u64>,
    /// The first failure: the beginning of the response's body, or why there was no response.
    pub(crate) first_error: Option<String>,
}

impl Measurements {
    /// Adds the measurements of another connection.
    pub(crate) fn add(&mut self, other: Self) {
        self.latencies_us.extend(other.latencies_us);
        for (status, count) in other.by_status {
            *self.by_status.entry(status).or_default() += count;
        }
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

/// The results of one phase.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PhaseResults {
    pub(crate) phase: String,
    pub(crate) connections: usize,
    pub(crate) seconds: f64,
    /// The number of requests that succeeded.
    pub(crate) succeeded: u64,
    /// The number of requests that failed or had no response.
    pub(crate) failed: u64,
    /// The number of successes per second.
    pub(crate) requests_per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) max_ms: f64,
    /// The number of responses by status; 0 stands for a broken connection.
    pub(crate) by_status: BTreeMap<u16, u64>,
    /// See [`Measurements::first_error`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_error: Option<String>,
}

impl PhaseResults {
    /// Computes the results of a phase that lasted `time`.
    pub(crate) fn new(
        phase: &str,
        connections: usize,
        time: Duration,
        mut measurements: Measurements,
    ) -> Self {
        measurements.latencies_us.sort_unstable();
        let percentile_ms = |share: f64| quantile_ms(&measurements.latencies_us, share);
        let is_success = |status: &u16| (200..300).contains(status);
        let by_status = measurements.by_status.iter();
        let successes = by_status.filter(|(status, _)| is_success(status));
        let succeeded: u64 = successes.map(|(_, count)| count).sum();
        let requests: u64 = measurements.by_status.values().sum();
        Self {
            phase: phase.to_owned(),
            connections,
            seconds: time.as_secs_f64(),
            succeeded,
            failed: requests - succeeded,
            #[allow(clippy::cast_precision_loss, reason = "counts are below 2^53")]
            requests_per_second: succeeded as f64 / time.as_secs_f64(),
            p50_ms: percentile_ms(0.5),
            p99_ms: percentile_ms(0.99),
            p999_ms: percentile_ms(0.999),
            max_ms: percentile_ms(1.0),
            by_status: measurements.by_status,
            first_error: measurements.first_error,
        }
    }

    /// Prints one line, and one more for each kind of failure.
    pub(crate) fn print(&self) {
        outln!(
            "{:<12} {:>9.0} requests/s   p50 {:>8.2} ms   p99 {:>8.2} ms   p99.9 {:>8.2} ms   \
             max {:>8.2} ms   ({} in {:.1} s, {} connections)",
            self.phase,
            self.requests_per_second,
            self.p50_ms,
            self.p99_ms,
            self.p999_ms,
            self.max_ms,
            self.succeeded,
            self.seconds,
            self.connections,
        );
        for (status, count) in self
            .by_status
            .iter()
            .filter(|(status, _)| **status / 100 != 2)
        {
            match status {
                0 => outln!("{:<12} {count} broken connections", ""),
                status => outln!("{:<12} {count} answers with status {status}", ""),
            }
        }
        if let Some(error) = &self.first_error {
            outln!("{:<12} the first failure: {error}", "");
        }
    }
}

/// The quantile of sorted times, in milliseconds.
fn quantile_ms(sorted_us: &[u32], share: f64) -> f64 {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length is a length"
    )]
    let rank = (sorted_us.len() as f64 * share).ceil() as usize;
    let value = sorted_us
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default();
    f64::from(value) / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_count_successes_and_rank_times() {
        let measurements = Measurements {
            latencies_us: (1..=1000).rev().map(|number| number * 1000).collect(),
            by_status: [(204, 900), (409, 99), (0, 1)].into(),
            first_error: None,
        };
        let results = PhaseResults::new("claims", 8, Duration::from_secs(2), measurements);
        assert_eq!((results.succeeded, results.failed), (900, 100));
        assert_eq!(results.requests_per_second, 450.0);
        assert_eq!(
            (results.p50_ms, results.p99_ms, results.max_ms),
            (500.0, 990.0, 1000.0)
        );
    }
}
