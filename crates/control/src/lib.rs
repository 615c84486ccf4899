//! The runtime of control: everything around the state machine [`placewright_conductor::control`].
//!
//! - [`Conductor`] is the handle that APIs use: commands, reads, operations of cells.
//! - It answers the cells' requests to placement ([`placewright_link::PlacementLink`]).
//! - [`Views`] holds the cells' latest reports.
//! - [`Runtime`] carries out what the state calls for (`wanted`): it selects hosts (`place`,
//!   `plan`), sends messages to cells (`outbox`), follows cells (`cells`), and passes to the
//!   scheduler what operators, cells and agents report of hosts (`fleet`, `signs`).
//! - It searches for inconsistencies (`audit`), and repairs them on request (`auditor`, `mend`).

mod asks;
mod audit;
mod auditor;
mod body;
mod cells;
mod clock;
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
pub use clock::{Clock, now};
pub use conductor::{Answer, Conductor};
pub use options::Options;
pub use runtime::{AddCellError, CellConfig, Runtime};
pub use views::{CellView, Views};
