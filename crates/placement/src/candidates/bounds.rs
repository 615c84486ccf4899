//! Cheap proofs that the remaining variables of a request cannot be served (necessary conditions).
//!
//! A class is *contended* if more than one variable requests it: only then variables compete for capacity. The
//! *open* suppliers of a variable are those that may still be assigned to it.

use smallvec::SmallVec;

use super::bits::Bits;
use super::plan::Plan;
use super::tree::TreeSearch;

impl TreeSearch {
    /// Whether all suppliers together have enough of each contended class, and, where suffixed
    /// groups must not share a provider, whether enough suppliers can serve them.
    pub(super) fn has_total_capacity(&self, plan: &Plan<'_>) -> bool {
        let width = plan.contended.len();
        let is_sufficient = |class: usize| {
            let capacities = self.capacity_left.iter().skip(class).step_by(width);
            let available = capacities
                .map(|capacity| (*capacity).max(0))
                .fold(0, i64::saturating_add);
            plan.requested[class] <= available
        };
        let serves_group = |conditions: &&Bits| conditions.meets(&plan.suffixed_conditions);
        (0..width).all(is_sufficient)
            && (!plan.isolates_groups
                || plan.suffixed_count
                    <= self.served_conditions.iter().filter(serves_group).count())
    }

    /// Whether the open suppliers have, for each contended class, at least the sum that is
    /// requested.
    pub(super) fn sums_fit(
        &self,
        plan: &Plan<'_>,
        remaining: &[usize],
        open_suppliers: &[Vec<u32>],
    ) -> bool {
        let width = plan.contended.len();
        (0..width).all(|class| {
            let mut requested = 0i64;
            let mut suppliers = Bits::default();
            for (variable, its_suppliers) in remaining.iter().zip(open_suppliers) {
                let amounts = plan.variables[*variable].contended.iter();
                for (_, amount) in amounts.filter(|(other, _)| *other == class) {
                    requested = requested.saturating_add(*amount);
                    for supplier in its_suppliers {
                        suppliers.insert(*supplier as usize);
                    }
                }
            }
            let available: i64 = (0..self.suppliers.len())
                .filter(|supplier| suppliers.contains(*supplier))
                .map(|supplier| self.capacity_left[supplier * width + class].max(0))
                .fold(0, i64::saturating_add);
            requested <= available
        })
    }

    /// Whether every remaining variable can get one of its open suppliers, if a supplier could serve any variables as
    /// long as they are no more than [`Self::most_served`] says: a bipartite matching with capacities.
    pub(super) fn counts_fit(
        &self,
        plan: &Plan<'_>,
        remaining: &[usize],
        open_suppliers: &[Vec<u32>],
    ) -> bool {
        if plan.contended.is_empty() && !plan.isolates_groups {
            return true;
        }
        let mut possible_variables: Vec<SmallVec<[usize; 8]>> =
            vec![SmallVec::new(); self.suppliers.len()];
        for (variable, its_suppliers) in remaining.iter().zip(open_suppliers) {
            for supplier in its_suppliers {
                possible_variables[*supplier as usize].push(*variable);
            }
        }
        let mut room: Vec<usize> = (possible_variables.iter().enumerate())
            .map(|(supplier, possible_variables)| {
                self.most_served(plan, possible_variables, supplier)
            })
            .collect();
        let mut served: Vec<SmallVec<[usize; 4]>> = vec![SmallVec::new(); self.suppliers.len()];
        (0..remaining.len()).all(|index| {
            let mut seen = Bits::default();
            augment(index, open_suppliers, &mut room, &mut served, &mut seen)
        })
    }

    /// An upper bound of how many of the given variables a supplier can serve together: for each
    /// class the smallest amounts are counted first.
    fn most_served(&self, plan: &Plan<'_>, possible_variables: &[usize], supplier: usize) -> usize {
        let possible_variables = || {
            possible_variables
                .iter()
                .map(|variable| &plan.variables[*variable])
        };
        let mut bound = possible_variables().count();
        if plan.isolates_groups {
            let suffixed = possible_variables()
                .filter(|variable| variable.suffixed)
                .count();
            bound = bound - suffixed + suffixed.min(1);
        }
        let width = plan.contended.len();
        for class in 0..width {
            let mut amounts: SmallVec<[i64; 16]> = SmallVec::new();
            let mut others = 0;
            for variable in possible_variables() {
                match variable.contended.iter().find(|(other, _)| *other == class) {
                    Some((_, amount)) => amounts.push(*amount),
                    None => others += 1,
                }
            }
            amounts.sort_unstable();
            let mut capacity = self.capacity_left[supplier * width + class];
            let fitting = amounts.iter().take_while(|amount| {
                capacity -= **amount;
                capacity >= 0
            });
            bound = bound.min(others + fitting.count());
        }
        bound
    }
}

/// Finds an augmenting path by which the variable at `index` gets a supplier, too; false if there is none. By supplier,
/// `room` is how many more variables it can serve, and `served` are the indexes of those that it serves.
fn augment(
    index: usize,
    open_suppliers: &[Vec<u32>],
    room: &mut [usize],
    served: &mut [SmallVec<[usize; 4]>],
    seen: &mut Bits,
) -> bool {
    for supplier in &open_suppliers[index] {
        let supplier = *supplier as usize;
        if seen.contains(supplier) {
            continue;
        }
        seen.insert(supplier);
        if room[supplier] > 0 {
            room[supplier] -= 1;
            served[supplier].push(index);
            return true;
        }
        for position in 0..served[supplier].len() {
            let other_index = served[supplier][position];
            if augment(other_index, open_suppliers, room, served, seen) {
                served[supplier][position] = index;
                return true;
            }
        }
    }
    false
}
