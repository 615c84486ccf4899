//! Whether what is left of a request can still be served, proven by an example or by counting.
//!
//! First choices are placed one by one and moved aside for each other along exchange paths, as in
//! bipartite matching: that finds an example in nearly all cases, and when all competing choices
//! ask for the same, not finding one is a proof that there is none. For the rest, sums and a
//! matching with counts are tried as proofs, and at last a search of bounded length that tries
//! nothing twice that only names tell apart.

use smallvec::SmallVec;

use super::plan::Plan;
use super::tree::{NOWHERE, TreeSearch};

/// How many steps all searches of one request may spend beyond what exchange paths settle.
const STEPS: u32 = 100_000;

/// Buffers and the allowance that all searches of one request share.
pub(crate) struct Scratch {
    /// By choice: the places that are open to it now, room left aside, as of a call.
    open: Vec<(u32, Vec<u32>)>,
    call: u32,
    /// By choice: where the example has it.
    example: Vec<u32>,
    /// By place and component: the round in which an exchange path last came by.
    visited: Vec<u32>,
    round: u32,
    /// By twin and place: whether an equal choice was found to have no future there.
    pub(super) refuted: Vec<bool>,
    /// Steps left.
    pub(super) steps: u32,
}

impl Scratch {
    pub(crate) fn new(plan: &Plan<'_>) -> Self {
        let choices = plan.choices.len();
        Self {
            open: vec![(0, Vec::new()); choices],
            call: 0,
            example: vec![NOWHERE; choices],
            visited: Vec::new(),
            round: 0,
            refuted: Vec::new(),
            steps: STEPS,
        }
    }

    /// Gives the next search all steps again.
    pub(crate) fn renew(&mut self) {
        self.steps = STEPS;
    }

    /// Whether some branch was given up because the allowance ran out.
    pub(crate) fn gave_up(&self) -> bool {
        self.steps == 0
    }
}

impl TreeSearch {
    /// Whether the choices from a depth on can be completed. If so, `witness` says how.
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
            // Where all that compete ask for the same, exchange paths find what there is.
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
        self.mend(plan, &rest, &broken, scratch) || self.try_all(plan, &mut rest, scratch)
    }

    /// Keeps the example but for the choices whose subtrees are broken, and tries all for those.
    fn mend(
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
        let mended = self.try_all(plan, &mut moving, scratch)
            && self.keeps_rules(plan, |choice| match self.chosen[choice] {
                NOWHERE => self.witness[choice],
                place => place,
            });
        for choice in &staying {
            if mended {
                self.witness[*choice] = self.chosen[*choice];
            }
            self.take(plan, *choice);
        }
        mended
    }

    /// Tries everything.
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

    /// How many places are open to a choice, room left aside.
    pub(super) fn open_count(
        &self,
        plan: &Plan<'_>,
        choice: usize,
        scratch: &mut Scratch,
    ) -> usize {
        let options = &self.options[plan.choices[choice].kind];
        if plan.only_room_binds() {
            return options.len();
        }
        let (call, open) = &mut scratch.open[choice];
        if *call != scratch.call {
            *call = scratch.call;
            open.clear();
            open.extend(
                options
                    .iter()
                    .filter(|place| self.leaves_rules(plan, choice, **place)),
            );
        }
        open.len()
    }

    pub(super) fn open_place(
        &self,
        plan: &Plan<'_>,
        choice: usize,
        index: usize,
        scratch: &Scratch,
    ) -> u32 {
        if plan.only_room_binds() {
            self.options[plan.choices[choice].kind][index]
        } else {
            scratch.open[choice].1[index]
        }
    }

    /// Places all choices, moving placed ones aside where needed. The room taken is given back.
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

    /// Places one choice, moving others of its component aside along paths not tried before.
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
