//! A mock of the cell: it accepts connections of agents, sends messages, and returns those that it
//! receives to the test.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_agent::HostDescription;
use placewright_agent::simulated::IdenticalHosts;
use placewright_conductor::cell_conductor::{Failure, GuestRef, Order, Step};
use placewright_conductor::{Amounts, Candidate, HostId, InstanceId, Spec};
use placewright_link::{
    AgentConnection, AgentLink, LinkError, LinkFuture, SessionStart, ToAgent, ToCell,
};
use placewright_placement::Timestamp;
use placewright_types::host_state::NumberedUpdate;
use tokio::sync::{Mutex, mpsc};
use uuid::Uuid;

/// The number of the guest in each order of [`order`].
const GUEST_NUMBER: u32 = 1;

/// The cell's end of a connection.
pub(crate) struct CellConnection {
    pub(crate) from_agent: mpsc::Receiver<ToCell>,
    pub(crate) to_agent: mpsc::Sender<ToAgent>,
    /// Soft state that was received while waiting for another message.
    pub(crate) updates: Vec<(HostId, NumberedUpdate)>,
}

/// The link to the mock cell. The test receives the cell's end of each connection.
pub(crate) struct MockLink {
    connections: mpsc::Sender<CellConnection>,
    /// How many connections are still to fail before one succeeds.
    pub(crate) failures: Mutex<u32>,
}

impl MockLink {
    /// A link whose first `failures` attempts to connect fail, and the receiver of the cell's ends of connections.
    pub(crate) fn new(failures: u32) -> (Arc<Self>, mpsc::Receiver<CellConnection>) {
        let (connections, accepted) = mpsc::channel(8);
        let failures = Mutex::new(failures);
        (
            Arc::new(Self {
                connections,
                failures,
            }),
            accepted,
        )
    }
}

impl AgentLink for MockLink {
    fn connect(&self) -> LinkFuture<'_, AgentConnection> {
        Box::pin(async {
            let mut failures = self.failures.lock().await;
            if *failures > 0 {
                *failures -= 1;
                return Err(LinkError::TimedOut {
                    peer: "the cell".into(),
                });
            }
            // The buffers are small, so that tests cover full buffers.
            let (to_cell, from_agent) = mpsc::channel(4);
            let (to_agent, from_cell) = mpsc::channel(4);
            let connection = CellConnection {
                from_agent,
                to_agent,
                updates: Vec::new(),
            };
            self.connections.send(connection).await.unwrap();
            Ok(AgentConnection { to_cell, from_cell })
        })
    }
}

impl CellConnection {
    /// Receives the next message other than soft state and heartbeats.
    pub(crate) async fn receive(&mut self) -> ToCell {
        loop {
            match self
                .from_agent
                .recv()
                .await
                .expect("the agent is connected")
            {
                ToCell::State { host, update } => self.updates.push((host, *update)),
                ToCell::Alive { .. } => {}
                other => return other,
            }
        }
    }

    /// Receives the next update of soft state.
    pub(crate) async fn receive_state(&mut self) -> (HostId, NumberedUpdate) {
        if !self.updates.is_empty() {
            return self.updates.remove(0);
        }
        loop {
            match self
                .from_agent
                .recv()
                .await
                .expect("the agent is connected")
            {
                ToCell::State { host, update } => return (host, *update),
                ToCell::Alive { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits until this many hosts have begun their sessions.
    pub(crate) async fn receive_starts(&mut self, hosts: usize) -> BTreeMap<HostId, SessionStart> {
        let mut starts = BTreeMap::new();
        while starts.len() < hosts {
            match self.receive().await {
                ToCell::Started(start) => starts.insert(start.host, *start),
                other => panic!("{other:?}"),
            };
        }
        starts
    }

    pub(crate) async fn send(&self, message: ToAgent) {
        self.to_agent.send(message).await.unwrap();
    }

    pub(crate) async fn order(&self, host: HostId, session: u64, order: Order) {
        let order = Box::new(order);
        self.send(ToAgent::Step {
            host,
            session,
            order,
        })
        .await;
    }

    /// Receives the result of a step: its instance, its attempt, and its failure if it failed.
    pub(crate) async fn receive_step(&mut self) -> (InstanceId, u32, Option<Failure>) {
        match self.receive().await {
            ToCell::StepEnded {
                instance,
                attempt,
                failure,
                ..
            } => (instance, attempt, failure),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn instance(number: u32) -> InstanceId {
    InstanceId(Uuid::from_u128(0x1057_0000 + u128::from(number)))
}

/// A candidate without mappings.
pub(crate) fn candidate(host: HostId, amounts: Vec<Amounts>) -> Candidate {
    Candidate {
        host,
        zone: None,
        amounts,
        mappings: Vec::new(),
    }
}

/// An order for a step with an instance that has `memory_mb` MiB of a host.
pub(crate) fn order(host: HostId, instance: InstanceId, step: Step, memory_mb: i64) -> Order {
    Order {
        instance,
        attempt: 1,
        step,
        guest_number: GUEST_NUMBER,
        is_live: false,
        spec: Spec {
            name: "vm".into(),
            project: "p".into(),
            user: "u".into(),
            group: None,
            rules: Default::default(),
            body: r#"{"request": {"image": {"properties": {"os_distro": "debian"}}}}"#.into(),
            created_at: Timestamp::from_seconds(1),
            usage: Default::default(),
            build_secrets: Default::default(),
            secrets: Default::default(),
        },
        amounts: vec![Amounts {
            provider: host.0,
            resources: vec![("MEMORY_MB".into(), memory_mb)],
        }],
        origin: None,
        target: Some(GuestRef {
            host,
            number: GUEST_NUMBER,
        }),
        mappings: Vec::new(),
    }
}

pub(crate) fn hosts(count: u32) -> Vec<HostDescription> {
    let hosts = IdenticalHosts {
        count,
        prefix: "host-".into(),
        vcpus: 8,
        cpu_ratio: 4.0,
        memory_mb: 1000,
        disk_gb: 100,
        gpus: 0,
        gpu_model: None,
    };
    hosts.hosts()
}
