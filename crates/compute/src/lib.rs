//! The Compute REST API of Placewright: the part of OpenStack Compute v2.1 that places and shows
//! things.
//!
//! [`ComputeService`] answers requests; it knows no sockets, so tests call
//! [`ComputeService::handle`]. Who is calling, policies, limits and metrics are the placement
//! service's. Each write is one command of control ([`placewright_control::Conductor`]); reads are
//! computed from control's state and what the cells said last. This crate decides nothing about
//! places: it checks the form of what clients send and words what the states answer.
//!
//! A file is a resource: [`routes`](mod@self) is the table of them. `docs/compute-api.md` says what
//! is honoured.

mod admin;
mod call;
mod error;
mod fields;
mod flavors;
mod images;
mod options;
mod page;
mod query;
mod routes;
mod servers;
mod service;
mod slices;
mod time;
mod topology;
mod version;
mod versions;

pub use images::{Images, ImagesError};
pub use options::{ComputeOptions, Limits};
pub use service::ComputeService;
