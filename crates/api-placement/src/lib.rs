//! The Placement REST API (microversions 1.0 to 1.39), and Placewright's own pages beside it.
//!
//! [`PlacementService`] knows no sockets, so tests call [`PlacementService::handle`];
//! [`placewright_http::Server`] puts it on TCP. What a request changes goes through the engine as one
//! command; what it reads is computed from the state in memory. This crate decides nothing about
//! resources: it validates requests, and formats the decisions and the contents of the state.

mod accept;
mod call;
mod candidate_texts;
mod checks;
mod followers;
mod json;
mod microversion;
mod options;
mod own;
mod pattern;
mod python;
mod query;
mod refusals;
mod render;
mod resources;
mod routes;
mod schema;
mod schemas;
mod service;
mod shared;
mod uuids;

pub use microversion::{Microversion, VersionError};
pub use options::{CandidateOptions, PlacementOptions};
pub use shared::PlacementService;
