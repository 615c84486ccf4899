//! The identities of roles: the names in their certificates, and the calls that these allow.
//!
//! A certificate names its holder by URIs among its subject alternative names:
//!
//! | URI | holder |
//! | --- | --- |
//! | `placewright://INSTALLATION/control` | control |
//! | `placewright://INSTALLATION/cell/CELL` | a cell |
//! | `placewright://INSTALLATION/cell/CELL/host/HOST` | an agent: a host whose UUID is derived from its name |
//! | `placewright://INSTALLATION/cell/CELL/host/HOST/UUID` | an agent: a host with a UUID of its own |
//! | `placewright://INSTALLATION/cell/CELL/host/PREFIX*` | an agent: all hosts whose names begin with PREFIX |
//! | `placewright://INSTALLATION/cell/CELL/service/NAME` | an agent: a service host of several hosts |
//!
//! The certificate of an agent has at least one URI with `host` and any number with `service`, all of the same cell and
//! at most [`NAMES_MAX`] together; certificates of other roles have one URI. A URI with this scheme that is in none of
//! these forms is an error. URIs with other schemes, DNS names and addresses say nothing about the identity. `/host/*`
//! means every host of the cell, whatever its UUID.
//!
//! [`Identity`] is parsed from the URIs of a certificate, and [`Identity::check_call`] decides whether its
//! holder may make a call. This crate does no I/O, and does not parse certificates.

mod call;
mod host;
mod identity;
mod text;

pub use call::{Call, Refusal};
pub use host::HostPattern;
pub use identity::{AgentNames, Identity, NAMES_MAX, Role};
pub use text::NameError;

/// The scheme of the URIs.
pub const SCHEME: &str = "placewright";
