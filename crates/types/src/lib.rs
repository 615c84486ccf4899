//! The data that schedulers, agents, cells and clients exchange: requests, the specifications of
//! servers, and the state of hosts.
//!
//! The types are plain data with validation. Requests are translated and scheduled by
//! `placewright-scheduler`; agents, cells and clients need only these types and do not link it.

pub mod cpu_set;
pub mod error;
pub mod extra_spec;
pub mod flavor;
pub mod host_name;
pub mod host_state;
pub mod image;
pub mod limits;
pub mod platform;
pub mod ranking;
pub mod request;
pub mod server;
pub mod text;
