//! The scheduler's REST service: it selects hosts for requests, and claims resources there.
//!
//! [`SchedulerService`] runs beside the other REST services, and shares their authentication,
//! policies, limits, metrics and log. `docs/scheduler-api.md` describes the interface.

mod aggregates;
mod allocation_request;
mod capacity;
mod claims;
mod count_permits;
mod decisions;
mod destinations;
mod discovery;
mod error_response;
mod hosts;
mod path;
mod service;
mod shared;
mod topology_rules;

pub use placewright_control::destinations::KeepOptions;
pub use service::SchedulerService;
