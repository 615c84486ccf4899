//! The links between the roles of Placewright over the network, with gRPC.
//!
//! For each trait of `placewright_link` there is a client that implements it ([`CellClient`],
//! [`PlacementClient`], [`AgentClient`], [`ReplicaClient`], [`CertificatesClient`]), and [`serve`] exposes any other
//! implementation of the trait to such clients. So neither side knows whether the other is in its process.
//!
//! - Agents and cells exchange typed messages (`proto/placewright/agent.proto`), so that others can
//!   write agents.
//! - Control and cells exchange versioned payloads (`proto/placewright/cell.proto`).
//! - Replicas hand over versioned commands (`proto/placewright/replica.proto`).
//! - A client connects when it is first used, and reconnects after it lost its server. Its caller repeats calls that
//!   failed and streams that ended.
//! - A message that cannot be decoded is rejected with a reason and changes nothing.
//! - With credentials, connections have TLS, both sides show a certificate, and every call is checked against the names
//!   in its caller's certificate (`access.rs`, `agent/authorized_stream.rs`). There are two exceptions: the caller of
//!   an enrolment has no certificate, and callers over loopback that have the shared token may connect without TLS.
//!   Without credentials nothing is encrypted, and each call has to carry the shared token if there is one; this is
//!   meant for connections over loopback.

mod access;
mod addresses;
mod agent;
mod cell;
mod certificates;
mod channel;
mod connection;
mod connector;
mod error;
mod limited_connection;
mod limits;
mod payload;
mod peer;
mod placement;
mod refusals;
mod replica;
mod serve;
mod token;
mod versions;

/// Code generated from the `.proto` files. It is committed, because its generator takes longer to build
/// than this crate; `tests/rpc/generated.rs` checks that it is up to date.
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
    /// Messages and service of `replica.proto`, between replicas.
    #[allow(
        missing_docs,
        unreachable_pub,
        clippy::all,
        clippy::too_many_lines,
        clippy::allow_attributes_without_reason,
        reason = "generated"
    )]
    pub mod replica {
        include!("../generated/placewright.replica.v1.rs");
    }
}

pub use agent::AgentClient;
pub use cell::CellClient;
pub use certificates::{CertificatesClient, EnrolError, enrol, to_issued};
pub use channel::{ClientOptions, EndpointError};
pub use connector::{ClientIdentity, ServerRole};
pub use placement::PlacementClient;
pub use replica::ReplicaClient;
pub use serve::{ServeError, ServeOptions, Services, serve};
pub use token::{Token, TokenError};

/// The oldest version of the agents' protocol that this release supports.
pub const PROTOCOL_OLDEST: u32 = 1;
/// The newest version of the agents' protocol that this release supports.
pub const PROTOCOL_VERSION: u32 = 1;

/// The newest version of the payloads between control and cells that this release supports.
pub const PAYLOAD_VERSION: u32 = placewright_records::message::Versions::SUPPORTED.newest;
