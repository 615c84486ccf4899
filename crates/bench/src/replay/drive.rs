//! Drives an installation: requests servers in their order, watches how they end, deletes them in
//! time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::api::{Api, CallError};
use super::progress_table::{TaskEnd, TaskProgress};
use super::servers::{self, Listed, Wanted};

/// A server to request.
#[derive(Debug, Clone)]
pub(crate) struct ServerPlan {
    pub(crate) name: String,
    /// The id of its flavor.
    pub(crate) flavor: Arc<str>,
    /// When to request it, counted from the start.
    pub(crate) create_at: Duration,
    /// When to delete it, if ever.
    pub(crate) delete_at: Option<Duration>,
}

/// The concurrency and the patience of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PaceOptions {
    /// The most concurrent requests for servers.
    pub(crate) connections: usize,
    /// How long to wait without any progress.
    pub(crate) patience: Duration,
}

/// The shortest interval between the starts of two listings.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// The pause after a listing, in multiples of its duration: listings must not keep the installation
/// busy.
const PAUSE_FACTOR: u32 = 4;
/// How far one listing overlaps the one before, because the cells' clocks differ and times are in
/// seconds.
const LOOK_BACK: SignedDuration = SignedDuration::from_secs(2);
/// A server that no listing showed for this long is requested by its id.
const LATE: Duration = Duration::from_secs(10);
/// The most such requests between two listings.
const LATE_AT_A_TIME: usize = 20;

/// A run of a replay.
pub(crate) struct ReplayRun {
    pub(crate) api: Arc<Api>,
    pub(crate) works: Arc<[ServerPlan]>,
    pub(crate) board: Arc<TaskProgress>,
    pub(crate) pace: PaceOptions,
    /// Becomes true when the user stops the run.
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) start: Instant,
}

impl ReplayRun {
    /// Runs to the end: all servers requested, ended, and deleted if wanted.
    pub(crate) async fn run(self: &Arc<Self>) {
        let next = Arc::new(AtomicUsize::new(0));
        let mut creators = JoinSet::new();
        for _ in 0..self.pace.connections {
            creators.spawn(Arc::clone(self).create(Arc::clone(&next)));
        }
        let (all_asked, asked) = watch::channel(false);
        let watcher = tokio::spawn(Arc::clone(self).look(asked));
        let deleter = tokio::spawn(Arc::clone(self).delete());
        creators.join_all().await;
        // There is no receiver any more when watching was given up.
        let _ = all_asked.send(true);
        // A panic of a task is a bug of this program; the results of the others are still shown.
        let _ = watcher.await;
        let _ = deleter.await;
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Sleeps until a time of the run; false when the user stopped it.
    async fn sleep_until(&self, at: Duration) -> bool {
        let mut stop = self.stop.clone();
        tokio::select! {
            () = tokio::time::sleep_until((self.start + at).into()) => !self.is_stopped(),
            _ = stop.wait_for(|stopped| *stopped) => false,
        }
    }

    /// Requests one server after another.
    async fn create(self: Arc<Self>, next: Arc<AtomicUsize>) {
        let mut stop = self.stop.clone();
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            let Some(work) = self.works.get(task) else {
                return;
            };
            if !self.sleep_until(work.create_at).await {
                return;
            }
            let room = tokio::select! {
                room = self.board.room.acquire() => room,
                _ = stop.wait_for(|stopped| *stopped) => return,
            };
            // The permit is returned when the server has ended.
            if let Ok(room) = room {
                room.forget();
            }
            let sent = Instant::now();
            match servers::create(&self.api, &work.name, &work.flavor).await {
                Ok(server) => self.board.accept(task, server, sent),
                Err(error) => self.board.turn_away(task, not_accepted(&error)),
            }
        }
    }

    /// Lists the servers repeatedly until all have ended.
    async fn look(self: Arc<Self>, asked: watch::Receiver<bool>) {
        let mut since = None;
        let mut last_counts = self.board.counts();
        let mut last_progress = Instant::now();
        loop {
            let began = Instant::now();
            // Whatever was requested before this listing appears in it, ended or still being built.
            let all_asked = *asked.borrow();
            match self.look_once(since).await {
                Ok(date) => since = date.map(|date| date - LOOK_BACK).or(since),
                Err(error) => tracing::debug!("a look at the servers failed: {error}"),
            }
            let counts = self.board.counts();
            if all_asked && counts.building == 0 {
                return;
            }
            if counts != last_counts || counts.building == 0 {
                (last_counts, last_progress) = (counts, Instant::now());
            }
            if last_progress.elapsed() > self.pace.patience || (self.is_stopped() && all_asked) {
                let seconds = self.pace.patience.as_secs();
                let reason = if self.is_stopped() {
                    "the replay was stopped while it was being built".to_owned()
                } else {
                    format!("still being built after {seconds} s in which nothing ended")
                };
                self.board.give_up(&reason);
            }
            let pause = began.elapsed() * PAUSE_FACTOR;
            let next = (began + LOOK_INTERVAL).max(Instant::now() + pause);
            tokio::time::sleep_until(next.into()).await;
        }
    }

    async fn look_once(&self, since: Option<Timestamp>) -> Result<Option<Timestamp>, CallError> {
        let wanted = |status, detail| Wanted {
            detail,
            status: Some(status),
            changed_since: since,
        };
        if self.board.counts().building == 0 {
            return Ok(None);
        }
        let see = |server: Listed, end: Option<TaskEnd>| {
            if let Some(end) = end {
                self.board.see(server.id, end, Instant::now());
            }
        };
        let active = |server| see(server, Some(TaskEnd::Active));
        let date = servers::list(&self.api, wanted("ACTIVE", false), active).await?;
        let failed = |server: Listed| {
            let end = server.end();
            see(server, end);
        };
        servers::list(&self.api, wanted("ERROR", true), failed).await?;
        if let Some(before) = Instant::now().checked_sub(LATE) {
            for server in self.board.building_since(before, LATE_AT_A_TIME) {
                self.look_at(server).await?;
            }
        }
        Ok(date)
    }

    /// Shows one server that no listing contained.
    async fn look_at(&self, server: Uuid) -> Result<(), CallError> {
        let end = match servers::show(&self.api, server).await {
            Ok(shown) => shown.end(),
            Err(error) if error.is_not_found() => {
                Some(TaskEnd::Lost("accepted, and not there any more".to_owned()))
            }
            Err(error) => return Err(error),
        };
        if let Some(end) = end {
            self.board.see(server, end, Instant::now());
        }
        Ok(())
    }

    /// Deletes servers at their time, once they have ended.
    async fn delete(self: Arc<Self>) {
        let connections = Arc::new(Semaphore::new(self.pace.connections));
        let mut deletions = JoinSet::new();
        for task in 0..self.works.len() {
            if self.works[task].delete_at.is_some() {
                let connections = Arc::clone(&connections);
                deletions.spawn(Arc::clone(&self).delete_in_time(task, connections));
            }
        }
        deletions.join_all().await;
    }

    async fn delete_in_time(self: Arc<Self>, task: usize, connections: Arc<Semaphore>) {
        let Some(at) = self.works[task].delete_at else {
            return;
        };
        if !self.sleep_until(at).await {
            return;
        }
        let server = loop {
            let ended = self.board.ended.notified();
            let entry = self.board.entry(task);
            if entry.end.is_some() {
                break entry.server;
            }
            if self.is_stopped() {
                return;
            }
            // With a time-out, because an end between the check and the wait would be missed.
            let _ = tokio::time::timeout(LOOK_INTERVAL, ended).await;
        };
        let (Some(server), Ok(_connection)) = (server, connections.acquire().await) else {
            return;
        };
        match servers::delete(&self.api, server).await {
            Ok(()) => self.board.set_deleted(task),
            Err(error) => tracing::warn!("{}: not deleted: {error}", self.works[task].name),
        }
    }
}

/// How a task ended whose request was not accepted.
fn not_accepted(error: &CallError) -> TaskEnd {
    match error {
        CallError::Refused { status, reason } if status.is_client_error() => {
            TaskEnd::Refused(format!("status {}: {reason}", status.as_u16()))
        }
        _ => TaskEnd::Lost(error.to_string()),
    }
}
