//! The Compute REST API of Placewright: the part of OpenStack Compute v2.1 that places and shows
//! servers.
//!
//! [`ComputeService`] answers requests without sockets, so tests call [`ComputeService::handle`].
//! Authentication, policies, limits and metrics are those of the [`Gateway`](placewright_http::Gateway)
//! that all REST services share. Each write is one command to control
//! ([`placewright_control::ControlHandle`]); reads are computed from control's state and the latest
//! reports of the cells. This crate selects no hosts: it checks requests and formats responses.
//!
//! There is one file for each resource; `routes.rs` is the table of paths and their handlers.
//! `docs/compute-api.md` lists what is supported.

mod admin;
mod api_state;
mod cost;
mod device_profiles;
mod discovery;
mod error;
mod fields;
mod flavors;
mod image_lookup;
mod images;
mod not_offered;
mod operator_file;
mod options;
mod page;
mod query;
mod routed_request;
mod routes;
mod servers;
mod service;
mod slices;
mod time;
mod topology;
mod version;

pub use device_profiles::{DeviceProfiles, DeviceProfilesError};
pub use images::{Images, ImagesError};
pub use options::{ALL_LEVELS, ComputeOptions, Limits, VisibleTopology};
pub use service::ComputeService;
