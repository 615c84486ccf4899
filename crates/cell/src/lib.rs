//! The runtime of a cell: it stores the cell's instances, orders their builds and moves from the
//! hosts' agents, and requests their claims from placement. The runtime calls nothing else of control.
//!
//! The rules are in `placewright_conductor::cell_conductor`, a pure state machine. This crate runs
//! it:
//!
//! ```text
//! control ──CellLink──▶ ┌───────────────────────────┐ ─▶ orders, by the host's connection ─▶ agents
//! agents ──AgentLink──▶ │ events ─▶ engine          │ ─▶ claim requests, many at once ─▶ placement
//! placement's responses │ durable changes ─▶ outbox │ ─▶ changed views ─▶ followers
//!                       └───────────────────────────┘
//! ```
//!
//! - No message is sent before the change that causes it is durable (`outbox`).
//! - Every message may be lost: one that is not answered is repeated (`timers`).
//! - Events from agents are submitted without waiting for the result: if the store fails, the order
//!   to the agent is repeated, and the agent answers it again.
//! - A slow peer does not delay others: messages that an agent does not receive in time are dropped and repeated,
//!   events for a slow follower are merged, and a follower that receives nothing is disconnected.
//!
//! Of several replicas one works as the cell (`active`), and the others stand by (`leadership`). State that is only in
//! memory is dropped when the replica does not lead any more.
//!
//! The soft state of hosts does not go through the engine: [`window`] puts each host's updates in
//! order, [`report`] merges them, and followers receive them one by one or, when slow, merged.

mod active;
mod agents;
mod build_span;
mod cell;
mod claim_queue;
mod claim_requests;
mod counters;
mod follow;
mod follower_queue;
mod leadership;
mod machine;
mod metrics;
mod options;
mod outbox;
mod read_model;
pub mod report;
mod retry_schedule;
mod secrets;
mod shared;
mod timers;
pub mod window;

pub use cell::{Cell, OpenError};
pub use machine::{CellMachine, TimedEvent};
pub use metrics::CellMetrics;
pub use options::{Options, RECENT_BYTES_MAX};
