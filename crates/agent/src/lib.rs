//! The compute agent: manages hosts, and builds instances on them through a [`Driver`].
//!
//! An [`Agent`] manages one host or thousands. It reports their inventories to placement
//! ([`placement`]), reports their state and the results of orders to their cell, and lets a driver
//! do the work.
//!
//! - [`host`] is the state machine of one host, without I/O, with all rules of the protocol.
//! - [`agent`] runs many of these state machines: the connection to the cell, heartbeats, soft state,
//!   and the driver's work.
//! - [`guest_log`] stores the guests on disk, so that a restarted agent knows them.
//! - [`simulated`] and [`command`] are the drivers.

pub mod agent;
pub mod command;
pub mod description;
pub mod driver;
mod file_lock;
pub mod guest_log;
pub mod host;
pub mod placement;
mod private_files;
pub mod simulated;

pub use agent::{Agent, AgentError, Options};
pub use description::HostDescription;
pub use driver::{Driver, DriverError, DriverRequest, Operation};
