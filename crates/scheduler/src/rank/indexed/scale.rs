//! The scales that map raw values to contributions to the score.

use smallvec::SmallVec;

/// A small vector with one entry for each term.
pub(super) type PerTerm<T> = SmallVec<[T; 6]>;

/// The affine map from raw values to contributions to the score, given the range over the feasible
/// hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    /// The raw value at the lower end of the range, which contributes 0.
    pub(super) low: f64,
    /// The raw value at the upper end of the range, which contributes the multiplier.
    pub(super) high: f64,
    /// The multiplier divided by the width of the range; 0 if both ends are equal.
    pub(super) factor: f64,
}

impl Scale {
    pub(super) fn new(multiplier: f64, low: f64, high: f64) -> Self {
        let factor = if high > low {
            multiplier / (high - low)
        } else {
            0.0
        };
        Self { low, high, factor }
    }
}
