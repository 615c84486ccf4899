//! The conductors of Placewright: from a request to a running instance, and nothing lost on the
//! way.
//!
//! Two state machines, both pure: no I/O, clock, random number or order of a hash map.
//!
//! - [`super_conductor`]: build requests, cells, mappings, moves. Its decisions are joined with
//!   placement's in [`control`]: a claim and the record that explains it are one command.
//! - [`cell_conductor`]: the instances of one cell, what their hosts are asked for, and how a
//!   failed build goes to the next alternate.
//!
//! What has to be done outside ([`super_conductor::Effect`], [`cell_conductor::Effect`]) is read
//! off the state. It stays there until an answer takes it away, so whoever carries effects out may
//! do so once, twice, or again after a crash. [`message`] and [`ask`] are what the machines say to
//! each other.

pub mod ask;
pub mod cell_conductor;
pub mod claims;
pub mod control;
pub mod fault;
pub mod ids;
pub mod message;
pub mod spec;
pub mod super_conductor;
pub mod table;

pub use ask::{Answer, Ask, Keep, Want};
pub use control::Control;
pub use fault::{Action, Fault, Try};
pub use ids::{CellId, HostId, InstanceId, MigrationId};
pub use message::{Message, MoveKind, Reply, Verdict};
pub use spec::{Amounts, Body, Candidate, HardRule, Rules, Spec};
