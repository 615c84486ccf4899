//! The sections of the page of the experiments (`docs/experiments.md`): for each experiment the method, the tables and
//! plots, and the targets.

mod builds;
mod cells;
mod earlier_schedulers;
mod nova;
mod shared_state;
mod walking;

pub(super) use builds::builds;
pub(super) use cells::cells;
pub(super) use earlier_schedulers::earlier_schedulers;
pub(super) use nova::nova;
pub(super) use shared_state::shared_state;
pub(super) use walking::walking;

use crate::svg;

/// A duration in milliseconds, with the digits that matter.
fn ms(milliseconds: f64) -> String {
    match milliseconds {
        value if value < 0.0995 => format!("{value:.4}"),
        value if value < 9.95 => format!("{value:.2}"),
        value => format!("{value:.0}"),
    }
}

/// The mean count of a round. The published figures are of one round, of [`REQUESTS`](super::shared_state::REQUESTS)
/// requests.
#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn per_round(count: u64, rounds: usize) -> f64 {
    count as f64 / rounds.max(1) as f64
}

/// A number with commas between the thousands.
fn thousands(number: u32) -> String {
    svg::thousands(&number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_matter() {
        assert_eq!([0.0123, 1.234, 355.4].map(ms), ["0.0123", "1.23", "355"]);
        assert_eq!(
            [3, 1_000, 100_000].map(thousands),
            ["3", "1,000", "100,000"]
        );
    }
}
