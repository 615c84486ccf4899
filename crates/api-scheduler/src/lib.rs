//! The scheduler's REST service: it selects hosts for requests, and claims resources there.
//!
//! [`SchedulerService`] runs beside the other REST services, and shares their authentication,
//! policies, limits, metrics and log. `docs/scheduler-api.md` describes the interface.

mod allocation_request;
mod capacity;
mod claims;
mod destinations;
mod fleet;
mod hosts;
mod kept;
mod path;
mod refused;
mod service;
mod shared;

pub use service::SchedulerService;
pub use shared::KeepOptions;
