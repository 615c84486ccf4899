//! The search for an order of a history's operations: the method of Wing and Gong, with Lowe's extension that remembers
//! unsuccessful attempts (the set of operations in the order, and the state after them), as in the checker Porcupine.
//!
//! An operation without an answer may have taken effect at any time after its call, or never. It is put into an
//! order only where it changes the state; where it does not, it makes no difference.

use std::collections::HashSet;

use crate::Model;
use crate::operation_set::OperationSet;
use crate::timeline::{END, Event, Timeline};

/// How many pairs of a set and a state are remembered before the search gives up.
const REMEMBERED_MAX: usize = 20_000_000;
/// How many operations of each kind a failure shows.
const SHOWN_MAX: usize = 12;

/// An operation as it was recorded. Times are of one clock, in any unit.
#[derive(Clone, Debug)]
pub struct Operation<I, O> {
    /// The client, which has one operation at a time.
    pub client: u32,
    /// When the operation was called.
    pub call: u64,
    /// When the answer came, and the answer. `None` if the outcome is not known.
    pub answer: Option<(u64, O)>,
    /// The request of the client.
    pub input: I,
}

/// The result of checking a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order that explains every answer.
    Linearizable,
    /// There is no such order. The text shows the longest order that was found.
    NotLinearizable(String),
    /// The search was given up.
    Undecided,
}

/// One step of the order under construction: the operation, and the state before it.
struct Placed<S> {
    number: usize,
    before: S,
}

/// The state of the search.
struct Search<'a, M: Model> {
    operations: &'a [Operation<M::Input, M::Output>],
    timeline: Timeline,
    state: M::State,
    /// The set of the operations in `order`.
    in_order: OperationSet,
    order: Vec<Placed<M::State>>,
    /// Operations with an answer that are not in the order yet.
    answered_left: usize,
    /// The sets of operations that were in `order`, each with the state after them. To reach one of these pairs again
    /// is in vain.
    remembered: HashSet<(OperationSet, M::State)>,
    /// The longest order so far, and the state after it.
    longest: (Vec<usize>, M::State),
}

/// Searches for an order of the operations that explains every answer.
#[must_use]
pub fn check<M: Model>(operations: &[Operation<M::Input, M::Output>]) -> Verdict {
    let times: Vec<_> = operations
        .iter()
        .map(|operation| {
            let answered_at = operation.answer.as_ref().map(|(time, _)| *time);
            (operation.call, answered_at)
        })
        .collect();
    let mut search: Search<'_, M> = Search {
        operations,
        timeline: Timeline::new(&times),
        state: M::initial(),
        in_order: OperationSet::empty(operations.len()),
        order: Vec::new(),
        answered_left: times.iter().filter(|(_, answer)| answer.is_some()).count(),
        remembered: HashSet::new(),
        longest: (Vec::new(), M::initial()),
    };
    search.run()
}

impl<M: Model> Search<'_, M> {
    /// Extends the order by one operation after the other. Where none can be next, takes the last one back, and tries
    /// the following ones in its place.
    fn run(&mut self) -> Verdict {
        let mut node = self.timeline.first();
        while self.answered_left > 0 {
            if self.remembered.len() > REMEMBERED_MAX {
                return Verdict::Undecided;
            }
            let call = match (node, self.timeline.event(node)) {
                // Every operation that could be next was tried.
                (END, _) | (_, Event::Return(_)) => match self.take_back() {
                    Some(number) => {
                        node = self.timeline.next(self.timeline.call(number));
                        continue;
                    }
                    None => return Verdict::NotLinearizable(self.describe()),
                },
                (_, Event::Call(number)) => number,
            };
            let is_placed = (self.state_after(call)).is_some_and(|state| self.place(call, state));
            node = if is_placed {
                self.timeline.first()
            } else {
                self.timeline.next(node)
            };
        }
        Verdict::Linearizable
    }

    /// The state after an operation; `None` if the operation cannot be the next one in the order.
    fn state_after(&self, number: usize) -> Option<M::State> {
        let operation = &self.operations[number];
        let (output, state) = M::step(&self.state, &operation.input);
        let is_possible = match &operation.answer {
            Some((_, answer)) => *answer == output,
            None => state != self.state,
        };
        is_possible.then_some(state)
    }

    /// Appends an operation to the order, and returns true. Returns false, and changes nothing, if the same set of
    /// operations with the same state was tried in vain before.
    fn place(&mut self, number: usize, state: M::State) -> bool {
        self.in_order.insert(number);
        if !self
            .remembered
            .insert((self.in_order.clone(), state.clone()))
        {
            self.in_order.remove(number);
            return false;
        }
        self.timeline.take_out(number);
        self.answered_left -= usize::from(self.operations[number].answer.is_some());
        let before = std::mem::replace(&mut self.state, state);
        self.order.push(Placed { number, before });
        if self.order.len() > self.longest.0.len() {
            let order = self.order.iter().map(|placed| placed.number).collect();
            self.longest = (order, self.state.clone());
        }
        true
    }

    /// Removes the last operation from the order, and returns it; `None` if the order is empty.
    fn take_back(&mut self) -> Option<usize> {
        let Placed { number, before } = self.order.pop()?;
        self.state = before;
        self.in_order.remove(number);
        self.answered_left += usize::from(self.operations[number].answer.is_some());
        self.timeline.put_back(number);
        Some(number)
    }

    /// The longest order: its end, the state after it, and the operations that cannot follow.
    fn describe(&self) -> String {
        use std::fmt::Write as _;
        let (order, state) = &self.longest;
        let count = self.operations.len();
        let mut text = format!(
            "{} of {count} operations have an order. Its end:\n",
            order.len()
        );
        let mut placed = OperationSet::empty(count);
        for number in order {
            placed.insert(*number);
        }
        for number in &order[order.len().saturating_sub(SHOWN_MAX)..] {
            let _ = writeln!(text, "  {}", self.line(*number));
        }
        let _ = writeln!(
            text,
            "The state after it: {state:?}\nNone of these can follow:"
        );
        let mut left: Vec<usize> = (0..count)
            .filter(|number| !placed.contains(*number))
            .collect();
        left.sort_by_key(|number| self.operations[*number].call);
        // Only an operation that was called before any of the remaining operations returned can be next.
        let returns = left
            .iter()
            .filter_map(|number| self.operations[*number].answer.as_ref());
        let first_return = returns.map(|(time, _)| *time).min().unwrap_or(u64::MAX);
        left.retain(|number| self.operations[*number].call <= first_return);
        for number in left.into_iter().take(SHOWN_MAX) {
            let (output, _) = M::step(state, &self.operations[number].input);
            let _ = writeln!(text, "  {}, not {output:?}", self.line(number));
        }
        text
    }

    fn line(&self, number: usize) -> String {
        let operation = &self.operations[number];
        let (client, call, input) = (operation.client, operation.call, &operation.input);
        match &operation.answer {
            Some((time, answer)) => {
                format!("client {client}, {call} to {time}: {input:?}: {answer:?}")
            }
            None => format!("client {client}, from {call}: {input:?}: no answer"),
        }
    }
}
