//! The task that manages all hosts of an agent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::{AbortHandle, FutureExt as _, abortable};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use placewright_conductor::HostId;
use placewright_link::{AgentLink, ToAgent, ToCell};
use placewright_tasks::{ContainedWork, contain_panic};
use placewright_types::host_state::SERVICE_VERSION;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::connection::{connect, receive, wait_for_capacity};
use super::inventory::HostsNews;
use super::work::WorkContext;
use super::{Options, Readiness, check_hosts};
use crate::description::HostDescription;
use crate::driver::{Driver, DriverError};
use crate::guest_log::GuestLog;
use crate::host::{Action, Host, Outcome, PhysicalCapacity, WorkResult};

/// The result of a piece of work, and the host that it was done on.
type HostWorkResult = (HostId, WorkResult);

/// After one received message, or one piece of work that has ended, at most this many more of them are handled before
/// anything is sent.
const BATCH_MAX: usize = 256;
/// While at least this many messages wait to be sent to the cell, no heartbeats and no changed soft state are added to
/// them.
const OUTBOX_STATE_MAX: usize = 4096;
/// While at least this many messages wait to be sent, nothing more is received from the cell.
const OUTBOX_MAX: usize = 1 << 20;
/// The maximum number of hosts in one heartbeat message.
const HEARTBEAT_HOSTS: usize = 10_000;
/// The first delay before another attempt to connect to the cell; it is doubled each time.
const RECONNECT_MIN: Duration = Duration::from_millis(100);

/// The state of the task that manages all hosts of an agent.
pub(super) struct Runner {
    options: Options,
    driver: Arc<dyn Driver>,
    guest_log: GuestLog,
    hosts: BTreeMap<HostId, HostEntry>,
    to_placement: mpsc::UnboundedSender<Arc<HostDescription>>,
    readiness: Arc<watch::Sender<Readiness>>,
    running_work: FuturesUnordered<Pin<Box<dyn Future<Output = HostWorkResult> + Send>>>,
    /// Handles that cancel work under way, by host and number of the work.
    cancels: BTreeMap<(HostId, u64), AbortHandle>,
    /// The messages that wait to be sent to the cell.
    outbox: VecDeque<ToCell>,
    /// The hosts with soft state that was not sent to the cell yet.
    changed_hosts: BTreeSet<HostId>,
    started_at: Instant,
}

/// A host, its latest description, and the permits for its concurrent builds.
struct HostEntry {
    host: Host,
    name: Arc<str>,
    description: Arc<HostDescription>,
    build_permits: Arc<Semaphore>,
}

impl Runner {
    pub(super) fn new(
        options: Options,
        driver: Arc<dyn Driver>,
        guest_log: GuestLog,
        hosts: BTreeMap<HostId, Arc<HostDescription>>,
        to_placement: mpsc::UnboundedSender<Arc<HostDescription>>,
        readiness: Arc<watch::Sender<Readiness>>,
    ) -> Self {
        let mut runner = Self {
            options,
            driver,
            guest_log,
            hosts: BTreeMap::new(),
            to_placement,
            readiness,
            running_work: FuturesUnordered::new(),
            cancels: BTreeMap::new(),
            outbox: VecDeque::new(),
            changed_hosts: BTreeSet::new(),
            started_at: Instant::now(),
        };
        for (id, description) in hosts {
            runner.add_host(id, description);
        }
        runner
    }

    /// Begins to manage a host, with its guests from the guest log, and has it written to placement.
    fn add_host(&mut self, id: HostId, description: Arc<HostDescription>) {
        let guests = self.guest_log.guests_of(id);
        let guests = guests.map(|(key, guest)| (key, guest.clone()));
        let entry = HostEntry {
            host: Host::new(id, guests, PhysicalCapacity::new(&description)),
            name: description.name.as_str().into(),
            description: Arc::clone(&description),
            build_permits: Arc::new(Semaphore::new(self.options.builds_max.max(1))),
        };
        self.hosts.insert(id, entry);
        // There is no receiver if the agent does not write to placement.
        let _ = self.to_placement.send(description);
    }

    /// Runs until the agent is stopped. `news` comes from the task that asks the driver for its hosts and from the task
    /// that writes them to placement. Without these tasks the channel is closed, and the runner goes on without it.
    pub(super) async fn run(
        mut self,
        link: Arc<dyn AgentLink>,
        mut stopped: watch::Receiver<bool>,
        mut news: mpsc::Receiver<HostsNews>,
    ) {
        let mut to_cell: Option<mpsc::Sender<ToCell>> = None;
        let mut from_cell: Option<mpsc::Receiver<ToAgent>> = None;
        let mut backoff = RECONNECT_MIN;
        let mut connecting = connect(&link, Duration::ZERO);
        // `interval` panics on 0.
        let mut heartbeat = interval(
            self.options
                .heartbeat_interval
                .max(Duration::from_millis(10)),
        );
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut update_interval = interval(self.options.gather_time.max(Duration::from_millis(1)));
        update_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut drain_deadline: Option<Instant> = None;
        let mut has_news = true;
        loop {
            if drain_deadline.is_some() && self.running_work.is_empty() && self.outbox.is_empty() {
                return;
            }
            let is_connection_full = self.send(to_cell.as_ref());
            tokio::select! {
                connected = &mut connecting, if to_cell.is_none() => match connected {
                    Ok(connection) => {
                        backoff = RECONNECT_MIN;
                        self.begin_sessions();
                        to_cell = Some(connection.to_cell);
                        from_cell = Some(connection.from_cell);
                    }
                    Err(error) => {
                        tracing::warn!(%error, wait = ?backoff, "the cell is tried again");
                        connecting = connect(&link, backoff);
                        backoff = (backoff * 2).min(self.options.reconnect_delay_max);
                    }
                },
                // Orders are not received while the cell does not receive the responses.
                first = receive(&mut from_cell),
                    if drain_deadline.is_none() && self.outbox.len() < OUTBOX_MAX => match first {
                    Some(first) => self.handle_messages(first, &mut from_cell),
                    None => {
                        tracing::warn!("the connection to the cell ended");
                        (to_cell, from_cell) = (None, None);
                        self.outbox.clear();
                        connecting = connect(&link, backoff);
                    }
                },
                Some(ended) = self.running_work.next(), if !self.running_work.is_empty() => {
                    self.handle_ended_work(ended);
                }
                () = wait_for_capacity(to_cell.as_ref()), if is_connection_full => {}
                _ = update_interval.tick(), if !self.changed_hosts.is_empty() => self.queue_updates(),
                _ = heartbeat.tick() => self.queue_heartbeats(to_cell.is_some()),
                received = news.recv(), if has_news => match received {
                    Some(news) => self.handle_news(news, to_cell.is_some()),
                    None => has_news = false,
                },
                stop = stopped.changed(), if drain_deadline.is_none() => {
                    // An error means that the `Agent` was dropped, which stops its runner too.
                    drop(stop);
                    drain_deadline = Some(Instant::now() + self.options.drain_timeout);
                }
                () = sleep_until(drain_deadline.unwrap_or_else(Instant::now)), if drain_deadline.is_some() => return,
            }
        }
    }

    /// Writes the guest log, then sends messages while the connection has capacity. Returns whether the
    /// connection is full, so that messages are left in the outbox.
    fn send(&mut self, to_cell: Option<&mpsc::Sender<ToCell>>) -> bool {
        if let Err(error) = self.guest_log.write() {
            // No message is sent before the changes of guests that it reports are in the guest log. The write is
            // retried with the next event.
            tracing::error!(%error, "the guest log cannot be written, so no messages are sent");
            return false;
        }
        let Some(to_cell) = to_cell else {
            return false;
        };
        while let Some(message) = self.outbox.pop_front() {
            match to_cell.try_send(message) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(message)) => {
                    self.outbox.push_front(message);
                    return true;
                }
                // The connection has ended; receiving from the cell reports that.
                Err(mpsc::error::TrySendError::Closed(_)) => self.outbox.clear(),
            }
        }
        false
    }

    /// Begins a session of every host, on a new connection.
    fn begin_sessions(&mut self) {
        self.outbox.clear();
        let ids: Vec<HostId> = self.hosts.keys().copied().collect();
        tracing::info!(hosts = ids.len(), "connected to the cell");
        for id in ids {
            self.begin_session(id, 0);
        }
        self.readiness
            .send_modify(|readiness| readiness.has_sessions = true);
    }

    /// Begins a session of a host, with a number greater than `after` and than that of its present session. `after` is
    /// the greatest number that the cell named, or 0 if it named none.
    fn begin_session(&mut self, id: HostId, after: u64) {
        let Some(entry) = self.hosts.get_mut(&id) else {
            return;
        };
        let after = after.max(entry.host.session());
        let Some(session) = self.guest_log.next_session(now_us(), after) else {
            tracing::error!(host = %entry.name, after, "no greater session number is left: the host keeps its session");
            return;
        };
        let start = entry.host.begin_session(session, &entry.name);
        self.outbox.push_back(ToCell::Started(Box::new(start)));
        self.queue_host_updates(id);
    }

    /// Handles a message, and up to [`BATCH_MAX`] that have arrived after it.
    fn handle_messages(&mut self, first: ToAgent, from_cell: &mut Option<mpsc::Receiver<ToAgent>>) {
        self.handle_message(first);
        let Some(from_cell) = from_cell else { return };
        for _ in 0..BATCH_MAX {
            let Ok(message) = from_cell.try_recv() else {
                return;
            };
            self.handle_message(message);
        }
    }

    fn handle_message(&mut self, message: ToAgent) {
        let now_ms = self.now_ms();
        let mut actions = Vec::new();
        let host = match message {
            ToAgent::Step {
                host,
                session,
                order,
            } => {
                if let Some(entry) = self.hosts.get_mut(&host) {
                    entry.host.handle_order(session, *order, &mut actions);
                }
                host
            }
            ToAgent::Destroy {
                host,
                session,
                instance,
                number,
            } => {
                if let Some(entry) = self.hosts.get_mut(&host) {
                    let key = (instance, number);
                    entry
                        .host
                        .handle_destroy(session, key, now_ms, &mut actions);
                }
                host
            }
            ToAgent::SendState { host } => {
                if let Some(entry) = self.hosts.get_mut(&host) {
                    entry.host.request_full_report();
                }
                host
            }
            ToAgent::StartAgain { host, after } => {
                let session = self.hosts.get(&host).map(|entry| entry.host.session());
                if session.is_some_and(|session| session <= after) {
                    self.begin_session(host, after);
                }
                host
            }
        };
        self.carry_out(host, actions);
    }

    /// Handles the end of a piece of work, and of up to [`BATCH_MAX`] more that have ended already.
    fn handle_ended_work(&mut self, (host, result): HostWorkResult) {
        self.end_work(host, result);
        for _ in 0..BATCH_MAX {
            let Some(Some((host, result))) = self.running_work.next().now_or_never() else {
                break;
            };
            self.end_work(host, result);
        }
    }

    fn end_work(&mut self, host: HostId, result: WorkResult) {
        self.cancels.remove(&(host, result.number));
        let now_ms = self.now_ms();
        let mut actions = Vec::new();
        if let Some(entry) = self.hosts.get_mut(&host) {
            entry.host.end_work(result, now_ms, &mut actions);
            entry.host.forget_destroyed(now_ms);
        }
        self.carry_out(host, actions);
    }

    /// Carries out the actions of a host's state machine.
    fn carry_out(&mut self, id: HostId, actions: Vec<Action>) {
        let Some(entry) = self.hosts.get(&id) else {
            return;
        };
        if entry.host.has_updates() {
            self.changed_hosts.insert(id);
        }
        for action in actions {
            match action {
                Action::Work(work) => {
                    let context = WorkContext {
                        driver: Arc::clone(&self.driver),
                        host: id,
                        host_name: Arc::clone(&entry.name),
                        build_permits: Arc::clone(&entry.build_permits),
                        prepare_timeout: self.options.prepare_timeout,
                    };
                    let (number, guest) = (work.number, work.guest);
                    let running = contain_panic(ContainedWork::DriverWork, context.carry_out(work));
                    let (running, cancel) = abortable(running);
                    self.cancels.insert((id, number), cancel);
                    self.running_work.push(Box::pin(async move {
                        let result = WorkResult {
                            number,
                            guest,
                            outcome: match running.await {
                                Ok(Ok(outcome)) => outcome,
                                Ok(Err(panicked)) => Outcome::Failed {
                                    error: DriverError::retriable(panicked.to_string()),
                                    was_undone: false,
                                },
                                Err(_) => Outcome::Cancelled,
                            },
                        };
                        (id, result)
                    }));
                }
                Action::Cancel(number) => {
                    if let Some(cancel) = self.cancels.get(&(id, number)) {
                        cancel.abort();
                    }
                }
                Action::StepEnded {
                    instance,
                    session,
                    attempt,
                    failure,
                } => self.outbox.push_back(ToCell::StepEnded {
                    host: id,
                    instance,
                    session,
                    attempt,
                    failure,
                }),
                Action::Destroyed { instance, number } => {
                    self.outbox.push_back(ToCell::Destroyed {
                        host: id,
                        instance,
                        number,
                    });
                }
                Action::LogGuest(key) => {
                    if let Some(guest) = entry.host.guest(key) {
                        self.guest_log.put(id, key, guest);
                    }
                }
                Action::EraseGuest(key) => self.guest_log.erase(id, key),
            }
        }
    }

    /// Queues the soft state of changed hosts, unless too many messages are waiting.
    fn queue_updates(&mut self) {
        for id in std::mem::take(&mut self.changed_hosts) {
            if self.outbox.len() >= OUTBOX_STATE_MAX {
                self.changed_hosts.insert(id);
            } else {
                self.queue_host_updates(id);
            }
        }
    }

    fn queue_host_updates(&mut self, id: HostId) {
        let Some(entry) = self.hosts.get_mut(&id) else {
            return;
        };
        let service = self.options.service_host.as_deref();
        let service = service.unwrap_or(&entry.name);
        for update in entry.host.take_updates(&entry.description, service) {
            self.outbox.push_back(ToCell::State {
                host: id,
                update: Box::new(update),
            });
        }
        self.changed_hosts.remove(&id);
    }

    fn queue_heartbeats(&mut self, is_connected: bool) {
        if !is_connected || self.outbox.len() >= OUTBOX_STATE_MAX {
            return;
        }
        let ids: Vec<HostId> = self.hosts.keys().copied().collect();
        for hosts in ids.chunks(HEARTBEAT_HOSTS) {
            let hosts = hosts.to_vec();
            self.outbox.push_back(ToCell::Alive { hosts });
        }
    }

    fn handle_news(&mut self, news: HostsNews, is_connected: bool) {
        match news {
            HostsNews::Described(hosts) => self.update_descriptions(hosts, is_connected),
            HostsNews::Written(hosts) => self.report_version(&hosts),
        }
    }

    /// Records that placement has these hosts. From now on they report to the cell the version of this release's
    /// compute service.
    fn report_version(&mut self, hosts: &[HostId]) {
        for id in hosts {
            let Some(entry) = self.hosts.get_mut(id) else {
                continue;
            };
            entry.host.set_service_version(SERVICE_VERSION);
            if entry.host.has_updates() {
                self.changed_hosts.insert(*id);
            }
        }
    }

    /// Applies the driver's new descriptions of its hosts. Hosts that it does not describe any more are kept.
    fn update_descriptions(&mut self, hosts: Vec<HostDescription>, is_connected: bool) {
        let hosts = match check_hosts(hosts) {
            Ok(hosts) => hosts,
            Err(error) => {
                tracing::warn!(%error, "what the driver says of its hosts is ignored");
                return;
            }
        };
        for (id, description) in hosts {
            let Some(entry) = self.hosts.get_mut(&id) else {
                tracing::info!(host = %description.name, "the driver describes a new host");
                self.add_host(id, description);
                if is_connected {
                    self.begin_session(id, 0);
                }
                continue;
            };
            if entry.description == description {
                continue;
            }
            entry.host.set_capacity(PhysicalCapacity::new(&description));
            entry.host.request_full_report();
            entry.name = description.name.as_str().into();
            entry.description = Arc::clone(&description);
            self.changed_hosts.insert(id);
            let _ = self.to_placement.send(description);
        }
    }

    /// Milliseconds since the agent started.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The present time in microseconds since 1970.
fn now_us() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| u64::try_from(elapsed.as_micros()).unwrap_or(0))
}
