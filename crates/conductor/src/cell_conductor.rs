//! The state machine of one cell: instances that their hosts' agents build, move and delete.
//!
//! [`decide`] answers an [`Event`] with changes of the state. [`State::effects`] derives from the state the work that
//! has to be done outside of this state machine. An effect remains until an event removes its reason, so it may be
//! carried out twice, or again after a crash. The state machine reads no clock: times, including time-outs, come with
//! events.
//!
//! An instance has at most one [`Job`], and a job has at most one request under way. A request to
//! an agent carries the instance's attempt, and an answer to another attempt is refused. A request
//! to placement carries a number (see [`crate::claim_request`]). Guests that are no longer wanted
//! are *doomed*: the host of a doomed guest is requested to destroy it until it is reported gone.
//!
//! # The contract of an agent
//!
//! - It increments the number of its session at each start and each new connection, begins each session
//!   with the list of its guests (after removing partly built ones), and refuses steps of other sessions.
//! - Within a session it begins a step of an attempt once. A known attempt is answered again; an
//!   attempt smaller than the greatest known one of the instance is ignored.
//! - It never builds a guest that it was ordered to destroy. Destroying a guest that does not exist,
//!   and building one that does, succeed at once.

mod decide;
mod effect;
mod event;
pub mod state;

pub use decide::{Options, Refusal, decide};
pub use effect::{Effect, EffectPosition, Order};
pub use event::{Event, Failure};
pub use state::{
    Change, Continuation, GuestRef, Host, Instance, Job, JobKind, Meta, Stage, State, Step, Target,
    Undo, VmState,
};
