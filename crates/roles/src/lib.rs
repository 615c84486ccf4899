//! The roles of Placewright, assembled from the other crates: control with its APIs, a cell, an agent,
//! and all of them in one process.
//!
//! Each role has a function that checks the configuration, opens stores and sockets, connects the parts,
//! and serves until a signal ends it. The program `placewright` only chooses the role. Tests and
//! `placewright-bench` use parts of this crate without starting a process.
//!
//! - [`options`] is the table of all options; [`config`] reads their values, from a file, the
//!   environment and flags.
//! - [`control`], [`cell`], [`agent`] and [`up`] are the roles. `control` also has what all of them
//!   share: logs, signals, sockets, limits of descriptors, systemd.
//! - `identities` loads and renews the certificates of the roles of this process.
//! - [`in_process`] is the Placement API without sockets, and replicas of control that reach each other in memory.

pub mod agent;
mod audit_log;
pub mod cell;
pub mod config;
pub mod control;
mod handshakes;
mod identities;
pub mod in_process;
pub mod options;
pub mod output;
mod replica;
pub mod secrets;
mod small_pages;
mod store;
mod traces;
pub mod up;
mod warnings;

pub use small_pages::use_small_pages;
pub use store::Store;

/// The environment variable that names the program `placewright` to those that start it: benchmarks and
/// the scripts under `tests/`. It is no option.
pub const PROGRAM_VARIABLE: &str = "PLACEWRIGHT_BIN";
