//! The cell's end of its agents' connections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use placewright_conductor::cell_conductor::{Event, Refusal};
use placewright_conductor::ids::NUMBER_END;
use placewright_conductor::{HostId, Reply};
use placewright_link::{AgentConnection, SessionStart, ToAgent, ToCell};
use placewright_tasks::{ContainedWork, spawn_contained};
use tokio::sync::mpsc;

use crate::counters::add_to;
use crate::read_model::{Route, SessionCheck};
use crate::shared::{LeaderState, now};

/// The most messages that are handled under one lock.
const MESSAGES_AT_ONCE: usize = 128;
/// The longest name of a host, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// How long to wait before the start of a session is submitted again after the store failed.
const START_RETRY: Duration = Duration::from_millis(500);

/// Opens a connection, and serves it until it ends.
pub(crate) fn connect(shared: &Arc<LeaderState>) -> AgentConnection {
    let (to_cell, from_agent) = mpsc::channel(shared.options.cell_queue.max(1));
    let (to_agent, from_cell) = mpsc::channel(shared.options.agent_queue.max(1));
    let number = shared
        .counts
        .connections
        .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let connection = Connection {
        shared: Arc::clone(shared),
        number,
        to_agent,
        hosts: BTreeSet::new(),
    };
    spawn_contained(ContainedWork::AgentConnection, connection.serve(from_agent));
    AgentConnection { to_cell, from_cell }
}

/// The cell's end of one agent's connection, which may carry many hosts.
struct Connection {
    shared: Arc<LeaderState>,
    /// The number of the connection, unique since the start of the cell.
    number: u64,
    to_agent: mpsc::Sender<ToAgent>,
    /// The hosts that have begun a session on this connection.
    hosts: BTreeSet<HostId>,
}

/// However the connection ends, even by a panic, its hosts are not reached through it any more.
impl Drop for Connection {
    fn drop(&mut self) {
        let mut read_model = self.shared.read_model.lock();
        read_model.disconnect(self.number, &self.hosts);
    }
}

impl Connection {
    async fn serve(mut self, mut from_agent: mpsc::Receiver<ToCell>) {
        let mut messages = Vec::with_capacity(MESSAGES_AT_ONCE);
        loop {
            let received = tokio::select! {
                received = from_agent.recv_many(&mut messages, MESSAGES_AT_ONCE) => received,
                () = self.to_agent.closed() => 0,
                () = self.shared.stopped() => 0,
            };
            if received == 0 {
                break;
            }
            self.handle_messages(messages.drain(..));
        }
    }

    fn handle_messages(&mut self, messages: impl Iterator<Item = ToCell>) {
        let at = now();
        let mut starts = Vec::new();
        let mut events = Vec::new();
        {
            let shared = Arc::clone(&self.shared);
            let mut read_model = shared.read_model.lock();
            for message in messages {
                if let ToCell::Started(start) = message {
                    self.start_session(&mut read_model, *start, &mut starts);
                    continue;
                }
                if let ToCell::Alive { hosts } = message {
                    for host in hosts {
                        let session_check = read_model.check_session(host, self.number, at);
                        self.check_or_restart(host, session_check);
                    }
                    continue;
                }
                let Some(host) = host_of(&message) else {
                    continue;
                };
                let session_check = read_model.check_session(host, self.number, at);
                if !self.check_or_restart(host, session_check) {
                    continue;
                }
                match message {
                    ToCell::State { host, update } => read_model.apply_update(host, *update),
                    message => events.extend(event_of(message)),
                }
            }
        }
        for event in events {
            self.shared.submit_and_forget(event);
        }
        if !starts.is_empty() {
            let undecided = starts.iter().map(|start| (start.host, start.session));
            let pending = PendingSessions {
                undecided: undecided.collect(),
                shared: Arc::clone(&self.shared),
                connection: self.number,
                to_agent: self.to_agent.clone(),
            };
            spawn_contained(ContainedWork::SessionStarts, submit_starts(pending, starts));
        }
    }

    /// Begins a host's session, if its number is greater than those of all known sessions of the host;
    /// the host is then reached by this connection. `starts` collects the sessions to submit.
    fn start_session(
        &mut self,
        read_model: &mut crate::read_model::ReadModel,
        start: SessionStart,
        starts: &mut Vec<SessionStart>,
    ) {
        let latest = read_model
            .find_host(start.host)
            .map_or(0, |host| host.session());
        if start.session >= NUMBER_END {
            tracing::warn!(
                host = %start.host, session = start.session,
                "a session with a number that cannot be incremented is ignored"
            );
            return;
        }
        if start.session <= latest {
            self.check_or_restart(start.host, SessionCheck::MustRestart(latest));
            return;
        }
        let is_name_valid = !start.name.is_empty() && start.name.len() <= NAME_BYTES_MAX;
        if !is_name_valid {
            tracing::warn!(host = %start.host, "a host without a name, or with one of more than 255 bytes, is ignored");
            return;
        }
        let hosts_max = self.shared.options.hosts_max;
        if read_model.find_host(start.host).is_none() && read_model.host_count() >= hosts_max {
            tracing::warn!(
                host = %start.host, name = start.name,
                "a host is ignored: there are as many as cell.hosts_max allows, {hosts_max}"
            );
            return;
        }
        let route = Route {
            connection: self.number,
            session: start.session,
            to_agent: self.to_agent.clone(),
        };
        read_model.start_session(start.host, &start.name, route, now());
        self.hosts.insert(start.host);
        starts.push(start);
    }

    /// Returns whether a message belongs to a valid session. If it does not, the agent is ordered to begin a new
    /// session.
    fn check_or_restart(&self, host: HostId, session_check: SessionCheck) -> bool {
        match session_check {
            SessionCheck::Valid => true,
            SessionCheck::MustRestart(after) => {
                // If the queue is full, the order is repeated when the agent sends its next message.
                let _ = self.to_agent.try_send(ToAgent::StartAgain { host, after });
                false
            }
        }
    }
}

/// The host that a message is about; `None` for a heartbeat, which may be about several hosts.
fn host_of(message: &ToCell) -> Option<HostId> {
    match message {
        ToCell::StepEnded { host, .. }
        | ToCell::Destroyed { host, .. }
        | ToCell::State { host, .. } => Some(*host),
        ToCell::Started(start) => Some(start.host),
        ToCell::Alive { .. } => None,
    }
}

/// The event for the state machine that follows from a message; `None` for messages that are handled in another way.
fn event_of(message: ToCell) -> Option<Event> {
    match message {
        ToCell::StepEnded {
            host,
            instance,
            session,
            attempt,
            failure,
        } => Some(Event::StepEnded {
            host,
            instance,
            session,
            attempt,
            failure,
        }),
        ToCell::Destroyed {
            host,
            instance,
            number,
        } => Some(Event::Destroyed {
            host,
            instance,
            number,
        }),
        ToCell::Started(_) | ToCell::State { .. } | ToCell::Alive { .. } => None,
    }
}

/// Makes the agent of a host begin a new session.
pub(crate) fn restart_session(shared: &LeaderState, host: HostId) -> Reply {
    let route = {
        let read_model = shared.read_model.lock();
        let found = read_model.find_host(host);
        found.and_then(|host| host.route.clone())
    };
    let Some(route) = route else {
        return Reply::Refused("the host's agent is not connected".to_owned());
    };
    let after = route.session;
    match route.to_agent.try_send(ToAgent::StartAgain { host, after }) {
        Ok(()) => Reply::Accepted,
        Err(_) => Reply::Refused("the host's agent does not listen".to_owned()),
    }
}

/// Session starts that were submitted and are not decided yet. However the submission ends, even by a panic, the
/// undecided sessions end with it, and agents are ordered to begin new ones in their place, because an agent announces
/// a session only once.
struct PendingSessions {
    /// By host, the number of the session that is not decided yet.
    undecided: BTreeMap<HostId, u64>,
    shared: Arc<LeaderState>,
    /// The number of the connection on which the sessions began.
    connection: u64,
    to_agent: mpsc::Sender<ToAgent>,
}

impl Drop for PendingSessions {
    fn drop(&mut self) {
        if self.undecided.is_empty() {
            return;
        }
        let mut read_model = self.shared.read_model.lock();
        for (host, after) in std::mem::take(&mut self.undecided) {
            read_model.end_undecided_session(host, self.connection, after);
            // If the queue is full, the order is repeated when the agent sends its next message.
            let _ = self.to_agent.try_send(ToAgent::StartAgain { host, after });
        }
    }
}

/// Submits the starts of sessions until they are decided.
async fn submit_starts(mut pending: PendingSessions, mut starts: Vec<SessionStart>) {
    let shared = Arc::clone(&pending.shared);
    loop {
        let submitted: Vec<_> = starts
            .into_iter()
            .map(|start| {
                let decided = shared.submit(Event::AgentStarted {
                    host: start.host,
                    session: start.session,
                    guests: start.guests.clone(),
                });
                (start, decided)
            })
            .collect();
        let mut failed = Vec::new();
        for (start, decided) in submitted {
            let host = start.host;
            match decided.await {
                Ok(Ok(_)) => {}
                Ok(Err(Refusal::OldSession(_))) => {
                    let after = shared.engine.read_now(|machine| {
                        let row = machine.state.hosts().get(&host);
                        row.map_or(0, |row| row.session)
                    });
                    // If the queue is full, the order is repeated when the agent sends its next message.
                    let _ = pending
                        .to_agent
                        .try_send(ToAgent::StartAgain { host, after });
                }
                Ok(Err(refusal)) => tracing::error!(%host, %refusal, "a session was refused"),
                // The store failed: the start is submitted again, unless a later session has replaced this one.
                Err(_) if is_current(&shared, pending.connection, &start) => {
                    failed.push(start);
                    continue;
                }
                Err(_) => {}
            }
            pending.undecided.remove(&host);
        }
        if failed.is_empty() {
            return;
        }
        add_to(&shared.counts.effects_repeated, failed.len());
        starts = failed;
        tokio::select! {
            () = tokio::time::sleep(START_RETRY) => {}
            () = shared.stopped() => return,
        }
    }
}

/// Whether a session is still the host's present one.
fn is_current(shared: &LeaderState, connection: u64, start: &SessionStart) -> bool {
    let read_model = shared.read_model.lock();
    let host = read_model.find_host(start.host);
    let route = host.and_then(|host| host.route.as_ref());
    route.is_some_and(|route| route.connection == connection && route.session == start.session)
}

#[cfg(test)]
mod tests;
