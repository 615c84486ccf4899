//! Decides waiting commands, and applies what they change.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::RwLockWriteGuard;
use placewright_tasks::{Contained, caught_now};

use crate::shared::{COMMANDS_READY, Decided, Group, Pending, Shared, State};
use crate::{Machine, SubmitError};

/// A thread's own decider; kept for the capacity of its buffers.
pub(crate) struct Decider<M: Machine> {
    /// The commands to decide next; empty between two decisions.
    pub(crate) batch: VecDeque<Pending<M>>,
    /// An empty group for the next decisions.
    pub(crate) spare: Option<Group<M>>,
    /// What is answered at once.
    settled: Vec<Decided<M>>,
    changes: Vec<M::Change>,
    /// Where the changes of each record end in `changes`.
    cuts: Vec<usize>,
}

impl<M: Machine> Decider<M> {
    pub(crate) fn new() -> Self {
        Self {
            batch: VecDeque::with_capacity(COMMANDS_READY),
            spare: None,
            settled: Vec::new(),
            changes: Vec::with_capacity(COMMANDS_READY),
            cuts: Vec::with_capacity(COMMANDS_READY),
        }
    }

    /// Decides the commands of `batch` in order, each on the state that the ones before left. What
    /// has to wait for an append is put behind the queue's decided groups, all else is answered.
    pub(crate) fn decide(&mut self, shared: &Shared<M>) {
        let started = Instant::now();
        let spare = self.spare.take();
        let mut group = spare.unwrap_or_else(|| Group::with_room(self.batch.len()));
        let mut state = shared.state.write();
        group.first = state.applied + 1;
        while let Some(pending) = self.batch.pop_front() {
            self.decide_one(&mut state, pending, &mut group);
        }
        // Readers may go on while the records are encoded; an undo, which needs the write lock,
        // may not happen before the group is where the undoing looks for it.
        let state = RwLockWriteGuard::downgrade(state);
        let mut start = 0;
        for &end in &self.cuts {
            M::encode(&self.changes[start..end], &mut group.buffer);
            group.ends.push(group.buffer.len());
            start = end;
        }
        let durable = shared.durable();
        let settled = group.decided.partition_point(|d| d.seen <= durable);
        self.settled.extend(group.decided.drain(..settled));
        if group.decided.is_empty() {
            self.spare = Some(group);
        } else {
            group.decide = started.elapsed();
            let mut queue = shared.queue.lock();
            queue.decided_commands += group.decided.len();
            queue.decided.push_back(group);
        }
        drop(state);
        self.settled.drain(..).for_each(Decided::answer);
        self.changes.clear();
        self.cuts.clear();
    }

    fn decide_one(&mut self, state: &mut State<M>, pending: Pending<M>, group: &mut Group<M>) {
        let start = self.changes.len();
        let changes = &mut self.changes;
        // Deciding changes nothing, so a bug that panics there harms only its own command.
        let decision = caught_now(Contained::Decision, || {
            state.machine.decide(&pending.command, changes)
        });
        let Ok(result) = decision else {
            self.changes.truncate(start);
            let _ = pending.reply.send(Err(SubmitError::Panicked));
            return;
        };
        if result.is_err() {
            self.changes.truncate(start);
        } else if self.changes.len() > start {
            for change in &self.changes[start..] {
                group.undos.push(state.machine.apply(change));
            }
            self.cuts.push(self.changes.len());
            state.applied += 1;
        }
        group.decided.push(Decided {
            pending,
            result,
            seen: state.applied,
        });
    }
}
