//! Admission control of the REST services, on the model of Kubernetes' API Priority and Fairness: which
//! request runs now, which waits, and which is refused.
//!
//! Requests belong to priority levels. Each level has its own *seats*, the number of requests that run at
//! a time, so that no level takes those of another one.
//!
//! - Requests for health and metrics are never queued, and this crate does not see them. It does not see the calls
//!   between roles either, which use gRPC.
//! - [`SeatCounter`] is the level of operators and services. Taking a free seat is one atomic operation.
//! - [`TenantLevel`] is the level of tenants. Projects get fair shares of its seats, and the users of
//!   a project get fair shares of what the project gets.
//!
//! This crate is pure: it has no clock, no I/O and no threads. The caller passes the time to it, counted from a
//! moment that the caller chooses, the same one in all calls.

mod cost;
mod fair_pool;
mod options;
mod pool;
mod pool_kind;
mod recent_projects;
mod refusal;
mod seat;
mod seat_counter;
mod tenant_level;

pub use cost::{Kind, LaterWork};
pub use options::{AdmissionOptions, Seats};
pub use pool_kind::PoolKind;
pub use refusal::Refusal;
pub use seat::{IncomingRequest, Seat};
pub use seat_counter::{Entrance, Exit, SeatCounter};
pub use tenant_level::{Arrival, Departure, PoolStatus, TenantLevel, Ticket};
