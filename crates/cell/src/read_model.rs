//! The cell's instances and hosts in the form in which followers receive them.
//!
//! Followers receive only durable changes of instances and hosts. The soft state of hosts is not
//! stored: followers receive it as soon as the agents have sent it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use placewright_conductor::cell_conductor::{self, Change, Instance, Job, State, Target};
use placewright_conductor::ids::NUMBER_END;
use placewright_conductor::{HostId, InstanceId};
use placewright_link::{CellEvent, HostView, InstanceView, JobView, ToAgent};
use placewright_placement::Timestamp;
use placewright_types::host_state::NumberedUpdate;
use tokio::sync::mpsc;

use crate::follower_queue::FollowerQueues;
use crate::report::MergedReport;
use crate::window::Window;

/// The present views of instances and hosts, and the queues of those who follow them.
pub(crate) struct ReadModel {
    instances: BTreeMap<InstanceId, InstanceView>,
    /// Digests of the instances' specifications. They are kept apart from the views, because the change that adds a
    /// specification precedes the change that adds its instance.
    spec_digests: BTreeMap<InstanceId, u64>,
    hosts: BTreeMap<HostId, KnownHost>,
    pub(crate) follower_queues: FollowerQueues,
}

/// The data of one host: its durable row, its connection, and its soft state.
pub(crate) struct KnownHost {
    /// The durable row; `None` before the host's first session is durable.
    row: Option<cell_conductor::Host>,
    /// The name that the agent has reported since the cell's start.
    pub(crate) name: Option<String>,
    /// The time of the last message of the host's agent, for followers.
    pub(crate) last_contact_at: Timestamp,
    /// The time of the same message on the monotonic clock, for time-outs.
    pub(crate) last_contact_instant: Instant,
    /// Whether the host's agent sent anything since the last heartbeat to followers.
    has_sent_since_heartbeat: bool,
    /// The connection of the host's agent; `None` while the agent is not connected.
    pub(crate) route: Option<Route>,
    /// The latest session that ended without a durable row that says so; 0 for none. Either the host was removed, or
    /// the submission of the session's start ended before the cell learned its decision.
    ended_session: u64,
    /// Puts the updates of the soft state in order.
    window: Window,
    /// The soft state after all updates that the window has passed on.
    report: MergedReport,
    /// The earliest time at which a full report is requested from the agent; `None` unless a missing update was
    /// noticed.
    report_due: Option<Instant>,
}

/// The connection through which a host's agent is reached.
#[derive(Clone)]
pub(crate) struct Route {
    /// The number of the connection.
    pub(crate) connection: u64,
    /// The number of the session that the host began on it.
    pub(crate) session: u64,
    pub(crate) to_agent: mpsc::Sender<ToAgent>,
}

impl KnownHost {
    fn new(at: Timestamp) -> Self {
        Self {
            row: None,
            name: None,
            last_contact_at: at,
            last_contact_instant: Instant::now(),
            has_sent_since_heartbeat: false,
            route: None,
            ended_session: 0,
            window: Window::default(),
            report: MergedReport::default(),
            report_due: None,
        }
    }

    /// The greatest known session number of the host, durable or not.
    ///
    /// A durable number from [`NUMBER_END`] on, which an earlier release accepted, is ignored: it could
    /// not be incremented.
    pub(crate) fn session(&self) -> u64 {
        let durable = self.row.as_ref().map_or(0, |row| row.session);
        let durable = if durable < NUMBER_END { durable } else { 0 };
        durable.max(self.route.as_ref().map_or(0, |route| route.session))
    }

    /// Whether the host counts as up.
    pub(crate) fn is_up(&self) -> bool {
        self.row.as_ref().is_some_and(|row| row.is_up)
    }

    /// Whether a session has ended: its host was marked down or removed, a later session replaced it, or it will never
    /// be known whether its start was decided.
    fn is_ended(&self, session: u64) -> bool {
        if session <= self.ended_session {
            return true;
        }
        let row = self.row.as_ref().filter(|row| row.session < NUMBER_END);
        row.is_some_and(|row| row.session > session || (row.session == session && !row.is_up))
    }

    /// What followers receive of the host; `None` before its first session is durable, and after its removal.
    fn view(&self) -> Option<HostView> {
        Some(HostView {
            name: self.name.clone(),
            is_up: self.row.as_ref()?.is_up,
            heard_at: self.last_contact_at,
        })
    }
}

/// Whether a message of an agent belongs to a valid session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionCheck {
    /// The message belongs to the host's present session.
    Valid,
    /// The host has to begin a session with a number greater than this.
    MustRestart(u64),
}

impl ReadModel {
    pub(crate) fn new(state: &State, at: Timestamp) -> Self {
        let mut read_model = Self {
            instances: BTreeMap::new(),
            spec_digests: BTreeMap::new(),
            hosts: BTreeMap::new(),
            follower_queues: FollowerQueues::default(),
        };
        read_model.load(state, at);
        read_model
    }

    /// Replaces all views by those of the state.
    pub(crate) fn load(&mut self, state: &State, at: Timestamp) {
        // Followers also have to learn which instances and hosts are no longer in the state.
        let mut changed_instances: BTreeSet<InstanceId> = self.instances.keys().copied().collect();
        let specs = state.specs().iter();
        self.spec_digests = specs.map(|(id, spec)| (*id, spec.digest())).collect();
        self.instances = state
            .instances()
            .iter()
            .map(|(id, row)| {
                let job = state.jobs().get(id).map(job_view);
                (*id, self.instance_view(*id, row, job))
            })
            .collect();
        changed_instances.extend(self.instances.keys());
        let mut changed_hosts: BTreeSet<HostId> = self.hosts.keys().copied().collect();
        changed_hosts.extend(state.hosts().keys());
        for host in &changed_hosts {
            self.set_row(*host, state.hosts().get(host).cloned(), at);
        }
        self.queue_changed(changed_instances, changed_hosts);
    }

    /// Queues the present views of these instances and hosts for followers.
    fn queue_changed(&mut self, instances: BTreeSet<InstanceId>, hosts: BTreeSet<HostId>) {
        instances.into_iter().for_each(|id| self.queue_instance(id));
        hosts.into_iter().for_each(|id| self.queue_host(id));
    }

    /// A host, which is added if it is not known.
    fn host_or_new(&mut self, id: HostId, at: Timestamp) -> &mut KnownHost {
        let host = self.hosts.entry(id);
        host.or_insert_with(|| KnownHost::new(at))
    }

    /// Sets the durable row of a host, or removes the host from the cell. While the agent of a removed host is
    /// connected, the host's entry stays, because the agent has to begin a session after the one that ended.
    fn set_row(&mut self, id: HostId, row: Option<cell_conductor::Host>, at: Timestamp) {
        let is_removed = row.is_none();
        let host = self.host_or_new(id, at);
        let former = std::mem::replace(&mut host.row, row);
        match (&host.route, former) {
            _ if !is_removed => {}
            (None, _) => drop(self.hosts.remove(&id)),
            (Some(route), Some(former)) => {
                // If the session of the route is later than that of the row, its start will be decided after the
                // removal. Then only the session of the row has ended.
                let ended = former.session.min(route.session);
                host.ended_session = host.ended_session.max(ended);
            }
            (Some(_), None) => {}
        }
    }

    pub(crate) fn find_host(&self, id: HostId) -> Option<&KnownHost> {
        self.hosts.get(&id)
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = (HostId, &KnownHost)> {
        self.hosts.iter().map(|(id, host)| (*id, host))
    }

    /// The number of known hosts, which [`crate::Options::hosts_max`] limits: those of the cell, those whose first
    /// session is not durable yet, and removed ones whose agents are connected.
    pub(crate) fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// The number of hosts that the cell has.
    pub(crate) fn hosts_in_cell(&self) -> usize {
        let rows = self.hosts.values().filter(|host| host.row.is_some());
        rows.count()
    }

    pub(crate) fn instance_count(&self) -> usize {
        self.instances.len()
    }

    /// Applies durable changes, and queues them for followers.
    pub(crate) fn apply_changes(&mut self, changes: &[Vec<Change>], at: Timestamp) {
        let mut changed_instances = BTreeSet::new();
        let mut changed_hosts = BTreeSet::new();
        for change in changes.iter().flatten() {
            match change {
                Change::Instance(id, Some(row)) => {
                    let job = self.instances.remove(id).and_then(|view| view.job);
                    let view = self.instance_view(*id, row, job);
                    self.instances.insert(*id, view);
                    changed_instances.insert(*id);
                }
                Change::Instance(id, None) => {
                    self.instances.remove(id);
                    changed_instances.insert(*id);
                }
                Change::Spec(id, Some(spec)) => {
                    let digest = spec.digest();
                    self.spec_digests.insert(*id, digest);
                    if let Some(view) = self.instances.get_mut(id) {
                        view.spec_digest = digest;
                        changed_instances.insert(*id);
                    }
                }
                Change::Spec(id, None) => drop(self.spec_digests.remove(id)),
                Change::Job(id, job) => {
                    if let Some(view) = self.instances.get_mut(id) {
                        view.job = job.as_deref().map(job_view);
                        changed_instances.insert(*id);
                    }
                }
                Change::Host(id, row) => {
                    self.set_row(*id, row.as_deref().cloned(), at);
                    changed_hosts.insert(*id);
                }
                _ => {}
            }
        }
        self.queue_changed(changed_instances, changed_hosts);
    }

    fn instance_view(&self, id: InstanceId, row: &Instance, job: Option<JobView>) -> InstanceView {
        InstanceView {
            vm_state: row.vm_state,
            job,
            spec_digest: self.spec_digests.get(&id).copied().unwrap_or_default(),
            guest: row.guest,
            zone: row.zone.clone(),
            fault: row.fault.clone(),
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }

    fn queue_instance(&mut self, id: InstanceId) {
        let view = self.instances.get(&id);
        self.follower_queues.queue_instance(id, view);
    }

    fn queue_host(&mut self, id: HostId) {
        let view = self.hosts.get(&id).and_then(KnownHost::view);
        self.follower_queues.queue_host(id, view.as_ref());
    }

    /// Records that a host's agent began a session on a connection. The session is not durable yet.
    pub(crate) fn start_session(&mut self, id: HostId, name: &str, route: Route, at: Timestamp) {
        let host = self.host_or_new(id, at);
        if host.name.as_deref() != Some(name) {
            host.name = Some(name.to_owned());
        }
        host.route = Some(route);
        self.record_contact(id, at);
    }

    /// Checks that a host has a valid session on a connection, and records the contact if it has.
    pub(crate) fn check_session(
        &mut self,
        id: HostId,
        connection: u64,
        at: Timestamp,
    ) -> SessionCheck {
        let Some(host) = self.hosts.get_mut(&id) else {
            return SessionCheck::MustRestart(0);
        };
        let route = host.route.as_ref();
        let session = route.filter(|route| route.connection == connection);
        match session.map(|route| route.session) {
            Some(session) if !host.is_ended(session) => {
                self.record_contact(id, at);
                SessionCheck::Valid
            }
            _ => SessionCheck::MustRestart(host.session()),
        }
    }

    fn record_contact(&mut self, id: HostId, at: Timestamp) {
        if let Some(host) = self.hosts.get_mut(&id) {
            host.last_contact_at = at;
            host.last_contact_instant = Instant::now();
            host.has_sent_since_heartbeat = true;
        }
    }

    /// Applies an update of a host's soft state, and queues it for followers.
    pub(crate) fn apply_update(&mut self, id: HostId, update: NumberedUpdate) {
        let Some(host) = self.hosts.get_mut(&id) else {
            return;
        };
        let (report, follower_queues) = (&mut host.report, &mut self.follower_queues);
        host.window.receive(update, |numbered| {
            report.apply(&numbered.update);
            follower_queues.queue_state(id, &numbered);
        });
        if !host.window.has_gap() {
            host.report_due = None;
        }
    }

    /// Requests full reports from agents where updates are missing. The first call that finds a gap requests nothing,
    /// because the updates may only be late. The next call requests a report, and later calls do so again after each
    /// `retry_after`.
    pub(crate) fn request_full_reports(&mut self, retry_after: std::time::Duration) {
        let now = Instant::now();
        for (id, host) in &mut self.hosts {
            if !host.window.has_gap() {
                continue;
            }
            let is_due = host.report_due.is_some_and(|due| due <= now);
            if is_due && let Some(route) = &host.route {
                let sent = route.to_agent.try_send(ToAgent::SendState { host: *id });
                if sent.is_ok() {
                    host.report_due = Some(now + retry_after);
                }
            } else if host.report_due.is_none() {
                host.report_due = Some(now);
            }
        }
    }

    /// Ends a session that a host began on a connection and that is not known to be decided, so that the host's agent
    /// has to begin another one, whatever it sends next.
    pub(crate) fn end_undecided_session(&mut self, id: HostId, connection: u64, session: u64) {
        let Some(host) = self.hosts.get_mut(&id) else {
            return;
        };
        let is_current = |route: &Route| (route.connection, route.session) == (connection, session);
        if host.route.as_ref().is_some_and(is_current) {
            host.ended_session = host.ended_session.max(session);
        }
    }

    /// Removes the routes of a connection that has ended, and the hosts without a durable row whose session has ended:
    /// only the connection kept them known.
    pub(crate) fn disconnect(&mut self, connection: u64, hosts: &BTreeSet<HostId>) {
        for id in hosts {
            if let Some(host) = self.hosts.get_mut(id)
                && host
                    .route
                    .as_ref()
                    .is_some_and(|route| route.connection == connection)
            {
                host.route = None;
                let is_obsolete = host.row.is_none() && host.ended_session > 0;
                if is_obsolete {
                    self.hosts.remove(id);
                }
            }
        }
    }

    /// Queues a heartbeat of the cell, and of the hosts whose agents sent anything since the last one.
    pub(crate) fn queue_heartbeat(&mut self) {
        let mut alive = Vec::new();
        for (id, host) in &mut self.hosts {
            if std::mem::take(&mut host.has_sent_since_heartbeat) {
                alive.push(*id);
            }
        }
        self.follower_queues.queue_heartbeat(&alive);
    }

    /// Registers a follower; returns its number, and the wake-up for its next events.
    pub(crate) fn follow(&mut self) -> (u64, std::sync::Arc<tokio::sync::Notify>) {
        let hosts: BTreeSet<HostId> = self.hosts.keys().copied().collect();
        self.follower_queues
            .add(self.instances.keys().copied().collect(), hosts)
    }

    /// Takes the next events for a follower; `None` if it was removed.
    pub(crate) fn take_events(&mut self, follower: u64, count: usize) -> Option<Vec<CellEvent>> {
        let (instances, hosts) = (&self.instances, &self.hosts);
        let batch = self.follower_queues.next_batch(follower, count)?;
        let mut events = batch.events;
        for id in batch.hosts {
            let view = hosts.get(&id).and_then(KnownHost::view);
            events.push(CellEvent::Host { host: id, view });
        }
        for id in batch.states {
            let Some(host) = hosts.get(&id) else { continue };
            if let Some((incarnation, sequence)) = host.window.position() {
                let update = Box::new(NumberedUpdate {
                    incarnation,
                    sequence,
                    update: host.report.full(),
                });
                events.push(CellEvent::State { host: id, update });
            }
        }
        for instance in batch.instances {
            let view = instances.get(&instance).cloned().map(Box::new);
            events.push(CellEvent::Instance { instance, view });
        }
        if batch.is_complete {
            events.push(CellEvent::Complete);
        }
        Some(events)
    }
}

fn job_view(job: &Job) -> JobView {
    JobView {
        kind: job.kind,
        migration: job.migration,
        stage: job.stage,
        target: job
            .target
            .as_ref()
            .map(Target::guest)
            .map(|guest| guest.host),
    }
}
