//! How an agent reaches its cell.

use placewright_conductor::cell_conductor::{Failure, Order};
use placewright_conductor::{HostId, InstanceId};
use placewright_scheduler::host_state::NumberedUpdate;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::Coming;

/// A cell, as an agent reaches it.
pub trait AgentLink: Send + Sync + 'static {
    /// Connects. One connection may speak for many hosts. It ends when either side drops its half.
    ///
    /// Both halves are bounded. What an agent does not take in time is not kept for it: the cell
    /// asks again later.
    fn connect(&self) -> Coming<'_, AgentConnection>;
}

/// An agent's half of a connection.
#[derive(Debug)]
pub struct AgentConnection {
    /// To the cell.
    pub to_cell: mpsc::Sender<ToCell>,
    /// From the cell.
    pub from_cell: mpsc::Receiver<ToAgent>,
}

/// What an agent tells its cell. `placewright_conductor::cell_conductor` says what it has to keep
/// to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToCell {
    /// A host's session begins.
    Started(Box<HostStart>),
    /// A step ended.
    StepEnded {
        /// The host.
        host: HostId,
        /// Of which instance.
        instance: InstanceId,
        /// The session in which it was asked for.
        session: u64,
        /// Which attempt.
        attempt: u32,
        /// Why it failed, if it did.
        failure: Option<Failure>,
    },
    /// There is no such guest any more.
    Destroyed {
        /// The host.
        host: HostId,
        /// The instance.
        instance: InstanceId,
        /// The guest.
        number: u32,
    },
    /// The next update of a host's soft state. The first of an incarnation tells everything.
    State {
        /// The host.
        host: HostId,
        /// The update.
        update: Box<NumberedUpdate>,
    },
    /// These hosts are still there: a heartbeat for many at once.
    Alive {
        /// The hosts.
        hosts: Vec<HostId>,
    },
}

/// How a session of a host begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStart {
    /// The host: the UUID of its root provider.
    pub host: HostId,
    /// Its name, unique over all cells.
    pub name: String,
    /// Greater than those before.
    pub session: u64,
    /// All the guests that the host has.
    pub guests: Vec<(InstanceId, u32)>,
}

/// What a cell tells an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToAgent {
    /// Carry out a step.
    Step {
        /// The host.
        host: HostId,
        /// The session that it is for.
        session: u64,
        /// What.
        order: Box<Order>,
    },
    /// Destroy a guest.
    Destroy {
        /// The host.
        host: HostId,
        /// The session that it is for.
        session: u64,
        /// The instance.
        instance: InstanceId,
        /// The guest.
        number: u32,
    },
    /// An update of the host's soft state is missing: send all of it.
    SendState {
        /// The host.
        host: HostId,
    },
    /// The cell does not count the host's session as under way: it was given up after a silence,
    /// another one took its place, or its number is no greater than an earlier one's. Begin a new
    /// session, greater than `after`, unless that has happened already.
    StartAgain {
        /// The host.
        host: HostId,
        /// The latest session that the cell knows.
        after: u64,
    },
}
