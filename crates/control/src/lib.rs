//! Control's runtime: everything around the state machine that [`placewright_conductor::control`]
//! is.
//!
//! - [`Conductor`] is the handle that APIs use: commands, reads, acts of cells.
//! - It answers what cells ask of placement ([`placewright_link::PlacementLink`]).
//! - [`Views`] is what the cells said last.
//! - [`Runtime`] carries out what the state wants to have done (`wanted`): finds places (`place`,
//!   `plan`), tells cells (`outbox`), follows them (`cells`), and tells the scheduler what operators,
//!   cells and agents say of hosts (`fleet`, `signs`).
//! - It looks for what does not add up (`audit`), and mends it when told to (`auditor`).

mod asks;
mod audit;
mod auditor;
mod body;
mod cells;
mod conductor;
mod fleet;
mod mend;
mod options;
mod outbox;
mod place;
mod plan;
mod runtime;
mod signs;
mod views;
mod wanted;

pub use audit::{Finding, Kind};
pub use auditor::{AuditMetrics, Audited};
pub use conductor::{Answer, Conductor, now};
pub use options::Options;
pub use runtime::{AddCellError, CellConfig, Runtime};
pub use views::{CellView, Views};
