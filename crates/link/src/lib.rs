//! What the roles of Placewright say to each other, and how they reach each other.
//!
//! - [`CellLink`]: control reaches a cell.
//! - [`PlacementLink`]: a cell reaches placement, the only thing in control that it calls.
//! - [`AgentLink`]: an agent reaches its cell.
//!
//! Each is a trait, so that roles in one process talk through memory and roles on many machines
//! over the network, and neither knows which. Every call may be made twice, and every answer may
//! be lost: the conductors' state machines number what must not happen twice.

mod agent;
mod cell;
mod placement;

use std::future::Future;
use std::pin::Pin;

pub use agent::{AgentConnection, AgentLink, HostStart, ToAgent, ToCell};
pub use cell::{Act, CellLink, CellNews, HostView, InstanceView, JobView};
pub use placement::PlacementLink;
use thiserror::Error;

/// An answer that will come.
pub type Coming<'a, T> = Pin<Box<dyn Future<Output = Result<T, LinkError>> + Send + 'a>>;

/// Why the other side gave no answer. What was asked for may have happened all the same.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// It cannot be reached, or went away.
    #[error("{peer} cannot be reached: {why}")]
    Unreachable {
        /// Who.
        peer: String,
        /// What happened.
        why: String,
    },
    /// It took too long.
    #[error("{peer} did not answer in time")]
    TimedOut {
        /// Who.
        peer: String,
    },
    /// It answered that it cannot: its store fails, say. Asking again later may help.
    #[error("{peer} cannot do it now: {why}")]
    Unavailable {
        /// Who.
        peer: String,
        /// What it said.
        why: String,
    },
    /// It does not understand, or will never do it.
    #[error("{peer} refuses: {why}")]
    Refused {
        /// Who.
        peer: String,
        /// What it said.
        why: String,
    },
}
