//! The audit log: a line of JSON for each request that may change something, and for each request that is refused for
//! missing or wrong credentials, or for missing rights.
//!
//! A service makes an [`Event`] of each such request when it is answered, and offers the event to the [`AuditLog`],
//! which never waits: a thread of its own formats the lines and writes them. Events for which the queue has no space
//! are left out and counted. While a request is carried out, a [`Note`] collects the facts that only the request's
//! handler knows: the entry in the journal, and the allocations of consumers after it.
//!
//! The lines follow the CADF standard (DMTF DSP0262) where it has a field for a value.

mod event;
mod line;
mod log;
mod note;
mod queue;
mod sink;

pub use event::{Caller, Event, Outcome, Reason};
pub use log::{AuditLog, AuditLogMetrics, AuditLogOptions, process_log, set_process_log};
pub use note::{HeldAllocations, Note, RequestNotes, current_note, with_note};
pub use sink::{Destination, OpenError};
