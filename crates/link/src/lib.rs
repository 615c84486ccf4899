//! The interfaces between the roles of Placewright, and the messages that they exchange.
//!
//! - [`CellLink`]: control reaches a cell.
//! - [`PlacementLink`]: a cell's conductor reaches placement, the only part of control that it calls.
//! - [`AgentLink`]: an agent reaches its cell.
//! - [`ReplicaLink`]: a replica of control, or of a cell, reaches the one that leads, and the others.
//! - [`CertificateLink`]: holders of certificates reach their authority.
//!
//! Each is a trait, so that roles in one process talk through memory and roles on different machines over the network,
//! and the callers' code is the same. Every call may be made twice, and every answer may be lost: the conductors' state
//! machines number every request that must not take effect twice.

mod agent;
mod cell;
mod certificates;
mod placement;
mod replica;

use std::future::Future;
use std::pin::Pin;

pub use agent::{AgentConnection, AgentLink, SessionStart, ToAgent, ToCell};
pub use cell::{CellEvent, CellLink, CellOperation, HostView, InstanceView, JobView};
pub use certificates::{CertificateLink, Certified, Enrolment, Renewal};
pub use placement::PlacementLink;
pub use replica::{
    CommandVersions, EntryBatch, FollowStart, FromLeader, HandedCommand, HandedFailure,
    HandedOutcome, Leader, LeaderConnection, LeaderNews, PostedUpdate, ReplicaAddress,
    ReplicaIdentity, ReplicaLink, ToLeader,
};
use thiserror::Error;

/// The future of a link's answer, boxed so that the traits can be used as objects.
pub type LinkFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, LinkError>> + Send + 'a>>;

/// Why a call failed. If there was no answer (`Unreachable`, `TimedOut`), the requested change may have
/// been made nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// No connection could be made, or the connection was lost.
    #[error("{peer} cannot be reached: {why}")]
    Unreachable {
        /// The name and address of the role that was called.
        peer: String,
        /// The error of the connection.
        why: String,
    },
    /// No answer came within the time-out.
    #[error("{peer} did not answer in time")]
    TimedOut {
        /// The name and address of the role that was called.
        peer: String,
    },
    /// The peer cannot answer at present, for instance because its store fails. A retry may
    /// succeed.
    #[error("{peer} cannot do it now: {why}")]
    Unavailable {
        /// The name and address of the role that was called.
        peer: String,
        /// The reason that the peer gave.
        why: String,
    },
    /// The peer is a replica of its role that does not lead, and the request needs the one that does. The request had
    /// no effect.
    #[error("{peer} does not lead{}", leader_text(leader.as_deref()))]
    NotLeading {
        /// The name and address of the role that was called.
        peer: String,
        /// Where the replica that leads is reached, as far as the peer knows.
        leader: Option<String>,
    },
    /// The peer rejected the request; a retry of the same request will fail again.
    #[error("{peer} refuses: {why}")]
    Refused {
        /// The name and address of the role that was called.
        peer: String,
        /// The reason that the peer gave.
        why: String,
    },
}

fn leader_text(leader: Option<&str>) -> String {
    leader.map_or_else(String::new, |leader| format!("; {leader} does"))
}
