//! A cell at work: it keeps its instances, has its hosts' agents build and move them, and asks
//! placement for what they hold. It calls nobody else.
//!
//! The rules are in `placewright_conductor::cell_conductor`, a pure state machine. This runs it:
//!
//! ```text
//! control ─CellLink─▶ ┌───────────────────────┐ ─▶ orders, by the host's connection ─▶ agents
//! agents ─AgentLink─▶ │ events ─▶ engine      │ ─▶ asks, many at once ─▶ placement
//! placement's answers │ durable changes ─▶ out│ ─▶ news ─▶ followers
//!                     └───────────────────────┘
//! ```
//!
//! - Nothing goes out before what causes it is durable (`outbox`).
//! - Whatever goes out may be lost: what stays unanswered is asked for again (`timers`).
//! - Events that agents tell are submitted and not waited for: if the store fails, the agent is
//!   asked again and answers again.
//! - Nobody's slowness is anybody else's: what an agent does not take is dropped and asked for
//!   again, news for a slow follower are merged, and a follower that takes nothing is cut off.
//!
//! The soft states of hosts pass by the engine: [`window`] puts each host's updates in order,
//! [`report`] merges them, and followers get them change by change or, when they are slow, merged.

mod agents;
mod asks;
mod cell;
mod due;
mod feed;
mod follow;
mod known;
mod machine;
mod options;
mod outbox;
pub mod report;
mod shared;
mod timers;
pub mod window;

pub use cell::{Cell, OpenError};
pub use machine::{CellMachine, Happened};
pub use options::Options;
pub use shared::Figures;
