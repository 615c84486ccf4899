//! The task that manages all hosts of an agent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::{AbortHandle, FutureExt as _, abortable};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use placewright_conductor::HostId;
use placewright_link::{AgentConnection, AgentLink, LinkError, ToAgent, ToCell};
use placewright_tasks::{ContainedWork, contain_panic};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::work::WorkContext;
use super::{Options, Ready, checked};
use crate::description::HostDescription;
use crate::driver::{Driver, DriverError};
use crate::host::{Action, Host, Outcome, PhysicalCapacity, WorkResult};
use crate::record::GuestLog;

/// Work of a host that has ended.
type HostWorkResult = (HostId, WorkResult);
/// An attempt to connect to the cell.
type Connecting = Pin<Box<dyn Future<Output = Result<AgentConnection, LinkError>> + Send>>;

/// The most messages and ended pieces of work that are handled before anything is sent.
const AT_ONCE: usize = 256;
/// No soft state is added while so many messages wait to be sent to the cell.
const WAITING_MAX: usize = 4096;
/// Nothing more is received from the cell while so many messages wait to be sent.
const ANSWERS_WAITING_MAX: usize = 1 << 20;
/// The most hosts of one heartbeat message.
const HEARTBEAT_HOSTS: usize = 10_000;
/// The first wait before another attempt to connect to the cell; it is doubled each time.
const RECONNECT_MIN: Duration = Duration::from_millis(100);

pub(super) struct Runner {
    options: Options,
    driver: Arc<dyn Driver>,
    record: GuestLog,
    hosts: BTreeMap<HostId, HostEntry>,
    to_placement: mpsc::UnboundedSender<Arc<HostDescription>>,
    ready: Arc<watch::Sender<Ready>>,
    working: FuturesUnordered<Pin<Box<dyn Future<Output = HostWorkResult> + Send>>>,
    /// Handles that cancel work under way, by host and number of the work.
    cancels: BTreeMap<(HostId, u64), AbortHandle>,
    outbox: VecDeque<ToCell>,
    /// The hosts with changes that were not sent to the cell yet.
    news: BTreeSet<HostId>,
    since: Instant,
}

/// A host, its latest description, and the permits for its concurrent builds.
struct HostEntry {
    host: Host,
    name: Arc<str>,
    description: Arc<HostDescription>,
    builds: Arc<Semaphore>,
}

impl Runner {
    pub(super) fn new(
        options: Options,
        driver: Arc<dyn Driver>,
        record: GuestLog,
        hosts: BTreeMap<HostId, Arc<HostDescription>>,
        to_placement: mpsc::UnboundedSender<Arc<HostDescription>>,
        ready: Arc<watch::Sender<Ready>>,
    ) -> Self {
        let mut runner = Self {
            options,
            driver,
            record,
            hosts: BTreeMap::new(),
            to_placement,
            ready,
            working: FuturesUnordered::new(),
            cancels: BTreeMap::new(),
            outbox: VecDeque::new(),
            news: BTreeSet::new(),
            since: Instant::now(),
        };
        for (id, description) in hosts {
            runner.add(id, description);
        }
        runner
    }

    fn add(&mut self, id: HostId, description: Arc<HostDescription>) {
        let guests = self.record.guests_of(id);
        let guests = guests.map(|(key, guest)| (key, guest.clone()));
        let slot = HostEntry {
            host: Host::new(id, guests, PhysicalCapacity::of(&description)),
            name: description.name.as_str().into(),
            description: Arc::clone(&description),
            builds: Arc::new(Semaphore::new(self.options.builds_max.max(1))),
        };
        self.hosts.insert(id, slot);
        // There is no receiver if the agent does not write to placement.
        let _ = self.to_placement.send(description);
    }

    /// Runs until the agent is stopped.
    pub(super) async fn run(
        mut self,
        link: Arc<dyn AgentLink>,
        mut stopped: watch::Receiver<bool>,
        mut seen: mpsc::Receiver<Vec<HostDescription>>,
    ) {
        let mut to_cell: Option<mpsc::Sender<ToCell>> = None;
        let mut from_cell: Option<mpsc::Receiver<ToAgent>> = None;
        let mut wait = RECONNECT_MIN;
        let mut connecting = connect(&link, Duration::ZERO);
        let mut heartbeat = interval(self.options.heartbeat.max(Duration::from_millis(10)));
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut gather = interval(self.options.gather.max(Duration::from_millis(1)));
        gather.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut end_at: Option<Instant> = None;
        let mut is_inspected = !self.options.inspect.is_zero();
        loop {
            if end_at.is_some() && self.working.is_empty() && self.outbox.is_empty() {
                return;
            }
            let needs_room = self.send(to_cell.as_ref());
            tokio::select! {
                made = &mut connecting, if to_cell.is_none() => match made {
                    Ok(made) => {
                        wait = RECONNECT_MIN;
                        self.begin_sessions();
                        to_cell = Some(made.to_cell);
                        from_cell = Some(made.from_cell);
                    }
                    Err(error) => {
                        tracing::warn!(%error, ?wait, "the cell is tried again");
                        connecting = connect(&link, wait);
                        wait = (wait * 2).min(self.options.reconnect_max);
                    }
                },
                // While the cell does not take answers, its orders are not read.
                first = receive(&mut from_cell),
                    if end_at.is_none() && self.outbox.len() < ANSWERS_WAITING_MAX => match first {
                    Some(first) => self.take_all(first, &mut from_cell),
                    None => {
                        tracing::warn!("the connection to the cell ended");
                        (to_cell, from_cell) = (None, None);
                        self.outbox.clear();
                        connecting = connect(&link, wait);
                    }
                },
                Some(ended) = self.working.next(), if !self.working.is_empty() => {
                    self.take_ended(ended);
                }
                () = room(to_cell.as_ref()), if needs_room => {}
                _ = gather.tick(), if !self.news.is_empty() => self.send_updates(),
                _ = heartbeat.tick() => self.say_alive(to_cell.is_some()),
                hosts = seen.recv(), if is_inspected => match hosts {
                    Some(hosts) => self.see(hosts, to_cell.is_some()),
                    None => is_inspected = false,
                },
                stop = stopped.changed(), if end_at.is_none() => {
                    drop(stop);
                    end_at = Some(Instant::now() + self.options.drain);
                }
                () = sleep_until(end_at.unwrap_or_else(Instant::now)), if end_at.is_some() => return,
            }
        }
    }

    /// Writes the record, then sends messages while the connection has room. Returns whether there
    /// are more.
    fn send(&mut self, to_cell: Option<&mpsc::Sender<ToCell>>) -> bool {
        if let Err(error) = self.record.write() {
            // Nothing is sent that is not on record. The write is retried with the next event.
            tracing::error!(%error, "the agent cannot answer");
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
                // The connection has ended; receiving reports it too.
                Err(mpsc::error::TrySendError::Closed(_)) => self.outbox.clear(),
            }
        }
        false
    }

    fn begin_sessions(&mut self) {
        self.outbox.clear();
        let ids: Vec<HostId> = self.hosts.keys().copied().collect();
        tracing::info!(hosts = ids.len(), "connected to the cell");
        for id in ids {
            self.begin_session(id, 0);
        }
        self.ready.send_modify(|ready| ready.has_sessions = true);
    }

    fn begin_session(&mut self, id: HostId, after: u64) {
        let Some(slot) = self.hosts.get_mut(&id) else {
            return;
        };
        let after = after.max(slot.host.session());
        let Some(session) = self.record.next_session(now_us(), after) else {
            tracing::error!(host = %slot.name, after, "no session can be greater: the host goes on with the one it has");
            return;
        };
        let start = slot.host.begin_session(session, &slot.name);
        self.outbox.push_back(ToCell::Started(Box::new(start)));
        self.send_host_updates(id);
    }

    fn take_all(&mut self, first: ToAgent, from_cell: &mut Option<mpsc::Receiver<ToAgent>>) {
        self.take(first);
        let Some(from_cell) = from_cell else { return };
        for _ in 0..AT_ONCE {
            let Ok(message) = from_cell.try_recv() else {
                return;
            };
            self.take(message);
        }
    }

    fn take(&mut self, message: ToAgent) {
        let now_ms = self.now_ms();
        let mut actions = Vec::new();
        let host = match message {
            ToAgent::Step {
                host,
                session,
                order,
            } => {
                if let Some(slot) = self.hosts.get_mut(&host) {
                    slot.host.order(session, *order, &mut actions);
                }
                host
            }
            ToAgent::Destroy {
                host,
                session,
                instance,
                number,
            } => {
                if let Some(slot) = self.hosts.get_mut(&host) {
                    let key = (instance, number);
                    slot.host.destroy(session, key, now_ms, &mut actions);
                }
                host
            }
            ToAgent::SendState { host } => {
                if let Some(slot) = self.hosts.get_mut(&host) {
                    slot.host.request_full_report();
                }
                host
            }
            ToAgent::StartAgain { host, after } => {
                let session = self.hosts.get(&host).map(|slot| slot.host.session());
                if session.is_some_and(|session| session <= after) {
                    self.begin_session(host, after);
                }
                host
            }
        };
        self.act(host, actions);
    }

    fn take_ended(&mut self, (host, ending): HostWorkResult) {
        self.end_one(host, ending);
        for _ in 0..AT_ONCE {
            let Some(Some((host, ending))) = self.working.next().now_or_never() else {
                break;
            };
            self.end_one(host, ending);
        }
    }

    fn end_one(&mut self, host: HostId, ending: WorkResult) {
        self.cancels.remove(&(host, ending.number));
        let now_ms = self.now_ms();
        let mut actions = Vec::new();
        if let Some(slot) = self.hosts.get_mut(&host) {
            slot.host.ended(ending, now_ms, &mut actions);
            slot.host.forget(now_ms);
        }
        self.act(host, actions);
    }

    fn act(&mut self, id: HostId, actions: Vec<Action>) {
        let Some(slot) = self.hosts.get(&id) else {
            return;
        };
        if slot.host.has_updates() {
            self.news.insert(id);
        }
        for action in actions {
            match action {
                Action::Work(work) => {
                    let place = WorkContext {
                        driver: Arc::clone(&self.driver),
                        host: id,
                        host_name: Arc::clone(&slot.name),
                        builds: Arc::clone(&slot.builds),
                        prepare_timeout: self.options.prepare_timeout,
                    };
                    let (number, guest) = (work.number, work.guest);
                    let doing = contain_panic(ContainedWork::DriverWork, place.carry_out(work));
                    let (doing, cancel) = abortable(doing);
                    self.cancels.insert((id, number), cancel);
                    self.working.push(Box::pin(async move {
                        let ending = WorkResult {
                            number,
                            guest,
                            outcome: match doing.await {
                                Ok(Ok(outcome)) => outcome,
                                Ok(Err(panicked)) => Outcome::Failed {
                                    error: DriverError::of_host(panicked.to_string()),
                                    was_undone: false,
                                },
                                Err(_) => Outcome::Cancelled,
                            },
                        };
                        (id, ending)
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
                Action::Keep(key) => {
                    if let Some(guest) = slot.host.guest(key) {
                        self.record.keep(id, key, guest);
                    }
                }
                Action::Erase(key) => self.record.erase(id, key),
            }
        }
    }

    /// Sends the soft state of changed hosts, if the connection has room.
    fn send_updates(&mut self) {
        for id in std::mem::take(&mut self.news) {
            if self.outbox.len() >= WAITING_MAX {
                self.news.insert(id);
            } else {
                self.send_host_updates(id);
            }
        }
    }

    fn send_host_updates(&mut self, id: HostId) {
        let Some(slot) = self.hosts.get_mut(&id) else {
            return;
        };
        let service = self.options.service_host.as_deref();
        let service = service.unwrap_or(&slot.name);
        for update in slot.host.updates(&slot.description, service) {
            self.outbox.push_back(ToCell::State {
                host: id,
                update: Box::new(update),
            });
        }
        self.news.remove(&id);
    }

    fn say_alive(&mut self, is_connected: bool) {
        if !is_connected || self.outbox.len() >= WAITING_MAX {
            return;
        }
        let ids: Vec<HostId> = self.hosts.keys().copied().collect();
        for hosts in ids.chunks(HEARTBEAT_HOSTS) {
            let hosts = hosts.to_vec();
            self.outbox.push_back(ToCell::Alive { hosts });
        }
    }

    /// Handles the driver's descriptions of its hosts.
    fn see(&mut self, hosts: Vec<HostDescription>, is_connected: bool) {
        let hosts = match checked(hosts) {
            Ok(hosts) => hosts,
            Err(error) => {
                tracing::warn!(%error, "what the driver says of its hosts is ignored");
                return;
            }
        };
        for (id, description) in hosts {
            let Some(slot) = self.hosts.get_mut(&id) else {
                tracing::info!(host = %description.name, "a host came");
                self.add(id, description);
                if is_connected {
                    self.begin_session(id, 0);
                }
                continue;
            };
            if slot.description == description {
                continue;
            }
            slot.host.set_room(PhysicalCapacity::of(&description));
            slot.host.request_full_report();
            slot.description = Arc::clone(&description);
            self.news.insert(id);
            let _ = self.to_placement.send(description);
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn connect(link: &Arc<dyn AgentLink>, wait: Duration) -> Connecting {
    let link = Arc::clone(link);
    Box::pin(async move {
        sleep(wait).await;
        link.connect().await
    })
}

/// Receives the cell's next message; none if the connection has ended.
async fn receive(from_cell: &mut Option<mpsc::Receiver<ToAgent>>) -> Option<ToAgent> {
    match from_cell {
        Some(from_cell) => from_cell.recv().await,
        None => std::future::pending().await,
    }
}

/// Waits until the connection has room or has ended.
async fn room(to_cell: Option<&mpsc::Sender<ToCell>>) {
    if let Some(to_cell) = to_cell {
        // If the connection has ended, receiving reports it.
        let _ = to_cell.reserve().await;
    }
}

/// The present time in microseconds since 1970.
fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
}
