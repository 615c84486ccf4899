//! The scheduler of the running control plane, behind its lock, and explanations of why it finds no host.
//!
//! [`SchedulerHandle`] is the handle on it. The soft state that hosts report is kept in memory
//! only.

mod explanation;
mod explanation_cache;
mod handle;
mod refusal_reason;

pub use explanation::{NoHostExplanation, SiblingPlacements};
pub use explanation_cache::{ExplanationTime, QueryExplanation};
pub use handle::{ExplanationTexts, SchedulerHandle, claim_refusal_json, prepare_refusal_json};
pub use refusal_reason::RefusalReason;
