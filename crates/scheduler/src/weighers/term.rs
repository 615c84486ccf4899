//! The contribution of a weigher whose values are in a column.

use crate::block::{larger, smaller};

/// The contribution of one weigher to the score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// The index of the column with the raw values.
    pub column: usize,
    /// The weight of the term in the sum.
    pub multiplier: f64,
    /// The lower end of the scale, if the weigher declares one.
    pub low: Option<f64>,
    /// The upper end of the scale, if the weigher declares one.
    pub high: Option<f64>,
}

impl Term {
    /// Clamps a raw value to the declared ends.
    #[inline]
    pub(crate) fn bounded(&self, raw: f64) -> f64 {
        let (low, high) = self.bounds();
        smaller(larger(raw, low), high)
    }

    /// The declared ends of the scale, or the widest possible ones.
    pub(crate) fn bounds(&self) -> (f64, f64) {
        (self.low.unwrap_or(f64::MIN), self.high.unwrap_or(f64::MAX))
    }
}
