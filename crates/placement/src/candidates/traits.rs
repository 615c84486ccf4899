//! Collective traits: those that the providers of the unsuffixed group must have between them.

use smallvec::SmallVec;

use super::bits::Bits;
use super::plan::Plan;
use super::tree::{CoverOptions, NOWHERE, TreeSearch};

/// The step budget of the first attempt to cover the traits.
const STEPS: u32 = 200;

impl TreeSearch {
    /// Records which wanted traits each place has, and which subsets each kind can offer.
    pub(super) fn note_collective(&mut self, plan: &Plan<'_>) {
        if plan.collective.is_empty() {
            return;
        }
        for id in &self.places {
            let mut covers = Bits::default();
            for (list, any) in plan.collective.iter().enumerate() {
                if any.iter().any(|set| set.of(plan.state).contains(id.0)) {
                    covers.insert(list);
                }
            }
            self.covers.push(covers);
        }
        for options in &self.options {
            let mut offers = CoverOptions::new();
            for place in options {
                let covers = &self.covers[*place as usize];
                if !offers.iter().any(|(other, _)| other.covers(covers)) {
                    offers.push((covers.clone(), *place));
                }
            }
            self.offers.push(offers);
        }
    }

    /// Whether the providers of the unsuffixed group can still cover all collective traits.
    pub(super) fn leaves_traits(&self, plan: &Plan<'_>, choice: usize, place: u32) -> bool {
        if plan.choices[choice].granular {
            return true;
        }
        let mut missing = Bits::first(plan.collective.len());
        missing.subtract(&self.covers[place as usize]);
        let mut open: SmallVec<[&CoverOptions; 8]> = SmallVec::new();
        for (other, of) in plan.choices.iter().enumerate() {
            if other == choice || of.granular {
                continue;
            }
            match self.chosen[other] {
                NOWHERE => open.push(&self.offers[of.kind]),
                place => missing.subtract(&self.covers[place as usize]),
            }
        }
        let mut steps = STEPS;
        cover(&open, &missing, &mut SmallVec::new(), &mut steps) || steps == 0
    }
}

/// Selects one offer of each choice so that together they cover the missing traits (set cover by
/// backtracking); `NOWHERE` for a choice that is not needed. False also when the steps run out.
pub(super) fn cover(
    offers: &[&CoverOptions],
    missing: &Bits,
    taken: &mut SmallVec<[u32; 8]>,
    steps: &mut u32,
) -> bool {
    if missing.is_empty() {
        return true;
    }
    let Some(fewer) = steps.checked_sub(1) else {
        return false;
    };
    *steps = fewer;
    let Some((first, rest)) = offers.split_first() else {
        return false;
    };
    let before = taken.len();
    for (covers, place) in first.iter().filter(|(covers, _)| covers.meets(missing)) {
        let mut left = missing.clone();
        left.subtract(covers);
        taken.push(*place);
        if cover(rest, &left, taken, steps) {
            return true;
        }
        taken.truncate(before);
    }
    taken.push(NOWHERE);
    if cover(rest, missing, taken, steps) {
        return true;
    }
    taken.truncate(before);
    false
}
