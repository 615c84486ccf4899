//! The state machine of placement: which inventories providers have, which consumers hold
//! allocations of them, and which candidates can serve a query.
//!
//! [`State`] is plain data. [`decide`] reads it and a [`Command`], and returns [`Change`]s and an
//! [`Outcome`], or a typed [`Refusal`]. [`State::apply`] carries out a change and cannot fail; it
//! returns the data that undoes the change. None of them does I/O, reads the time or draws a random
//! number, and no result depends on the order of a hash map: times and UUIDs are part of the
//! command.
//!
//! ```
//! use placewright_placement::{Command, State, Timestamp, decide};
//!
//! let mut state = State::default();
//! let mut changes = Vec::new();
//! let command = Command::CreateProvider {
//!     uuid: uuid::Uuid::from_u128(1),
//!     name: "host1".into(),
//!     parent: None,
//!     at: Timestamp::from_seconds(1),
//! };
//! decide(&state, &command, &mut changes).expect("nothing stands in its way");
//! for change in &changes {
//!     state.apply(change);
//! }
//! assert_eq!(state.provider_count(), 1);
//! ```

pub mod apply;
pub mod candidates;
pub mod change;
pub mod column;
pub mod command;
mod consumer_index;
pub mod decide;
pub mod explain;
pub mod group;
mod hash;
pub mod ids;
pub mod intern;
pub mod inventory;
pub mod names;
pub mod place_names;
mod places;
pub mod provider_query;
pub mod refusal;
mod ring;
pub mod rows;
pub mod slot_set;
pub mod slots;
pub mod snapshot;
pub mod state;
pub mod tree_changes;

pub use apply::Undo;
pub use candidates::{
    CandidateQuery, CandidateSearch, CandidateView, Candidates, GroupPolicy, HostRoom, HostSearch,
    HostWord, PreparedQuery, ProviderUuids, QueryRefusal, RequestGroup, RoomLimits, SearchOptions,
    Strategy, Taken, TreeRoom, find_candidates,
};
pub use change::Change;
pub use command::{
    AllocationRequest, Command, ConsumerClaim, ConsumerGeneration, Intent, IntentCandidate,
    IntentRule, InventoryReplacement, ParentChange,
};
pub use decide::{Outcome, ProviderView, Rehearsal, decide};
pub use explain::{Explanation, explain};
pub use ids::{
    AggregateId, ClassId, ConsumerId, ConsumerUuid, GroupId, ProjectId, ProviderId, Timestamp,
    TraitId, TypeId, UserId,
};
pub use inventory::Inventory;
pub use provider_query::{ProviderQuery, find_providers, find_providers_among};
pub use refusal::Refusal;
pub use rows::{Allocation, Consumer, InventoryRow, Provider};
pub use state::State;
