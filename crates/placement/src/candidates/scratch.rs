//! What the searches of one request share: buffers, the budget of steps, and the places that are
//! open to each choice.

use super::plan::Plan;
use super::tree::{NOWHERE, TreeSearch};

/// The budget of steps of the exhaustive search, shared by all searches of one request. Augmenting
/// paths do not count.
const STEPS: u32 = 100_000;

/// Buffers and the step budget that all searches of one request share.
pub(crate) struct Scratch {
    /// By choice: the places open to it regardless of capacity, with the number of the call that
    /// computed them.
    open: Vec<(u32, Vec<u32>)>,
    pub(super) call: u32,
    /// By choice: its place in the completion under construction.
    pub(super) example: Vec<u32>,
    /// By place and component: the round in which an augmenting path last visited it.
    pub(super) visited: Vec<u32>,
    pub(super) round: u32,
    /// By twin class and place: whether an interchangeable choice was refuted there.
    pub(super) refuted: Vec<bool>,
    /// Steps that remain of the budget; at 0 the search gives up.
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

    /// Resets the budget for the next search.
    pub(crate) fn renew(&mut self) {
        self.steps = STEPS;
    }

    /// Whether some branch was abandoned because the budget ran out.
    pub(crate) fn gave_up(&self) -> bool {
        self.steps == 0
    }
}

impl TreeSearch {
    /// The number of places open to a choice, regardless of capacity.
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

    /// One of the places that [`Self::open_count`] counted.
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
}
