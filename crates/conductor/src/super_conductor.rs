//! What control knows of cells and instances, and how a request finds its cell.
//!
//! [`decide`] answers a [`Command`] with facts, on this state and placement's: a claim and the
//! record that explains it are decided together, so that no moment has one without the other.
//! [`State::effects`] says what is to be done outside because of the state as it is.
//!
//! An instance is known by its build request until its cell has it, by its mapping from the first
//! to the last moment. Whoever removes the build request while it waits decides between a delete
//! and a build: there is one order.

mod command;
mod decide;
mod effect;
mod listing;
pub mod state;

pub use command::{Bound, Command, NewBuild, Outcome, RebuildEvent, Refusal, Wish};
pub use decide::decide;
pub use effect::Effect;
pub use listing::{ListKey, Listing};
pub use state::{
    Aggregate, BuildRequest, BuildStage, Buried, Cell, Change, Deletion, Flavor, GroupTopology,
    HostMapping, Keypair, Labels, Lock, Mapping, Migration, MigrationStatus, Move, MoveStage,
    Rebuild, ServerGroup, Service, State, Undo,
};
