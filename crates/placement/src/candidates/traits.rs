//! Collective traits: those that the providers of the unsuffixed group must have together.

use smallvec::SmallVec;

use super::bits::Bits;
use super::plan::Plan;
use super::tree::{TraitOffers, TreeSearch, UNASSIGNED};

/// The step budget of one check whether the traits can still be covered.
const COVER_STEPS: u32 = 200;

impl TreeSearch {
    /// Fills [`Self::covered_traits`] and [`Self::trait_offers`].
    pub(super) fn fill_collective_traits(&mut self, plan: &Plan<'_>) {
        if plan.collective.is_empty() {
            return;
        }
        for id in &self.suppliers {
            let mut covered = Bits::default();
            for (list, sets) in plan.collective.iter().enumerate() {
                if sets.iter().any(|set| set.slots(plan.state).contains(id.0)) {
                    covered.insert(list);
                }
            }
            self.covered_traits.push(covered);
        }
        for domain in &self.domains {
            let mut trait_offers = TraitOffers::new();
            for supplier in domain {
                let covered = &self.covered_traits[*supplier as usize];
                if !trait_offers.iter().any(|(other, _)| other.covers(covered)) {
                    trait_offers.push((covered.clone(), *supplier));
                }
            }
            self.trait_offers.push(trait_offers);
        }
    }

    /// Whether the providers of the unsuffixed group can still cover all collective traits when this supplier is
    /// assigned to the variable.
    pub(super) fn leaves_traits_satisfiable(
        &self,
        plan: &Plan<'_>,
        variable: usize,
        supplier: u32,
    ) -> bool {
        if plan.variables[variable].suffixed {
            return true;
        }
        let mut missing = Bits::all_below(plan.collective.len());
        missing.subtract(&self.covered_traits[supplier as usize]);
        let mut offers: SmallVec<[&TraitOffers; 8]> = SmallVec::new();
        for (other, other_variable) in plan.variables.iter().enumerate() {
            if other == variable || other_variable.suffixed {
                continue;
            }
            match self.assigned[other] {
                UNASSIGNED => offers.push(&self.trait_offers[other_variable.condition]),
                assigned => missing.subtract(&self.covered_traits[assigned as usize]),
            }
        }
        // If the steps run out, a cover may exist nevertheless, so this does not rule one out.
        let mut steps = COVER_STEPS;
        cover_traits(&offers, &missing, &mut SmallVec::new(), &mut steps) || steps == 0
    }
}

/// Pushes to `selected` one supplier for each variable, so that together they cover the missing
/// traits (set cover by backtracking); [`UNASSIGNED`] for a variable that is not needed, and nothing for
/// the variables after the last one that is. False also when the steps run out.
pub(super) fn cover_traits(
    offers: &[&TraitOffers],
    missing: &Bits,
    selected: &mut SmallVec<[u32; 8]>,
    steps: &mut u32,
) -> bool {
    if missing.is_empty() {
        return true;
    }
    let Some(steps_left) = steps.checked_sub(1) else {
        return false;
    };
    *steps = steps_left;
    let Some((first_offers, other_offers)) = offers.split_first() else {
        return false;
    };
    let selected_before = selected.len();
    for (covered, supplier) in first_offers
        .iter()
        .filter(|(covered, _)| covered.meets(missing))
    {
        let mut still_missing = missing.clone();
        still_missing.subtract(covered);
        selected.push(*supplier);
        if cover_traits(other_offers, &still_missing, selected, steps) {
            return true;
        }
        selected.truncate(selected_before);
    }
    selected.push(UNASSIGNED);
    if cover_traits(other_offers, missing, selected, steps) {
        return true;
    }
    selected.truncate(selected_before);
    false
}
