//! Agents that follow the protocol, on hosts that a test provides.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use placewright_conductor::HostId;
use placewright_conductor::cell_conductor::{Effect, Event};
use placewright_link::{AgentConnection, AgentLink, SessionStart, ToAgent, ToCell};
use placewright_types::host_state::NumberedUpdate;

use crate::world::World;
use crate::world::agent::Agent;

/// The time between the end of a connection and the next attempt to connect.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(50);
/// The interval of an agent's heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(200);

/// The hosts of a test, whose agents [`run`] connects to a cell.
pub trait Hosts: Send + Sync + 'static {
    /// Calls a function with the state of a host's agent.
    fn with_agent<T>(&self, host: HostId, access: impl FnOnce(&mut Agent) -> T) -> T;

    /// Carries out an effect of the cell on a host; `None` if the host does not answer.
    fn carry_out(&self, host: HostId, effect: &Effect) -> Option<Event>;

    /// The name of a host.
    fn name(&self, host: HostId) -> String {
        host.to_string()
    }

    /// The soft state that a host reports after the start of a session. It is called once for each session.
    fn report(&self, _start: &SessionStart) -> Option<NumberedUpdate> {
        None
    }
}

/// Runs the agents of many hosts, and connects again whenever their connection ends.
pub async fn run(link: Arc<dyn AgentLink>, ids: Vec<HostId>, hosts: Arc<impl Hosts>) {
    loop {
        if let Ok(connection) = link.connect().await {
            serve(connection, &ids, &*hosts).await;
        }
        tokio::time::sleep(RECONNECT_INTERVAL).await;
    }
}

async fn serve(mut connection: AgentConnection, ids: &[HostId], hosts: &impl Hosts) {
    for host in ids {
        if start_session(&connection, *host, hosts).await.is_none() {
            return;
        }
    }
    let mut heartbeat = tokio::time::interval(HEARTBEAT_INTERVAL);
    loop {
        let message = tokio::select! {
            message = connection.from_cell.recv() => message,
            _ = heartbeat.tick() => {
                let hosts = ids.to_vec();
                if connection.to_cell.send(ToCell::Alive { hosts }).await.is_err() {
                    return;
                }
                continue;
            }
        };
        let (host, effect) = match message {
            None => return,
            Some(ToAgent::Step {
                host,
                session,
                order,
            }) => {
                let effect = Effect::RequestStep {
                    host,
                    session,
                    order,
                };
                (host, effect)
            }
            Some(ToAgent::Destroy {
                host,
                session,
                instance,
                number,
            }) => {
                let effect = Effect::Destroy {
                    host,
                    session,
                    instance,
                    number,
                };
                (host, effect)
            }
            // These hosts report their state only when a session begins, so no update can be missing.
            Some(ToAgent::SendState { .. }) => continue,
            Some(ToAgent::StartAgain { host, after }) => {
                let is_session_old = hosts.with_agent(host, |agent| agent.session <= after);
                if is_session_old && start_session(&connection, host, hosts).await.is_none() {
                    return;
                }
                continue;
            }
        };
        if let Some(event) = hosts.carry_out(host, &effect)
            && connection.to_cell.send(message_of(event)).await.is_err()
        {
            return;
        }
    }
}

/// Begins a new session of a host's agent; `None` if the connection has ended.
async fn start_session(
    connection: &AgentConnection,
    host: HostId,
    hosts: &impl Hosts,
) -> Option<()> {
    let name = hosts.name(host);
    let start = hosts.with_agent(host, |agent| {
        agent.restart();
        SessionStart {
            host,
            name,
            session: agent.session,
            guests: agent.guests.keys().copied().collect(),
        }
    });
    let update = hosts.report(&start);
    let to_cell = &connection.to_cell;
    to_cell.send(ToCell::Started(Box::new(start))).await.ok()?;
    if let Some(update) = update {
        let update = Box::new(update);
        to_cell.send(ToCell::State { host, update }).await.ok()?;
    }
    Some(())
}

fn message_of(event: Event) -> ToCell {
    match event {
        Event::StepEnded {
            host,
            instance,
            session,
            attempt,
            failure,
        } => ToCell::StepEnded {
            host,
            instance,
            session,
            attempt,
            failure,
        },
        Event::Destroyed {
            host,
            instance,
            number,
        } => ToCell::Destroyed {
            host,
            instance,
            number,
        },
        event => panic!("agents send no such event: {event:?}"),
    }
}

/// The agents of a world; their steps fail if the host is in `failing`, or at random.
impl Hosts for Mutex<World> {
    fn with_agent<T>(&self, host: HostId, access: impl FnOnce(&mut Agent) -> T) -> T {
        access(self.lock().agents.get_mut(&host).unwrap())
    }

    fn carry_out(&self, host: HostId, effect: &Effect) -> Option<Event> {
        let mut world = self.lock();
        let fails_one_in = world.fails_one_in;
        let fails_at_random = fails_one_in > 0 && world.rng.one_in(fails_one_in);
        let fails = fails_at_random || world.failing.contains(&host);
        world.agents.get_mut(&host)?.carry_out(effect, fails)
    }
}
