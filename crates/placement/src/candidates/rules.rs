//! The rules that bind the choices within one tree.

use super::bits::Bits;
use super::plan::{Plan, SearchVariable};
use super::tree::{NOWHERE, TreeSearch};

impl TreeSearch {
    /// Whether a place has capacity for one more choice.
    #[inline]
    pub(super) fn fits(&self, plan: &Plan<'_>, choice: &SearchVariable, place: u32) -> bool {
        let place = place as usize;
        if plan.isolate && choice.granular && self.granular_at[place] > 0 {
            return false;
        }
        let row = place * plan.contended.len();
        choice
            .contended
            .iter()
            .all(|(class, amount)| self.residual[row + class] >= *amount)
    }

    /// Takes the capacity that a choice needs at a place.
    #[inline]
    pub(super) fn load(&mut self, plan: &Plan<'_>, choice: &SearchVariable, place: u32) {
        let place = place as usize;
        self.count_at[place] += 1;
        self.granular_at[place] += u32::from(choice.granular);
        let row = place * plan.contended.len();
        for (class, amount) in &choice.contended {
            self.residual[row + class] -= amount;
        }
    }

    /// Releases the capacity that a choice took.
    #[inline]
    pub(super) fn unload(&mut self, plan: &Plan<'_>, choice: &SearchVariable, place: u32) {
        let place = place as usize;
        self.count_at[place] -= 1;
        self.granular_at[place] -= u32::from(choice.granular);
        let row = place * plan.contended.len();
        for (class, amount) in &choice.contended {
            self.residual[row + class] += amount;
        }
    }

    /// Assigns a place to a choice and takes the capacity.
    pub(super) fn put(&mut self, plan: &Plan<'_>, choice: usize, place: u32) {
        self.load(plan, &plan.choices[choice], place);
        self.chosen[choice] = place;
    }

    /// Releases the place of a choice and its capacity; the inverse of [`Self::put`].
    pub(super) fn take(&mut self, plan: &Plan<'_>, choice: usize) {
        self.unload(plan, &plan.choices[choice], self.chosen[choice]);
        self.chosen[choice] = NOWHERE;
    }

    /// Whether a choice can be assigned to a place, judged by the choices made so far and by the
    /// open places of each other choice on its own.
    pub(super) fn admits(&self, plan: &Plan<'_>, choice: usize, place: u32) -> bool {
        self.fits(plan, &plan.choices[choice], place) && self.leaves_rules(plan, choice, place)
    }

    /// As [`Self::admits`], without capacity.
    pub(super) fn leaves_rules(&self, plan: &Plan<'_>, choice: usize, place: u32) -> bool {
        (plan.nested || self.one_of_its_tree(place))
            && (plan.collective.is_empty() || self.leaves_traits(plan, choice, place))
            && plan.choices[choice]
                .sets
                .iter()
                .all(|set| self.leaves_subtree(plan, &plan.subtrees[*set], choice, place))
    }

    /// Whether no other provider of the place's tree is in use.
    fn one_of_its_tree(&self, place: u32) -> bool {
        let tree = self.tree_of[place as usize];
        self.chosen.iter().all(|other| {
            *other == NOWHERE || *other == place || self.tree_of[*other as usize] != tree
        })
    }

    /// Whether a `same_subtree` set can still be satisfied when this choice is made.
    fn leaves_subtree(&self, plan: &Plan<'_>, set: &[usize], choice: usize, place: u32) -> bool {
        let others = || set.iter().copied().filter(|other| *other != choice);
        let mut common = self.above[place as usize].clone();
        for other in others() {
            if self.chosen[other] != NOWHERE {
                common.intersect(&self.above[self.chosen[other] as usize]);
            }
        }
        // Candidates for the common ancestor: an assigned place, or one still open to another
        // choice.
        let mut tops = Bits::default();
        tops.insert(place as usize);
        for other in others() {
            match self.chosen[other] {
                NOWHERE => tops.union(&self.serving[plan.choices[other].kind]),
                place => tops.insert(place as usize),
            }
        }
        tops.intersect(&common);
        // All candidates are ancestors of one place, so the highest of them covers the most.
        let Some(top) = tops.iter().min_by_key(|top| self.above[*top].len()) else {
            return false;
        };
        others().all(|other| {
            self.chosen[other] != NOWHERE
                || self.below[top].meets(&self.serving[plan.choices[other].kind])
        })
    }

    /// Whether one of the places of a set of choices is an ancestor of all the others.
    pub(super) fn in_one_subtree(&self, set: &[usize], place_of: impl Fn(usize) -> u32) -> bool {
        let mut common = self.above[place_of(set[0]) as usize].clone();
        for choice in &set[1..] {
            common.intersect(&self.above[place_of(*choice) as usize]);
        }
        set.iter()
            .any(|choice| common.contains(place_of(*choice) as usize))
    }

    /// Whether a complete assignment satisfies every rule except capacity.
    pub(super) fn keeps_rules(&self, plan: &Plan<'_>, place_of: impl Fn(usize) -> u32) -> bool {
        let one_a_tree = || {
            (0..self.chosen.len()).all(|one| {
                (0..one).all(|other| {
                    let (one, other) = (place_of(one), place_of(other));
                    one == other || self.tree_of[one as usize] != self.tree_of[other as usize]
                })
            })
        };
        let traits = || {
            let mut covered = Bits::default();
            for (choice, of) in plan.choices.iter().enumerate() {
                if !of.granular {
                    covered.union(&self.covers[place_of(choice) as usize]);
                }
            }
            covered.covers(&Bits::first(plan.collective.len()))
        };
        plan.subtrees
            .iter()
            .all(|set| self.in_one_subtree(set, &place_of))
            && (plan.nested || one_a_tree())
            && (plan.collective.is_empty() || traits())
    }

    /// Where the candidate must use the tree's own providers: whether one of them is assigned or
    /// still can be.
    pub(super) fn leaves_own(&self, plan: &Plan<'_>, depth: usize, place: u32) -> bool {
        let own = |place: u32| !self.shared[place as usize];
        !self.only_with_own
            || own(place)
            || self.order[..depth]
                .iter()
                .any(|choice| own(self.chosen[*choice]))
            || self.order[depth + 1..].iter().any(|choice| {
                let kind = plan.choices[*choice].kind;
                self.options[kind].iter().any(|place| own(*place))
            })
    }
}
