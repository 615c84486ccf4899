//! The two threads that make waiting commands durable.
//!
//! The writer decides the waiting commands, appends their entries, answers them, and starts over:
//! under the usual load one thread is woken once for each batch. While the writer waits for the
//! disk, a second thread decides the next commands, if there are enough of them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;
use placewright_journal::Journal;
use placewright_tasks::{Task, injection_point};

use crate::commit::{self, Appended};
use crate::decide::Decider;
use crate::following::{check_leadership, follow_journal};
use crate::hand_over::hand_over;
use crate::shared::{CommandBatch, Queue, Shared, wake_writer};
use crate::{Machine, loss, pending};

/// The writer waits for more commands only if its last append had at least this many. With fewer callers a common
/// append gains too little.
const GATHER_COMMANDS_MIN: usize = 8;
/// The time without commands after which a leading replica finds out whether it still leads.
const LEADER_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Runs until the engine is shut down and no command waits, then checkpoints the journal.
pub(crate) fn run<M: Machine>(shared: &Arc<Shared<M>>, mut journal: Box<dyn Journal>) {
    let mut decider = Decider::new();
    let mut last_append = None;
    loop {
        if !loss::wait_while_lost(shared, journal.as_mut()) {
            break;
        }
        if let Some(replica) = &shared.replica
            && !replica.is_leading()
        {
            injection_point(Task::EngineWriter);
            last_append = None;
            if !follow_journal(shared, replica, journal.as_mut()) {
                break;
            }
            continue;
        }
        let Some(batches) = next_batches(shared, &mut decider, last_append) else {
            break;
        };
        injection_point(Task::EngineWriter);
        if batches.is_empty() && shared.replica.is_some() {
            check_leadership(shared, journal.as_mut());
        }
        last_append = commit::commit(shared, journal.as_mut(), batches);
        if let Some(replica) = &shared.replica {
            // In a statement of its own, so that the lock is released before the hand-over.
            let next_leader = replica.next_leader.lock().take();
            if let Some(next_leader) = next_leader {
                hand_over(shared, replica, journal.as_mut(), &next_leader);
                last_append = None;
            }
        }
    }
    if let Some(replica) = &shared.replica {
        pending::close(replica);
    }
    // A command may have been queued after the last look at the queue, and before the queue was closed.
    let undecided = std::mem::take(&mut shared.queue.lock().waiting);
    pending::refuse_at_shutdown(undecided);
    // A checkpoint only speeds up the next start; durability does not depend on it.
    let _ = journal.checkpoint();
}

/// Waits for commands, decides them, and takes the batches to append. Returns an empty list if the writer was woken for
/// something else, or a leading replica was idle for a while, and `None` if the queue is closed and empty.
fn next_batches<M: Machine>(
    shared: &Shared<M>,
    decider: &mut Decider<M>,
    last_append: Option<Appended>,
) -> Option<VecDeque<CommandBatch<M>>> {
    let mut queue = shared.queue.lock();
    queue.is_appending = false;
    if let Some(last_append) = last_append {
        wait_for_group_commit(shared, &mut queue, &last_append);
    }
    loop {
        // Commands that the second thread has taken are decided first, which keeps the order.
        while !queue.is_deciding_ahead
            && !queue.waiting.is_empty()
            && !queue.has_full_append(&shared.options)
        {
            let commands_max = shared.options.decide_commands_max;
            take_waiting(&mut queue, commands_max, decider);
            MutexGuard::unlocked(&mut queue, || decider.decide(shared));
            put_back(&mut queue, decider);
        }
        if !queue.decided.is_empty() {
            return Some(take_decided(shared, &mut queue));
        }
        if queue.is_closed && !queue.is_deciding_ahead {
            return None;
        }
        let replica = shared.replica.as_ref();
        // Not while the second thread decides: what it decides has to be written before another replica leads.
        let is_handing_over = replica.is_some_and(|replica| replica.next_leader.lock().is_some());
        if is_handing_over && !queue.is_deciding_ahead {
            return Some(VecDeque::new());
        }
        queue.writer_wakes_at = 1;
        if shared.replica.is_none() {
            shared.writer_wake.wait(&mut queue);
        } else {
            (shared.writer_wake).wait_for(&mut queue, LEADER_CHECK_INTERVAL);
        }
        queue.writer_wakes_at = 0;
        // The writer was woken for something else than commands, or was idle for long enough.
        let is_idle = queue.waiting.is_empty() && queue.decided.is_empty();
        if is_idle && !queue.is_closed && !queue.is_deciding_ahead {
            return Some(VecDeque::new());
        }
    }
}

/// Waits briefly for the callers that were just answered (see `Options::gather_max`).
fn wait_for_group_commit<M: Machine>(
    shared: &Shared<M>,
    queue: &mut MutexGuard<'_, Queue<M>>,
    last_append: &Appended,
) {
    let pause = (last_append.append_time / 2).min(shared.options.gather_max);
    if pause.is_zero()
        || last_append.command_count < GATHER_COMMANDS_MIN
        || !queue.decided.is_empty()
    {
        return;
    }
    let until = last_append.answered_at + pause;
    let expected_count = last_append.command_count + last_append.waiting_count;
    while queue.waiting.len() < expected_count && !queue.is_closed {
        queue.writer_wakes_at = expected_count;
        if shared.writer_wake.wait_until(queue, until).timed_out() {
            break;
        }
    }
    queue.writer_wakes_at = 0;
}

/// Moves waiting commands into the decider's empty queue: all of them by swapping buffers if there are at most
/// `commands_max`, otherwise the first `commands_max`.
fn take_waiting<M: Machine>(queue: &mut Queue<M>, commands_max: usize, decider: &mut Decider<M>) {
    if queue.waiting.len() <= commands_max {
        std::mem::swap(&mut queue.waiting, &mut decider.waiting);
    } else {
        let commands = queue.waiting.drain(..commands_max);
        decider.waiting.extend(commands);
    }
    if decider.empty_batch.is_none() {
        decider.empty_batch = queue.take_recycled();
    }
}

/// Returns commands that were taken and not decided to the front of the queue.
fn put_back<M: Machine>(queue: &mut Queue<M>, decider: &mut Decider<M>) {
    while let Some(submission) = decider.waiting.pop_back() {
        queue.waiting.push_front(submission);
    }
}

/// Takes decided batches from the queue for one append, up to the limits of an append.
fn take_decided<M: Machine>(shared: &Shared<M>, queue: &mut Queue<M>) -> VecDeque<CommandBatch<M>> {
    let mut batches = VecDeque::new();
    let (mut command_count, mut bytes) = (0, 0);
    let bytes_max = shared.options.batch_bytes_max;
    while let Some(batch) = queue.decided.pop_front() {
        // The first batch is taken whatever its size is. A batch exceeds the limit by its last record at most.
        if bytes > 0 && bytes + batch.buffer.len() > bytes_max {
            queue.decided.push_front(batch);
            break;
        }
        command_count += batch.decided.len();
        bytes += batch.buffer.len();
        batches.push_back(batch);
        if command_count >= shared.options.batch_commands_max || bytes >= bytes_max {
            break;
        }
    }
    queue.decided_commands -= command_count;
    queue.decided_bytes -= bytes;
    queue.is_appending = true;
    if queue.waiting.len() >= shared.options.ahead_commands_min {
        shared.ahead_wake.notify_one();
    }
    batches
}

/// Runs the second thread until the queue is closed: decides commands while the writer waits for the disk.
pub(crate) fn run_ahead<M: Machine>(shared: &Arc<Shared<M>>) {
    let mut decider = Decider::new();
    let options = &shared.options;
    let mut queue = shared.queue.lock();
    while !queue.is_closed {
        let is_useful = queue.is_appending
            && queue.waiting.len() >= options.ahead_commands_min
            && !queue.has_full_append(options);
        if !is_useful {
            shared.ahead_wake.wait(&mut queue);
            continue;
        }
        queue.is_deciding_ahead = true;
        take_waiting(&mut queue, options.decide_commands_max, &mut decider);
        MutexGuard::unlocked(&mut queue, || {
            injection_point(Task::EngineAhead);
            decider.decide(shared);
        });
        put_back(&mut queue, &mut decider);
        queue.is_deciding_ahead = false;
        wake_writer(shared, &mut queue);
    }
    wake_writer(shared, &mut queue);
}
