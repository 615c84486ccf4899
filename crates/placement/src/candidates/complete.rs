//! Whether what is left of a request can still be served, proven by an example or by counting.
//!
//! First choices are placed one by one and moved aside for each other along exchange paths, as in
//! bipartite matching: that finds an example in nearly all cases, and when all competing choices
//! ask for the same, not finding one is a proof that there is none. For the rest, sums and a
//! matching with counts are tried as proofs, and at last a search of bounded length that tries
//! nothing twice that only names tell apart.

use super::plan::Plan;
use super::tree::{NOWHERE, TreeSearch};

/// How many steps all searches of one request may spend beyond what exchange paths settle.
const STEPS: u32 = 100_000;

/// Buffers and the allowance that all searches of one request share.
pub(crate) struct Scratch {
    /// By choice: the places that are open to it now.
    open: Vec<Vec<u32>>,
    /// By choice: where the example has it.
    example: Vec<u32>,
    /// By place and component: the round in which an exchange path last came by.
    visited: Vec<u32>,
    round: u32,
    /// By twin and place: whether an equal choice was found to have no future there.
    refuted: Vec<bool>,
    /// Steps left.
    steps: u32,
}

impl Scratch {
    pub(crate) fn new(plan: &Plan<'_>) -> Self {
        let choices = plan.choices.len();
        Self {
            open: vec![Vec::new(); choices],
            example: vec![NOWHERE; choices],
            visited: Vec::new(),
            round: 0,
            refuted: Vec::new(),
            steps: STEPS,
        }
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
        let rest: Vec<usize> = self.order[depth..].to_vec();
        if rest.is_empty() {
            return true;
        }
        if !self.find_open(plan, &rest, scratch) {
            return false;
        }
        let placed = self.exchange(plan, &rest, scratch);
        if placed {
            let keeps = plan.only_room_binds()
                || self.keeps_rules(plan, |choice| match self.chosen[choice] {
                    NOWHERE => scratch.example[choice],
                    place => place,
                });
            if keeps {
                for choice in &rest {
                    self.witness[*choice] = scratch.example[*choice];
                }
                return true;
            }
        } else if plan.uniform {
            return false;
        }
        scratch.refuted.clear();
        scratch
            .refuted
            .resize(plan.choices.len() * self.places.len(), false);
        let mut rest = rest;
        self.branch(plan, &mut rest, scratch)
    }

    /// Lists the places open to each choice. False when one has none.
    fn find_open(&self, plan: &Plan<'_>, rest: &[usize], scratch: &mut Scratch) -> bool {
        for choice in rest {
            let kind = plan.choices[*choice].kind;
            let mut open = std::mem::take(&mut scratch.open[*choice]);
            open.clear();
            open.extend(
                self.options[kind]
                    .iter()
                    .filter(|place| self.admits(plan, *choice, **place)),
            );
            let none = open.is_empty();
            scratch.open[*choice] = open;
            if none {
                return false;
            }
        }
        true
    }

    /// Places all choices, moving placed ones aside where needed. The room taken is given back.
    fn exchange(&mut self, plan: &Plan<'_>, rest: &[usize], scratch: &mut Scratch) -> bool {
        let mut all = true;
        for choice in rest {
            let known = self.witness[*choice];
            scratch.example[*choice] = NOWHERE;
            if scratch.open[*choice].contains(&known)
                && self.fits(plan, &plan.choices[*choice], known)
            {
                self.load(plan, &plan.choices[*choice], known);
                scratch.example[*choice] = known;
            }
        }
        for choice in rest {
            if scratch.example[*choice] == NOWHERE {
                scratch.round += 1;
                scratch
                    .visited
                    .resize(plan.choices.len() * self.places.len(), 0);
                all = all && self.make_room(plan, rest, *choice, scratch);
            }
        }
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
        for index in 0..scratch.open[choice].len() {
            let place = scratch.open[choice][index];
            if self.fits(plan, wanted, place) {
                self.load(plan, wanted, place);
                scratch.example[choice] = place;
                return true;
            }
        }
        for index in 0..scratch.open[choice].len() {
            let place = scratch.open[choice][index];
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

    /// Tries everything, the choice with the fewest open places first. Leaves the choices as they
    /// were; when it succeeds, `witness` has the places.
    fn branch(&mut self, plan: &Plan<'_>, rest: &mut Vec<usize>, scratch: &mut Scratch) -> bool {
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
            let places = self.unrefuted(plan, *choice, scratch);
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
        for (index, place) in places.iter().enumerate() {
            let tried = places[..index]
                .iter()
                .any(|other| self.alike(plan, *other, *place));
            if !tried {
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

    fn unrefuted(&self, plan: &Plan<'_>, choice: usize, scratch: &Scratch) -> Vec<u32> {
        let twin = plan.choices[choice].twin * self.places.len();
        self.options[plan.choices[choice].kind]
            .iter()
            .copied()
            .filter(|place| {
                !scratch.refuted[twin + *place as usize] && self.admits(plan, choice, *place)
            })
            .collect()
    }

    /// Whether only the names tell two places apart, for all choices still to be made.
    fn alike(&self, plan: &Plan<'_>, one: u32, other: u32) -> bool {
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
        let leaf = |place: usize| {
            self.above.is_empty()
                || (0..self.above.len())
                    .all(|under| under == place || !self.above[under].contains(place))
        };
        let same_above = || {
            self.above.is_empty()
                || (0..self.places.len()).all(|place| {
                    place == one
                        || place == other
                        || self.above[one].contains(place) == self.above[other].contains(place)
                })
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
