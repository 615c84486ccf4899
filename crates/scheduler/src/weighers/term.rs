//! A weigher in a score whose raw values are in a column.

use crate::block::{larger, smaller};

/// One weigher in a score: a column and a multiplier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// The index of the column with the raw values.
    pub column: usize,
    /// The multiplier of the normalised value.
    pub multiplier: f64,
    /// The lower end of the range, if the weigher declares one.
    pub low: Option<f64>,
    /// The upper end of the range, if the weigher declares one.
    pub high: Option<f64>,
}

impl Term {
    /// Clamps a raw value to the declared ends.
    #[inline]
    pub(crate) fn clamp(&self, raw: f64) -> f64 {
        let (low, high) = self.declared_ends();
        smaller(larger(raw, low), high)
    }

    /// The declared ends of the range; for an end that is not declared, the most extreme number.
    pub(crate) fn declared_ends(&self) -> (f64, f64) {
        (self.low.unwrap_or(f64::MIN), self.high.unwrap_or(f64::MAX))
    }
}
