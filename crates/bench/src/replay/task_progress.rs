//! The progress of each task of a replay.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskEnd {
    /// The server of the task is active.
    Active,
    /// There was no host for the server, or the request was refused; with the reason.
    Refused(String),
    /// The task ended in a way that must not occur; with a description.
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
    /// Ended tasks whose servers were deleted. They are also counted by how they ended.
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
    /// The UUID of the task's server, once the request was accepted.
    pub(crate) server: Option<Uuid>,
    /// `None` if the task has not ended, or its server was never requested.
    pub(crate) end: Option<TaskEnd>,
    /// The time from the request until the build of the server was seen to have ended or was given up; zero if the
    /// request was not accepted.
    pub(crate) latency: Duration,
    /// Whether the request to delete the server was accepted.
    pub(crate) is_deleted: bool,
}

/// The progress of all tasks of a replay.
#[derive(Debug)]
pub(crate) struct TaskProgress {
    state: Mutex<ProgressState>,
    /// The permits of concurrent builds.
    pub(crate) build_permits: Semaphore,
    /// Notified when a task ends.
    pub(crate) ended: Notify,
}

/// The data of a [`TaskProgress`], behind its lock.
#[derive(Debug, Default)]
struct ProgressState {
    task_states: Vec<TaskState>,
    counts: Counts,
    /// Servers whose builds have not ended: the task, and the time of the request.
    building: BTreeMap<Uuid, (usize, Instant)>,
    /// Servers whose builds ended in a listing before the response to their request was received, and servers
    /// of other users.
    early_ends: HashMap<Uuid, (TaskEnd, Instant)>,
    /// See [`TaskProgress::last_end`].
    last_end: Option<Instant>,
}

impl TaskProgress {
    pub(crate) fn new(tasks: usize, in_flight: usize) -> Self {
        let state = ProgressState {
            task_states: vec![TaskState::default(); tasks],
            ..ProgressState::default()
        };
        Self {
            state: Mutex::new(state),
            build_permits: Semaphore::new(in_flight),
            ended: Notify::new(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    pub(crate) fn task_state(&self, task: usize) -> TaskState {
        self.state.lock().task_states[task].clone()
    }

    pub(crate) fn task_states(&self) -> Vec<TaskState> {
        self.state.lock().task_states.clone()
    }

    /// The latest time so far at which the build of a server was seen to end active or refused; `None` before the
    /// first.
    pub(crate) fn last_end(&self) -> Option<Instant> {
        self.state.lock().last_end
    }

    /// Any server of the run that the run has not deleted; `None` if there is none.
    pub(crate) fn any_server(&self) -> Option<Uuid> {
        let state = self.state.lock();
        let mut existing = state
            .task_states
            .iter()
            .filter(|task_state| !task_state.is_deleted);
        existing.find_map(|task_state| task_state.server)
    }

    /// Records that the request for a task's server, sent at `sent_at`, was accepted.
    pub(crate) fn accept(&self, task: usize, server: Uuid, sent_at: Instant) {
        let mut state = self.state.lock();
        state.task_states[task].server = Some(server);
        state.building.insert(server, (task, sent_at));
        state.counts.building += 1;
        if let Some((end, ended_at)) = state.early_ends.remove(&server) {
            self.end_server(&mut state, server, end, ended_at);
        }
    }

    /// Records that the request for a task's server was not accepted.
    pub(crate) fn set_not_accepted(&self, task: usize, end: TaskEnd) {
        self.set_end(&mut self.state.lock(), task, end, Duration::ZERO);
    }

    /// Records that a server's build has ended. Servers of other users are ignored.
    pub(crate) fn set_ended(&self, server: Uuid, end: TaskEnd, ended_at: Instant) {
        let mut state = self.state.lock();
        if state.building.contains_key(&server) {
            self.end_server(&mut state, server, end, ended_at);
        } else {
            state.early_ends.insert(server, (end, ended_at));
        }
    }

    /// Servers that were requested before a time and whose builds have not ended, the oldest first.
    pub(crate) fn unfinished_requested_before(
        &self,
        requested_before: Instant,
        limit: usize,
    ) -> Vec<Uuid> {
        let state = self.state.lock();
        let mut unfinished: Vec<_> = state
            .building
            .iter()
            .filter(|(_, (_, sent_at))| *sent_at < requested_before)
            .map(|(server, (_, sent_at))| (*sent_at, *server))
            .collect();
        unfinished.sort_unstable();
        unfinished.truncate(limit);
        unfinished.into_iter().map(|(_, server)| server).collect()
    }

    pub(crate) fn set_deleted(&self, task: usize) {
        let mut state = self.state.lock();
        state.task_states[task].is_deleted = true;
        state.counts.deleted += 1;
    }

    /// Ends all tasks whose servers are being built, because the run is given up.
    pub(crate) fn give_up(&self, reason: &str) {
        let mut state = self.state.lock();
        let unfinished: Vec<_> = state.building.keys().copied().collect();
        let now = Instant::now();
        for server in unfinished {
            let end = TaskEnd::Lost(reason.to_owned());
            self.end_server(&mut state, server, end, now);
        }
    }

    /// Ends the task of a server that is being built. Does nothing for any other server.
    fn end_server(&self, state: &mut ProgressState, server: Uuid, end: TaskEnd, ended_at: Instant) {
        if let Some((task, sent_at)) = state.building.remove(&server) {
            state.counts.building -= 1;
            let is_settled = !matches!(end, TaskEnd::Lost(_));
            self.set_end(
                state,
                task,
                end,
                ended_at.saturating_duration_since(sent_at),
            );
            if is_settled {
                state.last_end = state.last_end.max(Some(ended_at));
            }
        }
    }

    /// Records how a task ended, and returns its permit to build.
    fn set_end(&self, state: &mut ProgressState, task: usize, end: TaskEnd, latency: Duration) {
        match &end {
            TaskEnd::Active => state.counts.active += 1,
            TaskEnd::Refused(_) => state.counts.refused += 1,
            TaskEnd::Lost(_) => state.counts.lost += 1,
        }
        let task_state = &mut state.task_states[task];
        task_state.end = Some(end);
        task_state.latency = latency;
        self.build_permits.add_permits(1);
        self.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_may_end_before_the_request_is_answered() {
        let task_progress = TaskProgress::new(2, 2);
        let (own_server, other_server) = (Uuid::from_u128(1), Uuid::from_u128(9));
        let sent_at = Instant::now();
        let ended_at = sent_at + Duration::from_millis(5);
        task_progress.set_ended(own_server, TaskEnd::Active, ended_at);
        task_progress.set_ended(other_server, TaskEnd::Active, ended_at);
        assert_eq!(task_progress.counts().active, 0);
        task_progress.accept(0, own_server, sent_at);
        assert_eq!(
            (
                task_progress.counts().active,
                task_progress.counts().building
            ),
            (1, 0)
        );
        assert_eq!(
            task_progress.task_state(0).latency,
            Duration::from_millis(5)
        );
        task_progress.set_not_accepted(1, TaskEnd::Refused("no".to_owned()));
        assert_eq!(task_progress.counts().ended(), 2);
        assert_eq!(
            task_progress.build_permits.available_permits(),
            4,
            "each end adds a permit"
        );
    }
}
