//! The distribution of durations that were measured for many requests.

use std::time::Duration;

use serde::Serialize;

/// The distribution of durations, in milliseconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Times {
    pub(super) p50_ms: f64,
    pub(super) mean_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

impl Times {
    /// The distribution of these durations; all zero if there are none.
    pub(super) fn of(durations: impl IntoIterator<Item = Duration>) -> Self {
        let mut times: Vec<f64> = durations
            .into_iter()
            .map(|duration| duration.as_secs_f64() * 1000.0)
            .collect();
        times.sort_by(f64::total_cmp);
        let percentile = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(rank).copied().unwrap_or_default()
        };
        Self {
            p50_ms: percentile(50),
            mean_ms: mean(&times),
            p99_ms: percentile(99),
            max_ms: percentile(100),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_durations() {
        let times = Times::of((1..=100).rev().map(Duration::from_millis));
        let figures = [times.p50_ms, times.p99_ms, times.max_ms].map(f64::round);
        assert_eq!(figures, [50.0, 99.0, 100.0]);
        assert!((times.mean_ms - 50.5).abs() < 1e-9);
        assert!(Times::of([]).max_ms == 0.0);
    }
}
