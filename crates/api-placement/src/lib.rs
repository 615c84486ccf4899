//! The Placement REST API (microversions 1.0 to 1.39), and Placewright's own pages on its port.
//!
//! [`PlacementService`] is independent of sockets: tests call [`PlacementService::handle`], and
//! [`placewright_http::Server`] serves it over TCP. A request that changes something becomes one command
//! to the engine; a request that reads is answered from the state in memory. This crate decides nothing
//! about resources: it validates requests, and formats decisions and the contents of the state.

mod accept;
mod candidate_texts;
mod checks;
mod follower_limits;
mod json;
mod microversion;
mod options;
mod pages;
mod pattern;
mod python;
mod query;
mod refusals;
mod render;
mod resources;
mod routed_request;
mod routes;
mod schema;
mod schemas;
mod service;
mod shared;
mod uuids;

pub use microversion::{Microversion, VersionError};
pub use options::{CandidateOptions, PlacementOptions};
pub use shared::{HandOver, ListFollowers, PlacementService, ReportCellServices};
