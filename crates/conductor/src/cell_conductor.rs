//! The instances of one cell: built, moved, deleted by their hosts' agents.
//!
//! [`decide`] answers an [`Event`] with facts; [`State::effects`] says what is to be done outside
//! because of the state as it is. An effect is wanted until an event takes its reason away, so it
//! may be carried out twice, or again after a crash. Times come with events, time-outs too.
//!
//! An instance has at most one [`Job`], and a job asks for one thing at a time. What an agent is
//! asked for carries the instance's attempt, and an answer of another attempt is refused. What
//! placement is asked for carries a number (see [`crate::ask`]). Guests that are not wanted any
//! more are *doomed*: their hosts are asked to destroy them until they say that they have.
//!
//! # What an agent has to keep to
//!
//! - It counts its sessions up at each start and each new connection, begins each with the guests
//!   that it has (partly built ones it removes before), and refuses steps of other sessions.
//! - Within a session it begins a step of an attempt once. An attempt that it knows is answered
//!   again; one smaller than the greatest that it knows of the instance is ignored.
//! - It never builds a guest that it was told to destroy. Destroying what it does not have, and
//!   building what it has, is done at once.

mod decide;
mod effect;
mod event;
pub mod state;

pub use decide::{Options, Refusal, decide};
pub use effect::{Effect, EffectPlace, Order};
pub use event::{Event, Failure};
pub use state::{
    Change, Host, Instance, Job, JobKind, Meta, Next, Place, Stage, State, Step, Target, Undo,
    VmState,
};
