//! Decides waiting commands and applies their changes.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::RwLockWriteGuard;
use placewright_tasks::{ContainedWork, caught_now};

use crate::Machine;
use crate::error::SubmitError;
use crate::shared::{
    COMMANDS_READY, CommandBatch, Decided, Pending, SPARE_BYTES_MAX, Shared, State,
};

/// The working memory of a deciding thread, kept for the capacity of its buffers.
pub(crate) struct Decider<M: Machine> {
    /// The commands to decide next; empty between two decisions.
    pub(crate) batch: VecDeque<Pending<M>>,
    /// An empty group for the next decisions.
    pub(crate) spare: Option<CommandBatch<M>>,
    /// Decisions that need no append and are answered at once.
    settled: Vec<Decided<M>>,
    /// The changes of the current decisions; dropped after the lock is released.
    changes: Vec<M::Change>,
}

impl<M: Machine> Decider<M> {
    pub(crate) fn new() -> Self {
        Self {
            batch: VecDeque::with_capacity(COMMANDS_READY),
            spare: None,
            settled: Vec::new(),
            changes: Vec::with_capacity(COMMANDS_READY),
        }
    }

    /// Decides the commands of `batch` in order, each on the state that its predecessors left.
    /// Decisions that need an append are added to the queue's decided groups, all others are
    /// answered.
    ///
    /// A long batch is decided in several holds of the lock, so that readers get in between. When
    /// there is enough for an append, the rest stays in `batch`.
    pub(crate) fn decide(&mut self, shared: &Shared<M>) {
        while !self.batch.is_empty() && !self.decide_some(shared) {}
    }

    /// Decides commands during one hold of the lock. True if enough for an append is decided.
    fn decide_some(&mut self, shared: &Shared<M>) -> bool {
        let options = &shared.options;
        let started = Instant::now();
        let spare = self.spare.take();
        let mut group = spare.unwrap_or_else(|| CommandBatch::with_room(self.batch.len()));
        let mut state = shared.state.write();
        let locked = Instant::now();
        group.first = state.applied + 1;
        while let Some(pending) = self.batch.pop_front() {
            self.decide_one(&mut state, pending, &mut group, options.record_bytes_max);
            if group.buffer.len() >= options.batch_bytes_max
                || locked.elapsed() >= options.decide_hold_max
            {
                break;
            }
        }
        let durable = shared.durable();
        let settled = group.decided.partition_point(|d| d.seen <= durable);
        self.settled.extend(group.decided.drain(..settled));
        let mut is_enough = false;
        if group.decided.is_empty() {
            self.spare = Some(group);
        } else {
            group.decide = started.elapsed();
            // Queued while the state is locked, so that an undo finds every applied change in the
            // queue.
            let mut queue = shared.queue.lock();
            queue.decided_commands += group.decided.len();
            queue.decided_bytes += group.buffer.len();
            queue.decided.push_back(group);
            is_enough = queue.has_enough(options);
        }
        if self.batch.is_empty() {
            drop(state);
        } else {
            // Hands the lock to a waiting thread before this one can take it again.
            RwLockWriteGuard::unlock_fair(state);
        }
        self.settled.drain(..).for_each(Decided::answer);
        self.changes.clear();
        is_enough
    }

    fn decide_one(
        &mut self,
        state: &mut State<M>,
        pending: Pending<M>,
        group: &mut CommandBatch<M>,
        record_bytes_max: usize,
    ) {
        let from = self.changes.len();
        let changes = &mut self.changes;
        // Deciding does not change the state, so a panic harms only its own command.
        let decision = caught_now(ContainedWork::Decision, || {
            state.machine.decide(&pending.command, changes)
        });
        let Ok(result) = decision else {
            self.changes.truncate(from);
            pending.fail(SubmitError::Panicked);
            return;
        };
        let made_entry = result.is_ok() && self.changes.len() > from;
        if result.is_err() {
            self.changes.truncate(from);
        } else if made_entry {
            // Checked before the change is applied: a record that is too large must leave no
            // trace, and concerns no other command.
            let start = group.buffer.len();
            M::encode(&self.changes[from..], &mut group.buffer);
            let bytes = group.buffer.len() - start;
            if bytes > record_bytes_max {
                self.changes.truncate(from);
                group.buffer.truncate(start);
                group.buffer.shrink_to(SPARE_BYTES_MAX.max(start));
                let bytes_max = record_bytes_max;
                pending.fail(SubmitError::TooLarge { bytes, bytes_max });
                return;
            }
            group.ends.push(group.buffer.len());
            for change in &self.changes[from..] {
                group.undos.push(state.machine.apply(change));
            }
            state.applied += 1;
        }
        group.decided.push(Decided {
            pending,
            result,
            seen: state.applied,
            made_entry,
        });
    }
}
