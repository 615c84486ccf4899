//! Decides waiting commands and applies their changes.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::RwLockWriteGuard;
use placewright_tasks::{ContainedWork, contain_panic_sync};

use crate::Machine;
use crate::envelope;
use crate::error::SubmitError;
use crate::shared::{COMMANDS_CAPACITY, CommandBatch, RECYCLED_BYTES_MAX, Shared, State};
use crate::submission::{Decided, Submission};

/// The working memory of a deciding thread, kept for the capacity of its buffers.
pub(crate) struct Decider<M: Machine> {
    /// The commands to decide next; empty between two decisions.
    pub(crate) waiting: VecDeque<Submission<M>>,
    /// An empty batch for the next decisions.
    pub(crate) empty_batch: Option<CommandBatch<M>>,
    /// Decisions that depend on durable entries only; they are answered at once.
    answerable: Vec<Decided<M>>,
    /// The changes of the current decisions; dropped after the lock is released.
    changes: Vec<M::Change>,
}

impl<M: Machine> Decider<M> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: VecDeque::with_capacity(COMMANDS_CAPACITY),
            empty_batch: None,
            answerable: Vec::new(),
            changes: Vec::with_capacity(COMMANDS_CAPACITY),
        }
    }

    /// Decides the commands of `waiting` in order, each on the state that its predecessors left.
    /// Decisions that made an entry, or that depend on an entry that is not durable yet, are queued with
    /// their batch; all others are answered.
    ///
    /// Many commands are decided in several holds of the lock, so that readers get in between.
    /// When enough for an append is decided, the other commands stay in `waiting`.
    pub(crate) fn decide(&mut self, shared: &Shared<M>) {
        while !self.waiting.is_empty() && !self.decide_in_one_hold(shared) {}
    }

    /// Decides commands during one hold of the lock. True if enough for an append is decided.
    fn decide_in_one_hold(&mut self, shared: &Shared<M>) -> bool {
        let options = &shared.options;
        let started = Instant::now();
        let empty_batch = self.empty_batch.take();
        let mut batch = empty_batch
            .or_else(|| shared.queue.lock().take_recycled())
            .unwrap_or_else(|| CommandBatch::with_capacity(options.decide_commands_max));
        let mut state = shared.state.write();
        let locked_at = Instant::now();
        batch.first = state.applied + 1;
        while let Some(submission) = self.waiting.pop_front() {
            self.decide_one(&mut state, submission, &mut batch, options.record_bytes_max);
            if batch.buffer.len() >= options.batch_bytes_max
                || locked_at.elapsed() >= options.decide_hold_max
            {
                break;
            }
        }
        let durable = shared.durable();
        let answerable_count = batch
            .decided
            .partition_point(|decided| decided.depends_on <= durable);
        self.answerable
            .extend(batch.decided.drain(..answerable_count));
        let mut is_enough = false;
        if batch.decided.is_empty() {
            self.empty_batch = Some(batch);
        } else {
            batch.decide_time = started.elapsed();
            // The batch is queued while the state is locked, so that after a failed append all changes that
            // have to be undone are in the queue.
            let mut queue = shared.queue.lock();
            queue.decided_commands += batch.decided.len();
            queue.decided_bytes += batch.buffer.len();
            queue.decided.push_back(batch);
            is_enough = queue.has_full_append(options);
        }
        if self.waiting.is_empty() {
            drop(state);
        } else {
            // Hands the lock to a waiting thread, if there is one, before this thread takes it again.
            RwLockWriteGuard::unlock_fair(state);
        }
        self.answerable.drain(..).for_each(Decided::answer);
        self.changes.clear();
        is_enough
    }

    /// Decides one command. If it makes changes, they are applied, and its record is added to the batch.
    fn decide_one(
        &mut self,
        state: &mut State<M>,
        submission: Submission<M>,
        batch: &mut CommandBatch<M>,
        record_bytes_max: usize,
    ) {
        if (submission.made_after_rollbacks).is_some_and(|rollbacks| rollbacks != state.rollbacks) {
            submission.fail(SubmitError::ReadingUndone);
            return;
        }
        let changes_before = self.changes.len();
        let changes = &mut self.changes;
        // Deciding does not change the state, so a panic harms only its own command.
        let decision = contain_panic_sync(ContainedWork::Decision, || {
            state.machine.decide(&submission.command, changes)
        });
        let Ok(result) = decision else {
            self.changes.truncate(changes_before);
            submission.fail(SubmitError::Panicked);
            return;
        };
        let has_made_entry = result.is_ok() && self.changes.len() > changes_before;
        if result.is_err() {
            self.changes.truncate(changes_before);
        } else if has_made_entry {
            // Checked before the change is applied: a record that is too large must leave no
            // trace, and must not affect other commands.
            let start = batch.buffer.len();
            if let Some(id) = submission.forwarded {
                envelope::begin_command(id, &mut batch.buffer);
            }
            M::encode(&self.changes[changes_before..], &mut batch.buffer);
            let bytes = batch.buffer.len() - start;
            if bytes > record_bytes_max {
                self.changes.truncate(changes_before);
                batch.buffer.truncate(start);
                // Frees the memory of the large record, but keeps that of a usual batch.
                batch.buffer.shrink_to(RECYCLED_BYTES_MAX.max(start));
                let bytes_max = record_bytes_max;
                submission.fail(SubmitError::TooLarge { bytes, bytes_max });
                return;
            }
            batch.ends.push(batch.buffer.len());
            for change in &self.changes[changes_before..] {
                batch.undos.push(state.machine.apply(change));
            }
            state.applied += 1;
        }
        batch.decided.push(Decided {
            submission,
            result,
            depends_on: state.applied,
            has_made_entry,
        });
    }
}
