//! The progress of each task of a replay.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskEnd {
    /// Its server is active.
    Active,
    /// There was no host for it, or its request was not valid; with the reason.
    Refused(String),
    /// It ended in a way that an installation must not cause; with the reason.
    Lost(String),
}

/// The numbers of tasks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Accepted, and neither active nor refused yet.
    pub(crate) building: u64,
    pub(crate) active: u64,
    pub(crate) refused: u64,
    pub(crate) lost: u64,
    /// The deleted ones among those that ended.
    pub(crate) deleted: u64,
}

impl Counts {
    /// The number of tasks that ended.
    pub(crate) fn ended(&self) -> u64 {
        self.active + self.refused + self.lost
    }
}

/// The progress of one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskState {
    /// The UUID of its server, once the request was accepted.
    pub(crate) server: Option<Uuid>,
    pub(crate) end: Option<TaskEnd>,
    /// The time from the request until the server was seen active or refused.
    pub(crate) latency: Duration,
    /// Whether its deletion was accepted.
    pub(crate) deleted: bool,
}

/// The progress of all tasks of a replay.
#[derive(Debug)]
pub(crate) struct TaskProgress {
    inner: Mutex<Inner>,
    /// One permit for each server that may be built concurrently.
    pub(crate) room: Semaphore,
    /// Notified when a task ends.
    pub(crate) ended: Notify,
}

/// The data of a [`TaskProgress`], behind its lock.
#[derive(Debug, Default)]
struct Inner {
    entries: Vec<TaskState>,
    counts: Counts,
    /// Servers that have not ended yet: their task, and when they were requested.
    building: BTreeMap<Uuid, (usize, Instant)>,
    /// Servers that were seen in a listing before the response to their request.
    early: HashMap<Uuid, (TaskEnd, Instant)>,
    last_end: Option<Instant>,
}

impl TaskProgress {
    pub(crate) fn new(tasks: usize, in_flight: usize) -> Self {
        let inner = Inner {
            entries: vec![TaskState::default(); tasks],
            ..Inner::default()
        };
        Self {
            inner: Mutex::new(inner),
            room: Semaphore::new(in_flight),
            ended: Notify::new(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.inner.lock().counts
    }

    pub(crate) fn entry(&self, task: usize) -> TaskState {
        self.inner.lock().entries[task].clone()
    }

    pub(crate) fn entries(&self) -> Vec<TaskState> {
        self.inner.lock().entries.clone()
    }

    /// When the last task ended, so far.
    pub(crate) fn last_end(&self) -> Option<Instant> {
        self.inner.lock().last_end
    }

    /// Any server of the run.
    pub(crate) fn any_server(&self) -> Option<Uuid> {
        let inner = self.inner.lock();
        inner.entries.iter().find_map(|entry| entry.server)
    }

    /// Notes that the request for a task's server, made at `sent`, was accepted.
    pub(crate) fn accept(&self, task: usize, server: Uuid, sent: Instant) {
        let mut inner = self.inner.lock();
        inner.entries[task].server = Some(server);
        inner.building.insert(server, (task, sent));
        inner.counts.building += 1;
        if let Some((end, at)) = inner.early.remove(&server) {
            self.end_server(&mut inner, server, end, at);
        }
    }

    /// Notes that the request for a task's server was not accepted.
    pub(crate) fn turn_away(&self, task: usize, end: TaskEnd) {
        self.set_end(&mut self.inner.lock(), task, end, Duration::ZERO);
    }

    /// Notes that a server was seen in a final state. Servers of others are ignored.
    pub(crate) fn see(&self, server: Uuid, end: TaskEnd, at: Instant) {
        let mut inner = self.inner.lock();
        if inner.building.contains_key(&server) {
            self.end_server(&mut inner, server, end, at);
        } else {
            inner.early.insert(server, (end, at));
        }
    }

    /// Servers that were requested before `before` and have not ended yet, the oldest first.
    pub(crate) fn building_since(&self, before: Instant, limit: usize) -> Vec<Uuid> {
        let inner = self.inner.lock();
        let mut late: Vec<_> = inner
            .building
            .iter()
            .filter(|(_, (_, sent))| *sent < before)
            .map(|(server, (_, sent))| (*sent, *server))
            .collect();
        late.sort_unstable();
        late.truncate(limit);
        late.into_iter().map(|(_, server)| server).collect()
    }

    pub(crate) fn set_deleted(&self, task: usize) {
        let mut inner = self.inner.lock();
        inner.entries[task].deleted = true;
        inner.counts.deleted += 1;
    }

    /// Ends all tasks that have not ended, because the run is given up.
    pub(crate) fn give_up(&self, reason: &str) {
        let mut inner = self.inner.lock();
        let left: Vec<_> = inner.building.keys().copied().collect();
        let now = Instant::now();
        for server in left {
            let end = TaskEnd::Lost(reason.to_owned());
            self.end_server(&mut inner, server, end, now);
        }
    }

    fn end_server(&self, inner: &mut Inner, server: Uuid, end: TaskEnd, at: Instant) {
        if let Some((task, sent)) = inner.building.remove(&server) {
            inner.counts.building -= 1;
            let is_settled = !matches!(end, TaskEnd::Lost(_));
            self.set_end(inner, task, end, at.saturating_duration_since(sent));
            if is_settled {
                inner.last_end = inner.last_end.max(Some(at));
            }
        }
    }

    fn set_end(&self, inner: &mut Inner, task: usize, end: TaskEnd, latency: Duration) {
        match &end {
            TaskEnd::Active => inner.counts.active += 1,
            TaskEnd::Refused(_) => inner.counts.refused += 1,
            TaskEnd::Lost(_) => inner.counts.lost += 1,
        }
        let entry = &mut inner.entries[task];
        entry.end = Some(end);
        entry.latency = latency;
        self.room.add_permits(1);
        self.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_be_seen_before_its_request_is_answered() {
        let board = TaskProgress::new(2, 2);
        let (first, foreign) = (Uuid::from_u128(1), Uuid::from_u128(9));
        let sent = Instant::now();
        let at = sent + Duration::from_millis(5);
        board.see(first, TaskEnd::Active, at);
        board.see(foreign, TaskEnd::Active, at);
        assert_eq!(board.counts().active, 0);
        board.accept(0, first, sent);
        assert_eq!((board.counts().active, board.counts().building), (1, 0));
        assert_eq!(board.entry(0).latency, Duration::from_millis(5));
        board.turn_away(1, TaskEnd::Refused("no".to_owned()));
        assert_eq!(board.counts().ended(), 2);
        assert_eq!(board.room.available_permits(), 4, "each end gives room");
    }
}
