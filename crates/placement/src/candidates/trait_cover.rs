//! A first guess of a completion that covers the collective traits: the search along augmenting paths starts from
//! this guess. That search does not consider collective traits, so from any other start it would nearly always leave
//! some of them uncovered.

use smallvec::SmallVec;

use super::bits::Bits;
use super::plan::Plan;
use super::scratch::Scratch;
use super::traits::cover_traits;
use super::tree::{TraitOffers, TreeSearch, UNASSIGNED};

impl TreeSearch {
    /// Makes sure that the suppliers of the witness cover all collective traits. If they do not, the witness gets
    /// suppliers that do; their capacity may be too small for all variables together. False if no suppliers cover all
    /// of the traits.
    pub(super) fn make_witness_cover_traits(
        &mut self,
        plan: &Plan<'_>,
        remaining: &[usize],
        scratch: &mut Scratch,
    ) -> bool {
        let mut missing = Bits::all_below(plan.collective.len());
        for (index, variable) in plan.variables.iter().enumerate() {
            let supplier = self.assigned[index];
            if !variable.suffixed && supplier != UNASSIGNED {
                missing.subtract(&self.covered_traits[supplier as usize]);
            }
        }
        let mut missing_from_witness = missing.clone();
        let mut unassigned: SmallVec<[usize; 8]> = SmallVec::new();
        for variable in remaining
            .iter()
            .filter(|variable| !plan.variables[**variable].suffixed)
        {
            unassigned.push(*variable);
            let witness = self.witness[*variable];
            if witness != UNASSIGNED && self.leaves_rules_satisfiable(plan, *variable, witness) {
                missing_from_witness.subtract(&self.covered_traits[witness as usize]);
            }
        }
        if missing_from_witness.is_empty() {
            return true;
        }
        let offers: SmallVec<[TraitOffers; 4]> = unassigned
            .iter()
            .map(|variable| self.open_offers(plan, *variable, &missing, scratch))
            .collect();
        let offers: SmallVec<[&TraitOffers; 8]> = offers.iter().collect();
        let mut selected: SmallVec<[u32; 8]> = SmallVec::new();
        if !cover_traits(&offers, &missing, &mut selected, &mut scratch.steps) {
            // If the steps ran out, a cover may exist nevertheless, so this does not rule one out.
            return scratch.steps == 0;
        }
        for (variable, supplier) in unassigned.iter().zip(selected) {
            if supplier != UNASSIGNED {
                self.witness[*variable] = supplier;
            }
        }
        true
    }

    /// The missing traits that the open suppliers of a variable have, each set with its supplier. Suppliers whose
    /// traits another one has too are left out.
    fn open_offers(
        &self,
        plan: &Plan<'_>,
        variable: usize,
        missing: &Bits,
        scratch: &mut Scratch,
    ) -> TraitOffers {
        let mut offers = TraitOffers::new();
        for index in 0..self.allowed_count(plan, variable, scratch) {
            let supplier = self.allowed_supplier(plan, variable, index, scratch);
            let mut covered = self.covered_traits[supplier as usize].clone();
            covered.intersect(missing);
            let is_redundant = offers.iter().any(|(other, _)| other.covers(&covered));
            if !is_redundant && self.has_capacity(plan, &plan.variables[variable], supplier) {
                offers.push((covered, supplier));
            }
        }
        offers
    }
}
