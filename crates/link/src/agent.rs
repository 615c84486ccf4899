//! The interface between an agent and its cell.

use placewright_conductor::cell_conductor::{Failure, Order};
use placewright_conductor::{HostId, InstanceId};
use placewright_types::host_state::NumberedUpdate;
use tokio::sync::mpsc;

use crate::LinkFuture;

/// The cell's interface towards agents.
pub trait AgentLink: Send + Sync + 'static {
    /// Opens a connection. One connection may carry many hosts; it ends when either side drops its
    /// half.
    ///
    /// Both channels are bounded. Messages that an agent does not receive in time are dropped, and the cell
    /// repeats them later.
    fn connect(&self) -> LinkFuture<'_, AgentConnection>;
}

/// An agent's half of a connection.
#[derive(Debug)]
pub struct AgentConnection {
    /// Messages from the agent to the cell.
    pub to_cell: mpsc::Sender<ToCell>,
    /// Messages from the cell to the agent; closed when the cell ends the connection.
    pub from_cell: mpsc::Receiver<ToAgent>,
}

/// A message from an agent to its cell. The protocol that an agent has to follow is described in
/// `placewright_conductor::cell_conductor`.
#[derive(Clone, Debug, PartialEq)]
pub enum ToCell {
    /// A host begins a session, and with it reports all its guests.
    Started(Box<SessionStart>),
    /// A step that the cell ordered has succeeded or failed.
    StepEnded {
        /// The host that carried out the step.
        host: HostId,
        /// The instance that the step was for.
        instance: InstanceId,
        /// The session in which the step was ordered.
        session: u64,
        /// The attempt number of the [`Order`] that is answered.
        attempt: u32,
        /// Why the step failed, if it did.
        failure: Option<Failure>,
    },
    /// A guest was destroyed, or was not there to be destroyed.
    Destroyed {
        /// The host that had the guest.
        host: HostId,
        /// The instance of the guest.
        instance: InstanceId,
        /// Which of the instance's guests: the attempt that first requested it.
        number: u32,
    },
    /// The next update of a host's soft state. The first update of a session is a full report.
    State {
        /// The host that the update is about.
        host: HostId,
        /// The update with its incarnation and sequence number.
        update: Box<NumberedUpdate>,
    },
    /// A heartbeat for several hosts at once.
    Alive {
        /// The hosts that are still up.
        hosts: Vec<HostId>,
    },
}

/// The first message of a host's session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStart {
    /// The host: the UUID of its root provider.
    pub host: HostId,
    /// The host's name, unique over all cells.
    pub name: String,
    /// The session number; greater than those of the host's earlier sessions.
    pub session: u64,
    /// All the guests that the host has: instance and guest number.
    pub guests: Vec<(InstanceId, u32)>,
}

/// A message from a cell to an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum ToAgent {
    /// Orders a step of a build, move or rebuild.
    Step {
        /// The host that has to carry out the step.
        host: HostId,
        /// The session that the order belongs to; an agent ignores orders of other sessions.
        session: u64,
        /// The step, with everything needed to carry it out.
        order: Box<Order>,
    },
    /// Orders that a guest be destroyed; repeated until [`ToCell::Destroyed`] arrives.
    Destroy {
        /// The host that has the guest.
        host: HostId,
        /// The session that the order belongs to; an agent ignores orders of other sessions.
        session: u64,
        /// The instance of the guest.
        instance: InstanceId,
        /// Which of the instance's guests: the attempt that first requested it.
        number: u32,
    },
    /// Asks for a full report of a host's soft state, because an update is missing.
    SendState {
        /// The host whose state is to be sent.
        host: HostId,
    },
    /// The host has no valid session: it was silent for too long, another session replaced it,
    /// or its number is not greater than an earlier one's. The agent has to begin a new session
    /// with a number greater than `after`, unless it has done so already.
    StartAgain {
        /// The host that has to begin a new session.
        host: HostId,
        /// The latest session that the cell knows.
        after: u64,
    },
}
