//! What schedulers, agents, cells and clients tell each other: requests, and the state of hosts.
//!
//! Plain data with its checks. How a request is translated, and where it goes, is the business of
//! `placewright-scheduler`; agents, cells and clients need only these types and do not link it.

pub mod cpu_set;
pub mod error;
pub mod extra_spec;
pub mod flavor;
pub mod host_name;
pub mod host_state;
pub mod image;
pub mod platform;
pub mod request;
pub mod server;
pub mod text;
