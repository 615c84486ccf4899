//! Cheap proofs that the remaining variables of a request cannot be served (necessary conditions).

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
        let serves_group = |conditions: &&Bits| conditions.meets(&plan.granular_conditions);
        (0..width).all(is_sufficient)
            && (!plan.isolates_groups
                || plan.granular_count
                    <= self.served_conditions.iter().filter(serves_group).count())
    }

    /// Whether the open suppliers have, for each contended class, at least the sum that is
    /// requested.
    pub(super) fn sums_fit(&self, plan: &Plan<'_>, remaining: &[usize], open: &[Vec<u32>]) -> bool {
        let width = plan.contended.len();
        (0..width).all(|class| {
            let mut requested = 0i64;
            let mut suppliers = Bits::default();
            for (variable, open) in remaining.iter().zip(open) {
                let amounts = plan.variables[*variable].contended.iter();
                for (_, amount) in amounts.filter(|(other, _)| *other == class) {
                    requested = requested.saturating_add(*amount);
                    for supplier in open {
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

    /// Whether a bipartite matching with capacities serves every variable, where all that limits a
    /// supplier is an upper bound of how many variables it can serve.
    pub(super) fn counts_fit(
        &self,
        plan: &Plan<'_>,
        remaining: &[usize],
        open: &[Vec<u32>],
    ) -> bool {
        if plan.contended.is_empty() && !plan.isolates_groups {
            return true;
        }
        let mut applicants: Vec<SmallVec<[usize; 8]>> = vec![SmallVec::new(); self.suppliers.len()];
        for (variable, open) in remaining.iter().zip(open) {
            for supplier in open {
                applicants[*supplier as usize].push(*variable);
            }
        }
        let mut room: Vec<usize> = (applicants.iter().enumerate())
            .map(|(supplier, applicants)| self.most_served(plan, applicants, supplier))
            .collect();
        let mut holders: Vec<SmallVec<[usize; 4]>> = vec![SmallVec::new(); self.suppliers.len()];
        (0..remaining.len()).all(|index| {
            let mut seen = Bits::default();
            augment(index, open, &mut room, &mut holders, &mut seen)
        })
    }

    /// An upper bound of how many of the given variables a supplier can serve together: for each
    /// class the smallest amounts are counted first.
    fn most_served(&self, plan: &Plan<'_>, applicants: &[usize], supplier: usize) -> usize {
        let applicants = || applicants.iter().map(|variable| &plan.variables[*variable]);
        let mut bound = applicants().count();
        if plan.isolates_groups {
            let granular = applicants().filter(|variable| variable.granular).count();
            bound = bound - granular + granular.min(1);
        }
        let width = plan.contended.len();
        for class in 0..width {
            let mut amounts: SmallVec<[i64; 16]> = SmallVec::new();
            let mut others = 0;
            for variable in applicants() {
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

/// Finds an augmenting path by which one more variable gets a supplier. By supplier, `room` is how many
/// more variables it can take, and `holders` are the variables that it serves.
fn augment(
    index: usize,
    open: &[Vec<u32>],
    room: &mut [usize],
    holders: &mut [SmallVec<[usize; 4]>],
    seen: &mut Bits,
) -> bool {
    for supplier in &open[index] {
        let supplier = *supplier as usize;
        if seen.contains(supplier) {
            continue;
        }
        seen.insert(supplier);
        if room[supplier] > 0 {
            room[supplier] -= 1;
            holders[supplier].push(index);
            return true;
        }
        for position in 0..holders[supplier].len() {
            let holder = holders[supplier][position];
            if augment(holder, open, room, holders, seen) {
                holders[supplier][position] = index;
                return true;
            }
        }
    }
    false
}
