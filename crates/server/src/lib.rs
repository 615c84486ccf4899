//! The HTTP services of Placewright.
//!
//! [`Service`] answers requests of the Placement REST API (microversions 1.0 to 1.39) and of
//! Placewright's own pages; it knows no sockets, so tests call [`Service::handle`].
//! [`placewright_http::Server`] puts it on TCP. What a request changes goes through the engine as one
//! command; what it reads is computed from the state in memory. This crate decides nothing about
//! resources: it validates requests, and formats the decisions and the contents of the state.

mod http;
mod options;
mod scheduler;

pub use http::microversion::{Microversion, VersionError};
pub use http::service::Service;
pub use options::{CandidateOptions, PlacementOptions};
pub use scheduler::{KeepOptions, SchedulerService};
