//! The search of last resort: exhaustive backtracking with symmetry pruning.

use smallvec::SmallVec;

use super::plan::Plan;
use super::scratch::Scratch;
use super::tree::TreeSearch;

impl TreeSearch {
    /// Backtracks over all completions, the choice with the fewest open places first. The choices
    /// made before are left as they were; on success `witness` holds the places.
    pub(super) fn branch(
        &mut self,
        plan: &Plan<'_>,
        rest: &mut SmallVec<[usize; 32]>,
        scratch: &mut Scratch,
    ) -> bool {
        if rest.is_empty() {
            return true;
        }
        if scratch.steps == 0 {
            return false;
        }
        scratch.steps -= 1;
        let mut fewest = (usize::MAX, 0);
        let mut open: Vec<Vec<u32>> = Vec::with_capacity(rest.len());
        for (index, choice) in rest.iter().enumerate() {
            let places = self.open_places(plan, *choice, scratch);
            fewest = fewest.min((places.len(), index));
            open.push(places);
        }
        if fewest.0 == 0 || !self.sums_fit(plan, rest, &open) || !self.counts_fit(plan, rest, &open)
        {
            return false;
        }
        let places = std::mem::take(&mut open[fewest.1]);
        let choice = rest.remove(fewest.1);
        let twin = plan.choices[choice].twin * self.places.len();
        let mut refuted: Vec<usize> = Vec::new();
        let mut found = false;
        let mut tried: SmallVec<[u32; 8]> = SmallVec::new();
        for place in &places {
            if !tried.iter().any(|other| self.alike(plan, *other, *place)) {
                tried.push(*place);
                self.put(plan, choice, *place);
                found = self.branch(plan, rest, scratch);
                self.take(plan, choice);
                if found {
                    self.witness[choice] = *place;
                    break;
                }
            }
            scratch.refuted[twin + *place as usize] = true;
            refuted.push(twin + *place as usize);
        }
        for mark in refuted {
            scratch.refuted[mark] = false;
        }
        rest.insert(fewest.1, choice);
        found
    }

    fn open_places(&self, plan: &Plan<'_>, choice: usize, scratch: &Scratch) -> Vec<u32> {
        let twin = plan.choices[choice].twin * self.places.len();
        self.options[plan.choices[choice].kind]
            .iter()
            .copied()
            .filter(|place| {
                !scratch.refuted[twin + *place as usize] && self.admits(plan, choice, *place)
            })
            .collect()
    }

    /// Whether two places are interchangeable for all choices still to be made.
    pub(super) fn alike(&self, plan: &Plan<'_>, one: u32, other: u32) -> bool {
        let (one, other) = (one as usize, other as usize);
        let row = |place: usize| {
            let width = plan.contended.len();
            &self.residual[place * width..(place + 1) * width]
        };
        let same = self.serves[one] == self.serves[other]
            && row(one) == row(other)
            && (!plan.isolate || self.granular_at[one] == self.granular_at[other]);
        if !same || plan.only_room_binds() {
            return same;
        }
        let leaf = |place: usize| self.below.get(place).is_none_or(|below| below.len() <= 1);
        let same_above = || match (self.above.get(one), self.above.get(other)) {
            (Some(of_one), Some(of_other)) => {
                of_one.len() == of_other.len()
                    && of_one
                        .iter()
                        .all(|place| place == one || of_other.contains(place))
            }
            _ => true,
        };
        self.count_at[one] == 0
            && self.count_at[other] == 0
            && self.covers.get(one) == self.covers.get(other)
            && self.tree_of.get(one) == self.tree_of.get(other)
            && leaf(one)
            && leaf(other)
            && same_above()
    }
}
