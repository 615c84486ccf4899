//! Completions that cover the collective traits: the rule that most completions would break.

use smallvec::SmallVec;

use super::bits::Bits;
use super::plan::Plan;
use super::scratch::Scratch;
use super::traits::cover;
use super::tree::{CoverOptions, NOWHERE, TreeSearch};

impl TreeSearch {
    /// Makes the witness cover all collective traits, regardless of capacity. False when it
    /// cannot.
    pub(super) fn aim_for_traits(
        &mut self,
        plan: &Plan<'_>,
        rest: &[usize],
        scratch: &mut Scratch,
    ) -> bool {
        let mut missing = Bits::first(plan.collective.len());
        for (choice, of) in plan.choices.iter().enumerate() {
            let place = self.chosen[choice];
            if !of.granular && place != NOWHERE {
                missing.subtract(&self.covers[place as usize]);
            }
        }
        let mut still = missing.clone();
        let mut open: SmallVec<[usize; 8]> = SmallVec::new();
        for choice in rest
            .iter()
            .filter(|choice| !plan.choices[**choice].granular)
        {
            open.push(*choice);
            let known = self.witness[*choice];
            if known != NOWHERE && self.leaves_rules(plan, *choice, known) {
                still.subtract(&self.covers[known as usize]);
            }
        }
        if still.is_empty() {
            return true;
        }
        let offers: SmallVec<[CoverOptions; 4]> = open
            .iter()
            .map(|choice| self.open_offers(plan, *choice, &missing, scratch))
            .collect();
        let offers: SmallVec<[&CoverOptions; 8]> = offers.iter().collect();
        let mut taken: SmallVec<[u32; 8]> = SmallVec::new();
        if !cover(&offers, &missing, &mut taken, &mut scratch.steps) {
            return scratch.steps == 0;
        }
        for (choice, place) in open.iter().zip(taken) {
            if place != NOWHERE {
                self.witness[*choice] = place;
            }
        }
        true
    }

    fn open_offers(
        &self,
        plan: &Plan<'_>,
        choice: usize,
        missing: &Bits,
        scratch: &mut Scratch,
    ) -> CoverOptions {
        let mut offers = CoverOptions::new();
        for index in 0..self.open_count(plan, choice, scratch) {
            let place = self.open_place(plan, choice, index, scratch);
            let mut covers = self.covers[place as usize].clone();
            covers.intersect(missing);
            let known = offers.iter().any(|(other, _)| other.covers(&covers));
            if !known && self.fits(plan, &plan.choices[choice], place) {
                offers.push((covers, place));
            }
        }
        offers
    }
}
