//! The conductors of Placewright: they carry each request for an instance out, also after failures and crashes.
//!
//! Two state machines, both pure: no I/O, clock, random number or order of a hash map.
//!
//! - [`super_conductor`]: build requests, cells, mappings, moves. Its decisions are joined with
//!   placement's in [`control`]: a claim and the conductor's record of it are decided by one command.
//! - [`cell_conductor`]: the instances of one cell, the requests to the agents of their hosts, and the retries of
//!   failed builds on alternates.
//!
//! Effects ([`super_conductor::Effect`], [`cell_conductor::Effect`]) are the work that has to be done outside of the
//! machines. They are derived from the state. An effect stays there until a response removes its reason, so it may be
//! carried out once, twice, or again after a crash. [`message`] and [`claim_request`] have the messages between the
//! machines.

pub mod accounts;
pub mod cell_conductor;
pub mod claim_request;
pub mod claims;
pub mod control;
pub mod decision;
pub mod fault;
pub mod ids;
pub mod message;
pub mod quota;
pub mod spec;
pub mod super_conductor;
pub mod table;

pub use claim_request::{ClaimChange, ClaimRequest, ClaimResponse, MoveSide};
pub use control::ControlState;
pub use decision::{Decision, FallenHost, RankingRecord};
pub use fault::{Action, Attempt, Fault};
pub use ids::{CellId, HostId, InstanceId, MigrationId};
pub use message::{Message, MoveDecision, MoveKind, Reply};
pub use quota::{Resource, Usage, UsageAmounts};
pub use spec::{
    Amounts, Candidate, GroupMapping, HardRule, Rules, SharedRow, SharedText, Spec, SpecBody,
};
