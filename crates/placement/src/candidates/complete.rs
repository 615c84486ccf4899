//! Decides whether the remaining choices of a request can be served, by an example or by a
//! counting argument.
//!
//! First, choices are placed one by one along augmenting paths, as in bipartite matching. That
//! finds an example in nearly all cases, and when all competing choices take the same amounts, not
//! finding one is a proof that there is none. Otherwise, sums and a matching with capacities are
//! tried as proofs of infeasibility, and finally a bounded backtracking search that skips
//! symmetric branches.

use smallvec::SmallVec;

use super::plan::Plan;
use super::scratch::Scratch;
use super::tree::{NOWHERE, TreeSearch};

impl TreeSearch {
    /// Whether the choices from a depth on can be completed. If so, `witness` holds a completion.
    pub(super) fn complete(
        &mut self,
        plan: &Plan<'_>,
        depth: usize,
        scratch: &mut Scratch,
    ) -> bool {
        if depth == self.order.len() {
            return true;
        }
        let mut rest: SmallVec<[usize; 32]> = SmallVec::from_slice(&self.order[depth..]);
        scratch.call += 1;
        if !plan.collective.is_empty() && !self.aim_for_traits(plan, &rest, scratch) {
            return false;
        }
        if !self.exchange(plan, &rest, scratch) {
            // Choices that compete and ask for the same are settled by augmenting paths: no
            // exhaustive search is needed.
            return !plan.uniform && self.try_all(plan, &mut rest, scratch);
        }
        let place_of = |choice: usize| match self.chosen[choice] {
            NOWHERE => scratch.example[choice],
            place => place,
        };
        if plan.only_room_binds() || self.keeps_rules(plan, place_of) {
            for choice in &rest {
                self.witness[*choice] = scratch.example[*choice];
            }
            return true;
        }
        let broken: SmallVec<[usize; 16]> = plan
            .subtrees
            .iter()
            .filter(|set| !self.in_one_subtree(set, place_of))
            .flatten()
            .copied()
            .collect();
        self.repair_subtrees(plan, &rest, &broken, scratch)
            || self.try_all(plan, &mut rest, scratch)
    }

    /// Keeps the completion except for the choices whose subtree rule is broken, and searches
    /// exhaustively for those.
    fn repair_subtrees(
        &mut self,
        plan: &Plan<'_>,
        rest: &[usize],
        broken: &[usize],
        scratch: &mut Scratch,
    ) -> bool {
        let (mut moving, staying): (SmallVec<[usize; 32]>, SmallVec<[usize; 32]>) = rest
            .iter()
            .copied()
            .partition(|choice| broken.contains(choice));
        if moving.is_empty() || staying.is_empty() {
            return false;
        }
        for choice in &staying {
            self.put(plan, *choice, scratch.example[*choice]);
        }
        let repaired = self.try_all(plan, &mut moving, scratch)
            && self.keeps_rules(plan, |choice| match self.chosen[choice] {
                NOWHERE => self.witness[choice],
                place => place,
            });
        for choice in &staying {
            if repaired {
                self.witness[*choice] = self.chosen[*choice];
            }
            self.take(plan, *choice);
        }
        repaired
    }

    /// Searches all completions of the remaining choices by backtracking, within the step budget.
    fn try_all(
        &mut self,
        plan: &Plan<'_>,
        rest: &mut SmallVec<[usize; 32]>,
        scratch: &mut Scratch,
    ) -> bool {
        scratch.refuted.clear();
        scratch
            .refuted
            .resize(plan.choices.len() * self.places.len(), false);
        self.branch(plan, rest, scratch)
    }

    /// Places all choices along augmenting paths, moving placed ones where needed. All capacity
    /// taken is released before it returns.
    fn exchange(&mut self, plan: &Plan<'_>, rest: &[usize], scratch: &mut Scratch) -> bool {
        for choice in rest {
            let known = self.witness[*choice];
            scratch.example[*choice] = NOWHERE;
            let open = known != NOWHERE && self.admits(plan, *choice, known);
            if open {
                self.load(plan, &plan.choices[*choice], known);
                scratch.example[*choice] = known;
            }
        }
        let marks = plan.choices.len() * self.places.len();
        if scratch.visited.len() < marks {
            scratch.visited.resize(marks, 0);
        }
        let all = rest.iter().all(|choice| {
            scratch.round += 1;
            scratch.example[*choice] != NOWHERE || self.make_room(plan, rest, *choice, scratch)
        });
        for choice in rest {
            if scratch.example[*choice] != NOWHERE {
                self.unload(plan, &plan.choices[*choice], scratch.example[*choice]);
            }
        }
        all
    }

    /// Places one choice, moving others of its component along augmenting paths that were not
    /// tried before.
    fn make_room(
        &mut self,
        plan: &Plan<'_>,
        rest: &[usize],
        choice: usize,
        scratch: &mut Scratch,
    ) -> bool {
        let wanted = &plan.choices[choice];
        let open = self.open_count(plan, choice, scratch);
        for index in 0..open {
            let place = self.open_place(plan, choice, index, scratch);
            if self.fits(plan, wanted, place) {
                self.load(plan, wanted, place);
                scratch.example[choice] = place;
                return true;
            }
        }
        for index in 0..open {
            let place = self.open_place(plan, choice, index, scratch);
            let mark = place as usize * plan.choices.len() + wanted.component;
            if scratch.visited[mark] == scratch.round {
                continue;
            }
            scratch.visited[mark] = scratch.round;
            for other in rest {
                let moved = &plan.choices[*other];
                if scratch.example[*other] != place || moved.component != wanted.component {
                    continue;
                }
                self.unload(plan, moved, place);
                scratch.example[*other] = NOWHERE;
                if self.fits(plan, wanted, place) {
                    self.load(plan, wanted, place);
                    scratch.example[choice] = place;
                    if self.make_room(plan, rest, *other, scratch) {
                        return true;
                    }
                    self.unload(plan, wanted, place);
                    scratch.example[choice] = NOWHERE;
                }
                self.load(plan, moved, place);
                scratch.example[*other] = place;
            }
        }
        false
    }
}
