//! Cheap proofs that the remaining choices of a request cannot be served (necessary conditions).

use smallvec::SmallVec;

use super::bits::Bits;
use super::plan::Plan;
use super::tree::TreeSearch;

impl TreeSearch {
    /// Whether all places together have enough of each contended class, and, where suffixed groups
    /// must not share a provider, whether enough places can serve them.
    pub(super) fn could_hold_all(&self, plan: &Plan<'_>) -> bool {
        let width = plan.contended.len();
        let enough = |class: usize| {
            let there = self.residual.iter().skip(class).step_by(width);
            let there = there
                .map(|left| (*left).max(0))
                .fold(0, i64::saturating_add);
            plan.wanted[class] <= there
        };
        let serves_group = |serves: &&Bits| serves.meets(&plan.granular_kinds);
        (0..width).all(enough)
            && (!plan.isolate || plan.granular <= self.serves.iter().filter(serves_group).count())
    }

    /// Whether the open places have, for each contended class, at least the sum that is wanted.
    pub(super) fn sums_fit(&self, plan: &Plan<'_>, rest: &[usize], open: &[Vec<u32>]) -> bool {
        let width = plan.contended.len();
        (0..width).all(|class| {
            let mut wanted = 0i64;
            let mut places = Bits::default();
            for (choice, open) in rest.iter().zip(open) {
                let takes = plan.choices[*choice].contended.iter();
                for (_, amount) in takes.filter(|(other, _)| *other == class) {
                    wanted = wanted.saturating_add(*amount);
                    for place in open {
                        places.insert(*place as usize);
                    }
                }
            }
            let there: i64 = (0..self.places.len())
                .filter(|place| places.contains(*place))
                .map(|place| self.residual[place * width + class].max(0))
                .fold(0, i64::saturating_add);
            wanted <= there
        })
    }

    /// Whether a bipartite matching with capacities serves every choice, each place being limited
    /// only by an upper bound of how many choices it can take.
    pub(super) fn counts_fit(&self, plan: &Plan<'_>, rest: &[usize], open: &[Vec<u32>]) -> bool {
        if plan.contended.is_empty() && !plan.isolate {
            return true;
        }
        let mut here: Vec<SmallVec<[usize; 8]>> = vec![SmallVec::new(); self.places.len()];
        for (choice, open) in rest.iter().zip(open) {
            for place in open {
                here[*place as usize].push(*choice);
            }
        }
        let mut room: Vec<usize> = (here.iter().enumerate())
            .map(|(place, here)| self.most_at(plan, here, place))
            .collect();
        let mut holders: Vec<SmallVec<[usize; 4]>> = vec![SmallVec::new(); self.places.len()];
        (0..rest.len()).all(|index| {
            let mut seen = Bits::default();
            augment(index, open, &mut room, &mut holders, &mut seen)
        })
    }

    /// An upper bound of how many of some choices a place can take together: for each class the
    /// smallest amounts are counted first.
    fn most_at(&self, plan: &Plan<'_>, here: &[usize], place: usize) -> usize {
        let here = || here.iter().map(|choice| &plan.choices[*choice]);
        let mut most = here().count();
        if plan.isolate {
            let granular = here().filter(|choice| choice.granular).count();
            most = most - granular + granular.min(1);
        }
        let width = plan.contended.len();
        for class in 0..width {
            let mut amounts: SmallVec<[i64; 16]> = SmallVec::new();
            let mut others = 0;
            for choice in here() {
                match choice.contended.iter().find(|(other, _)| *other == class) {
                    Some((_, amount)) => amounts.push(*amount),
                    None => others += 1,
                }
            }
            amounts.sort_unstable();
            let mut left = self.residual[place * width + class];
            let fitting = amounts.iter().take_while(|amount| {
                left -= **amount;
                left >= 0
            });
            most = most.min(others + fitting.count());
        }
        most
    }
}

/// Finds an augmenting path that places one more choice.
fn augment(
    index: usize,
    open: &[Vec<u32>],
    room: &mut [usize],
    holders: &mut [SmallVec<[usize; 4]>],
    seen: &mut Bits,
) -> bool {
    for place in &open[index] {
        let place = *place as usize;
        if seen.contains(place) {
            continue;
        }
        seen.insert(place);
        if room[place] > 0 {
            room[place] -= 1;
            holders[place].push(index);
            return true;
        }
        for holder in 0..holders[place].len() {
            let moved = holders[place][holder];
            if augment(moved, open, room, holders, seen) {
                holders[place][holder] = index;
                return true;
            }
        }
    }
    false
}
