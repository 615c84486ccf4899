//! Inventories: how much a provider has of a resource class, and under which rules it is
//! allocated.

use serde::{Deserialize, Serialize};

/// An inventory as clients set it. Units are those of the resource class (cores, MiB, GiB, …).
///
/// Source: Placement API reference, "Resource provider inventories".
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// The physical amount, before `reserved` and `allocation_ratio` apply.
    pub total: i32,
    /// The part that consumers cannot get. Except in a reshape, it is refused if the capacity would become negative.
    pub reserved: i32,
    /// The minimum amount of one allocation.
    pub min_unit: i32,
    /// The maximum amount of one allocation.
    pub max_unit: i32,
    /// The amount of each allocation is a multiple of this.
    pub step_size: i32,
    /// The overcommit factor, by which the amount that is not reserved is multiplied: 16.0 for sixteen-fold overcommit.
    pub allocation_ratio: f64,
}

impl Inventory {
    /// An inventory without limits of its own: nothing is reserved, and one allocation may take any
    /// amount up to the total.
    #[must_use]
    pub const fn new(total: i32, allocation_ratio: f64) -> Self {
        Self {
            total,
            reserved: 0,
            min_unit: 1,
            max_unit: total,
            step_size: 1,
            allocation_ratio,
        }
    }

    /// The sum of what consumers may hold: `(total - reserved) * allocation_ratio`, cut to a whole
    /// number as the reference does (total 1 with ratio 1.5 gives 1).
    ///
    /// Only this function multiplies an integer by the ratio; all other code compares integers. A whole amount exceeds
    /// the fractional product exactly when it exceeds the cut one.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the cast cuts towards zero and saturates, which is the rule"
    )]
    pub fn capacity(&self) -> i64 {
        let unreserved = i64::from(self.total) - i64::from(self.reserved);
        (unreserved as f64 * self.allocation_ratio) as i64
    }

    /// Whether one allocation of this amount respects the smallest and largest unit and the step.
    #[must_use]
    pub fn admits_amount(&self, amount: i64) -> bool {
        amount >= i64::from(self.min_unit)
            && amount <= i64::from(self.max_unit)
            && (self.step_size <= 1 || amount % i64::from(self.step_size) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(total: i32, reserved: i32, allocation_ratio: f64) -> Inventory {
        Inventory {
            total,
            reserved,
            min_unit: 1,
            max_unit: i32::MAX,
            step_size: 1,
            allocation_ratio,
        }
    }

    #[test]
    fn capacity_is_cut_to_a_whole_number() {
        assert_eq!(inventory(1, 0, 1.5).capacity(), 1);
        assert_eq!(inventory(10, 3, 16.0).capacity(), 112);
        assert_eq!(inventory(5, 5, 10000.0).capacity(), 0);
        assert_eq!(inventory(i32::MAX, 0, 3.4e38).capacity(), i64::MAX);
        assert_eq!(inventory(2, 4, 1.0).capacity(), -2);
    }

    #[test]
    fn one_allocation_respects_units_and_step() {
        let steps = Inventory {
            min_unit: 4,
            max_unit: 12,
            step_size: 4,
            ..inventory(100, 0, 1.0)
        };
        let admitted: Vec<i64> = (0..20)
            .filter(|amount| steps.admits_amount(*amount))
            .collect();
        assert_eq!(admitted, [4, 8, 12]);
    }
}
