//! Who did what: a log with one line of JSON for each write and each refusal for want of rights.
//!
//! Services make an [`Event`] of a request that they answered and offer it to the [`AuditLog`]. That
//! never waits: a thread of its own makes the lines and writes them. What there is no room for is
//! left out, and counted. While a request is carried out, a [`Note`] gathers what only its handler
//! knows: the entry that it made in the journal, and what consumers hold since then.
//!
//! The words are those of CADF (DMTF DSP0262) where they fit.

mod event;
mod line;
mod log;
mod note;
mod queue;
mod sink;

pub use event::{Caller, Event, Outcome, Reason};
pub use log::{AuditLog, AuditLogMetrics, AuditLogOptions, for_process, set_for_process};
pub use note::{Held, Note, Noted, current, scope};
pub use sink::{Destination, OpenError};
