//! The links between the roles of Placewright over the network, with gRPC.
//!
//! For each trait of `placewright_link` there is a client that implements it, and [`serve`] exposes
//! any implementation of it: [`CellClient`], [`PlacementClient`], [`AgentClient`]. So neither side
//! knows whether the other is in its process.
//!
//! - Agents speak typed messages (`proto/placewright/agent.proto`), so that others can write agents.
//! - Control and cells speak versioned payloads (`proto/placewright/cell.proto`).
//! - A client connects when it is first used, and again after it lost its server. The caller has to
//!   repeat calls that failed, and to open streams again that ended.
//! - A message that cannot be decoded is rejected with a reason and changes nothing.
//! - With credentials, connections have TLS, both sides show a certificate, and every call is checked
//!   against the names in its caller's (`access.rs`, `speaker.rs`). Without, a shared token is checked for
//!   every call when there is one, and nothing is encrypted: that is for loopback.

mod access;
mod agent;
mod bounds;
mod cell;
mod certificates;
mod channel;
mod connection;
mod connector;
mod error;
mod guarded;
mod payload;
mod peer;
mod placement;
mod refusals;
mod serve;
mod speaker;
mod token;
mod versions;

/// Code generated from the `.proto` files. It is kept in `generated/`, because its generator takes longer to
/// build than this crate; `tests/generated.rs` compares them.
pub mod proto {
    /// Messages and service of `agent.proto`, between agents and cells.
    #[allow(
        missing_docs,
        unreachable_pub,
        clippy::all,
        clippy::too_many_lines,
        clippy::allow_attributes_without_reason,
        reason = "generated"
    )]
    pub mod agent {
        include!("../generated/placewright.agent.v1.rs");
    }
    /// Messages and services of `cell.proto`, between control and cells.
    #[allow(
        missing_docs,
        unreachable_pub,
        clippy::all,
        clippy::too_many_lines,
        clippy::allow_attributes_without_reason,
        reason = "generated"
    )]
    pub mod cell {
        include!("../generated/placewright.cell.v1.rs");
    }
    /// Messages and service of `certificates.proto`, between holders of certificates and their authority.
    #[allow(
        missing_docs,
        unreachable_pub,
        clippy::all,
        clippy::too_many_lines,
        clippy::allow_attributes_without_reason,
        reason = "generated"
    )]
    pub mod certificates {
        include!("../generated/placewright.certificates.v1.rs");
    }
}

pub use agent::AgentClient;
pub use cell::CellClient;
pub use certificates::{CertificatesClient, EnrolError, enrol, issued};
pub use channel::{ClientOptions, EndpointError};
pub use connector::{ClientIdentity, ServerRole};
pub use placement::PlacementClient;
pub use serve::{ServeError, ServeOptions, Services, serve};
pub use token::{Token, TokenError};

/// The oldest and the newest version of the agents' protocol that this release speaks.
pub const PROTOCOL_OLDEST: u32 = 1;
/// See [`PROTOCOL_OLDEST`].
pub const PROTOCOL_VERSION: u32 = 1;

/// The newest version of the payloads between control and cells that this release speaks. Each is
/// declared in `placewright_records`.
pub const PAYLOAD_VERSION: u32 = placewright_records::message::Versions::SUPPORTED.newest;
