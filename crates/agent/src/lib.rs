//! The compute agent: looks after hosts, and builds instances on them through a [`Driver`].
//!
//! An [`Agent`] looks after one host or after thousands. It says to placement what they have
//! ([`placement`]), to their cell how they are and what became of what it asked for, and it has a
//! driver do the work.
//!
//! - [`host`] is the state machine of one host: pure, and all rules are in it.
//! - [`agent`] runs many of them: connection, heartbeats, soft state, the driver's work.
//! - [`record`] keeps which guests there are, so that a restarted agent knows them.
//! - [`simulated`] and [`command`] are the drivers.

pub mod agent;
pub mod command;
pub mod description;
pub mod driver;
pub mod host;
pub mod placement;
mod private;
pub mod record;
pub mod simulated;

pub use agent::{Agent, AgentError, Options};
pub use description::HostDescription;
pub use driver::{Driver, DriverError, Task, Verb};
