//! The running control plane: everything around the state machine
//! [`placewright_conductor::control`]. It knows nothing of HTTP.
//!
//! - [`ControlMachine`] is that state machine in the form that the engine runs.
//! - [`Placement`] and [`SchedulerHandle`] are the handles on placement and on the scheduler, for
//!   APIs.
//! - [`ControlHandle`] is the handle that APIs use: commands, reads, operations that a cell decides alone.
//! - Control answers the cells' requests to placement ([`placewright_link::PlacementLink`]).
//! - [`Views`] holds the cells' latest reports.
//! - [`Runtime`] carries out the work that the state calls for (`pending_work`): it makes the placer select hosts
//!   (`placement_queue`, `plan`), sends messages to cells (`outbox`), follows cells (`cell_follower`), and passes the
//!   reports of operators, cells and agents about hosts to the scheduler (`fleet`, `availability`).
//! - [`placer`] ranks hosts, claims them, and searches again when other claims were faster.
//! - [`destinations`] selects and claims hosts for instances that other systems build.
//! - [`accounts`]: the first accounts, and tokens that control issues itself, for an installation without Keystone.
//! - Quotas: the usage of instances, and the limits of the configuration and of Keystone (`quotas`).
//! - [`PastStates`] rebuilds earlier states from what the journal still holds.
//! - Audits search for inconsistencies (`audit`), which are repaired on request ([`Auditor`],
//!   `repair`).

pub mod accounts;
mod audit;
mod auditor;
mod availability;
mod body;
mod cell_follower;
mod cell_rights;
mod cell_services;
mod claim_requests;
mod clock;
mod decisions;
pub mod destinations;
mod explanation;
mod finding;
mod first_builds;
mod fleet;
mod foreign;
mod handle;
mod leading;
mod machine;
mod options;
mod other_replicas;
mod outbox;
mod past;
mod pending_work;
mod placement;
mod placement_metrics;
mod placement_queue;
mod placement_span;
pub mod placer;
mod plan;
mod quotas;
mod rankers;
mod repair;
mod replica_metrics;
mod replica_report;
mod requested_allocations;
mod runtime;
mod runtime_context;
mod scheduler;
mod secrets;
mod views;

pub use auditor::{AuditMetrics, AuditReport, Auditor};
pub use cell_services::{CellServices, HostVersion};
pub use clock::{Clock, now};
pub use decisions::{ShownDecisions, shown_decisions};
pub use explanation::to_json as explanation_json;
pub use finding::{Finding, FindingKind};
pub use handle::{CommandAnswer, ControlHandle};
pub use machine::ControlMachine;
pub use options::{Options, RepairOptions};
pub use other_replicas::OtherReplicas;
pub use past::{HeldRange, Moment, PastFailure, PastStates};
pub use placement::{ClaimMetrics, CommitError, Placement, submit_placement};
pub use placement_metrics::PlacementMetrics;
pub use quotas::{LimitSource, UnifiedLimits, usage_of};
pub use replica_metrics::register_replica_metrics;
pub use replica_report::{FollowerReport, Leader, LostEntries, ReplicaReport, Role};
pub use runtime::{AddCellError, CellConfig, Runtime};
pub use scheduler::{
    ExplanationTexts, ExplanationTime, NoHostExplanation, QueryExplanation, RefusalReason,
    SchedulerHandle, SiblingPlacements, claim_refusal_json, prepare_refusal_json,
};
pub use views::{CellView, Views};
