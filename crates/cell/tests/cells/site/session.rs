//! The connection of a host's agent that does only what a test tells it to.

use std::time::Duration;

use placewright_cell::Cell;
use placewright_conductor::HostId;
use placewright_link::{AgentConnection, AgentLink as _, SessionStart, ToAgent, ToCell};
use tokio::time::timeout;

/// How long a test waits for what has to come.
pub const SOON: Duration = Duration::from_secs(15);
/// How long a test waits for what must not come. It is longer than the intervals at which the cell of a test repeats
/// what was not answered.
pub const NEVER: Duration = Duration::from_secs(1);

/// A connection of one host's agent.
pub struct Session {
    pub host: HostId,
    pub connection: AgentConnection,
}

impl Session {
    /// Connects, and begins a session of a host without guests.
    pub async fn begin(cell: &Cell, host: HostId, number: u64) -> Self {
        let connection = cell.connect().await.unwrap();
        let session = Self { host, connection };
        session.begin_again(number).await;
        session
    }

    /// Begins a session on this connection.
    pub async fn begin_again(&self, number: u64) {
        let start = SessionStart {
            host: self.host,
            name: self.host.to_string(),
            session: number,
            guests: Vec::new(),
        };
        self.send(ToCell::Started(Box::new(start))).await;
    }

    pub async fn send(&self, message: ToCell) {
        self.connection.to_cell.send(message).await.unwrap();
    }

    /// Sends a heartbeat, which says that the host is up and that nothing has changed.
    pub async fn say_alive(&self) {
        let hosts = vec![self.host];
        self.send(ToCell::Alive { hosts }).await;
    }

    /// The next message of the cell.
    pub async fn receive(&mut self) -> ToAgent {
        let received = timeout(SOON, self.connection.from_cell.recv()).await;
        received.unwrap().unwrap()
    }

    /// Checks that the cell sends nothing.
    pub async fn receives_nothing(&mut self) {
        let received = timeout(NEVER, self.connection.from_cell.recv()).await;
        assert!(received.is_err(), "{received:?}");
    }
}
