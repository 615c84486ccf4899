//! Who calls whom in an installation: the names in certificates, and which calls they allow.
//!
//! A certificate names its holder by URIs among its subject alternative names:
//!
//! | URI | holder |
//! | --- | --- |
//! | `placewright://INSTALLATION/control` | control |
//! | `placewright://INSTALLATION/cell/CELL` | a cell |
//! | `placewright://INSTALLATION/cell/CELL/host/HOST` | an agent: a host whose UUID is made of its name |
//! | `placewright://INSTALLATION/cell/CELL/host/HOST/UUID` | an agent: a host with a UUID of its own |
//! | `placewright://INSTALLATION/cell/CELL/host/PREFIX*` | an agent: all hosts whose names begin so |
//! | `placewright://INSTALLATION/cell/CELL/service/NAME` | an agent: a service that looks after several hosts |
//!
//! An agent has as many of the last four as it has hosts; all others have one. Other names in a
//! certificate do not count. `/host/*` is every host of the cell, whatever its UUID.
//!
//! [`Identity`] is what a certificate says, and [`Identity::may`] the one place that decides whether
//! its holder may make a call. Nothing here does any I/O or knows certificates.

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
