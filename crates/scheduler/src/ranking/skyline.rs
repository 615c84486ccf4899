//! The few hosts of many that can be best for any scale of the terms.
//!
//! A host that is no better than another in any term can never score more than it. What is left
//! when all such hosts are gone is the skyline. With terms that follow the load of a host it is one
//! to five hosts of sixty-four; the best of these under some scales is the best of all under them.

use smallvec::SmallVec;

use super::{Scale, larger};

/// Points with one value a term, each turned so that more is better; no point is at least as good
/// as another in every term.
#[derive(Clone, Debug, Default)]
pub(super) struct Skyline {
    values: SmallVec<[f64; 12]>,
}

impl Skyline {
    pub(super) fn clear(&mut self) {
        self.values.clear();
    }

    /// Adds a point, unless one is as good in every term; points that it is as good as go. True if
    /// it was added.
    pub(super) fn add(&mut self, point: &[f64]) -> bool {
        let terms = point.len();
        if terms == 0 {
            return false;
        }
        let mut index = 0;
        while index < self.values.len() {
            let other = &self.values[index..index + terms];
            let (mut other_covers, mut point_covers) = (true, true);
            for (other, value) in other.iter().zip(point) {
                other_covers &= other >= value;
                point_covers &= value >= other;
            }
            if other_covers {
                return false;
            }
            if point_covers {
                let last = self.values.len() - terms;
                self.values.copy_within(last.., index);
                self.values.truncate(last);
            } else {
                index += terms;
            }
        }
        self.values.extend_from_slice(point);
        true
    }

    /// Adds all points of another.
    pub(super) fn add_all(&mut self, other: &Self, terms: usize) {
        for point in other.values.chunks_exact(terms.max(1)) {
            self.add(point);
        }
    }

    /// The most that a point scores; minus infinity without any.
    ///
    /// The arithmetic is that of scoring a block, term by term, so that the best host of a block
    /// scores exactly this.
    pub(super) fn most(&self, turned: &[Scale]) -> f64 {
        let mut most = f64::NEG_INFINITY;
        for point in self.values.chunks_exact(turned.len().max(1)) {
            let mut score = 0.0;
            for (value, scale) in point.iter().zip(turned) {
                if scale.factor != 0.0 {
                    score += scale.factor * (value - scale.low);
                }
            }
            most = larger(most, score);
        }
        most
    }
}
