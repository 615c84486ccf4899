//! The scheduler of the running control plane, behind its lock, and why it finds no host.
//!
//! [`Ranker`] is the handle on it. The soft state that hosts report is kept in memory only.

mod cause;
mod ranker;
mod reasons;
mod why;

pub use cause::Cause;
pub use ranker::{Explained, Ranker, cause_of, cause_of_claim};
pub use reasons::{Moment, Reason};
pub use why::{Beside, Why};
