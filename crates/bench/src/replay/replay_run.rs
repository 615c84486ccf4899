//! A run against an installation: it requests servers in order, observes how their builds end, and
//! deletes them at their times.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::api::{Api, CallError};
use super::servers::{self, ServerFilter, ServerView};
use super::task_progress::{TaskEnd, TaskProgress};

/// A server to request.
#[derive(Debug, Clone)]
pub(crate) struct ServerPlan {
    pub(crate) name: String,
    /// The id of the server's flavor.
    pub(crate) flavor: Arc<str>,
    /// The time of the request, since the start of the run.
    pub(crate) create_at: Duration,
    /// The time of the deletion, since the start of the run; `None` if the server is not deleted.
    pub(crate) delete_at: Option<Duration>,
}

/// The limits of concurrency and of waiting of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunLimits {
    /// The maximum number of concurrent requests.
    pub(crate) connections: usize,
    /// The longest time without progress, after which the builds under way are given up.
    pub(crate) patience: Duration,
}

/// The shortest interval between the starts of two listings.
const LISTING_INTERVAL: Duration = Duration::from_millis(100);
/// The pause after a listing while servers are still being requested, in multiples of the listing's duration, so that
/// listings are a small part of the installation's load.
const PAUSE_FACTOR: u32 = 4;
/// The pause after a listing once all servers were requested, in multiples of the listing's duration. A build counts as
/// ended when a listing has its server, so a long pause would make the last builds seem to take longer than they do.
const LAST_PAUSE_FACTOR: u32 = 1;
/// The time by which a listing overlaps the one before, because the clocks of cells differ and the API's
/// times are in seconds.
const LISTING_OVERLAP: SignedDuration = SignedDuration::from_secs(2);
/// A server that was in no listing for this time after its request is looked up by its id.
const UNLISTED_AFTER: Duration = Duration::from_secs(10);
/// The maximum number of servers that are looked up by their ids between two listings.
const LOOKUPS_MAX: usize = 20;

/// A run of a replay.
pub(crate) struct ReplayRun {
    pub(crate) api: Arc<Api>,
    pub(crate) plans: Arc<[ServerPlan]>,
    pub(crate) task_progress: Arc<TaskProgress>,
    pub(crate) limits: RunLimits,
    /// Becomes true when the user stops the run.
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) start: Instant,
}

impl ReplayRun {
    /// Runs until all servers were requested, their builds ended, and those to delete were deleted.
    pub(crate) async fn run(self: &Arc<Self>) {
        let next_index = Arc::new(AtomicUsize::new(0));
        let mut creators = JoinSet::new();
        for _ in 0..self.limits.connections {
            creators.spawn(Arc::clone(self).create(Arc::clone(&next_index)));
        }
        let (all_requested_sender, all_requested) = watch::channel(false);
        let watcher = tokio::spawn(Arc::clone(self).watch_servers(all_requested));
        let deleter = tokio::spawn(Arc::clone(self).delete_all());
        creators.join_all().await;
        // An error means that the watcher has panicked.
        let _ = all_requested_sender.send(true);
        // A panic in the watcher or the deleter is a bug of this program; the results of the run are still shown.
        let _ = watcher.await;
        let _ = deleter.await;
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Sleeps until a time since the start of the run; false when the user stopped the run.
    async fn sleep_until(&self, time: Duration) -> bool {
        let mut stop = self.stop.clone();
        tokio::select! {
            () = tokio::time::sleep_until((self.start + time).into()) => !self.is_stopped(),
            _ = stop.wait_for(|stopped| *stopped) => false,
        }
    }

    /// Requests one server after another.
    async fn create(self: Arc<Self>, next_index: Arc<AtomicUsize>) {
        let mut stop = self.stop.clone();
        loop {
            let task = next_index.fetch_add(1, Ordering::Relaxed);
            let Some(plan) = self.plans.get(task) else {
                return;
            };
            if !self.sleep_until(plan.create_at).await {
                return;
            }
            let permit = tokio::select! {
                permit = self.task_progress.build_permits.acquire() => permit,
                _ = stop.wait_for(|stopped| *stopped) => return,
            };
            // The permit is returned by `TaskProgress` when the server's build has ended.
            if let Ok(permit) = permit {
                permit.forget();
            }
            let sent_at = Instant::now();
            match servers::create(&self.api, &plan.name, &plan.flavor).await {
                Ok(server) => self.task_progress.accept(task, server, sent_at),
                Err(error) => self
                    .task_progress
                    .set_not_accepted(task, not_accepted(&error)),
            }
        }
    }

    /// Lists the servers repeatedly until all builds have ended or were given up.
    async fn watch_servers(self: Arc<Self>, all_requested: watch::Receiver<bool>) {
        let mut since = None;
        let mut last_counts = self.task_progress.counts();
        let mut last_progress = Instant::now();
        loop {
            let listing_start = Instant::now();
            // This is read before the listing. Once it is true, the counts include all servers. So if none of them is
            // being built after the listing, all builds have ended.
            let is_all_requested = *all_requested.borrow();
            match self.list_ended_servers(since).await {
                Ok(date) => since = date.map(|date| date - LISTING_OVERLAP).or(since),
                Err(error) => tracing::debug!("a look at the servers failed: {error}"),
            }
            let counts = self.task_progress.counts();
            if is_all_requested && counts.building == 0 {
                return;
            }
            if counts != last_counts || counts.building == 0 {
                (last_counts, last_progress) = (counts, Instant::now());
            }
            if last_progress.elapsed() > self.limits.patience
                || (self.is_stopped() && is_all_requested)
            {
                let seconds = self.limits.patience.as_secs();
                let reason = if self.is_stopped() {
                    "the replay was stopped while it was being built".to_owned()
                } else {
                    format!("still being built after {seconds} s in which nothing ended")
                };
                self.task_progress.give_up(&reason);
            }
            let is_requesting = !*all_requested.borrow();
            let factor = if is_requesting {
                PAUSE_FACTOR
            } else {
                LAST_PAUSE_FACTOR
            };
            let pause = listing_start.elapsed() * factor;
            let next_listing = (listing_start + LISTING_INTERVAL).max(Instant::now() + pause);
            tokio::time::sleep_until(next_listing.into()).await;
        }
    }

    /// Records the servers whose builds have ended since a time. Returns the time of the listing by the API server's
    /// clock; `None` if no server is being built, so that nothing was listed, or if the response has no date.
    async fn list_ended_servers(
        &self,
        since: Option<Timestamp>,
    ) -> Result<Option<Timestamp>, CallError> {
        let filter = |status, is_detailed| ServerFilter {
            is_detailed,
            status: Some(status),
            changed_since: since,
        };
        if self.task_progress.counts().building == 0 {
            return Ok(None);
        }
        let set_ended = |server: ServerView, end: Option<TaskEnd>| {
            if let Some(end) = end {
                self.task_progress.set_ended(server.id, end, Instant::now());
            }
        };
        let record_active = |server| set_ended(server, Some(TaskEnd::Active));
        let is_detailed = false;
        let date = servers::list(&self.api, filter("ACTIVE", is_detailed), record_active).await?;
        let record_failed = |server: ServerView| {
            let end = server.end();
            set_ended(server, end);
        };
        // Only a detailed listing has the fault.
        let is_detailed = true;
        servers::list(&self.api, filter("ERROR", is_detailed), record_failed).await?;
        if let Some(requested_before) = Instant::now().checked_sub(UNLISTED_AFTER) {
            for server in self
                .task_progress
                .unfinished_requested_before(requested_before, LOOKUPS_MAX)
            {
                self.show_server(server).await?;
            }
        }
        Ok(date)
    }

    /// Looks up one server that no listing contained.
    async fn show_server(&self, server: Uuid) -> Result<(), CallError> {
        let end = match servers::show(&self.api, server).await {
            Ok(view) => view.end(),
            Err(error) if error.is_not_found() => {
                Some(TaskEnd::Lost("accepted, and not there any more".to_owned()))
            }
            Err(error) => return Err(error),
        };
        if let Some(end) = end {
            self.task_progress.set_ended(server, end, Instant::now());
        }
        Ok(())
    }

    /// Deletes servers at their times, but not before their builds have ended.
    async fn delete_all(self: Arc<Self>) {
        let connections = Arc::new(Semaphore::new(self.limits.connections));
        let mut deletions = JoinSet::new();
        for task in 0..self.plans.len() {
            if self.plans[task].delete_at.is_some() {
                let connections = Arc::clone(&connections);
                deletions.spawn(Arc::clone(&self).delete_at_its_time(task, connections));
            }
        }
        deletions.join_all().await;
    }

    async fn delete_at_its_time(self: Arc<Self>, task: usize, connections: Arc<Semaphore>) {
        let Some(time) = self.plans[task].delete_at else {
            return;
        };
        if !self.sleep_until(time).await {
            return;
        }
        let server = loop {
            let ended = self.task_progress.ended.notified();
            let task_state = self.task_progress.task_state(task);
            if task_state.end.is_some() {
                break task_state.server;
            }
            if self.is_stopped() {
                return;
            }
            // The wait has a time-out, so that it ends soon after the user has stopped the run.
            let _ = tokio::time::timeout(LISTING_INTERVAL, ended).await;
        };
        let (Some(server), Ok(_connection)) = (server, connections.acquire().await) else {
            return;
        };
        match servers::delete(&self.api, server).await {
            Ok(()) => self.task_progress.set_deleted(task),
            Err(error) => tracing::warn!("{}: not deleted: {error}", self.plans[task].name),
        }
    }
}

/// The end of a task whose request was not accepted.
fn not_accepted(error: &CallError) -> TaskEnd {
    match error {
        CallError::Refused { status, reason } if status.is_client_error() => {
            TaskEnd::Refused(format!("status {}: {reason}", status.as_u16()))
        }
        _ => TaskEnd::Lost(error.to_string()),
    }
}
