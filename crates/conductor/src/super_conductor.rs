//! The super conductor: the part of control's state machine beside placement. It has cells and instances, how a request
//! finds its cell, and the tables of the APIs, such as flavors, images and quotas.
//!
//! [`decide`] answers a [`Command`] with changes of this state and of placement's: a claim and the conductor's record
//! of the claim are decided together, so that neither ever exists without the other. [`State::effects`] derives from
//! the state the work that has to be done outside of this state machine.
//!
//! An instance has a mapping during its whole life. It has a build request until its cell accepts the instance, the
//! instance is deleted, or no host is found. An instance that was taken from a cell that could not build it has a build
//! request again. A race between a delete and a placement is decided by their order: after the delete there is no build
//! request to place, and after the placement the delete is a message to the cell.

mod accounts;
mod command;
mod decide;
mod effect;
mod image;
mod image_usages;
mod limit_check;
mod listing;
mod project_usages;
mod quotas;
mod record_sizes;
mod rows;
mod state;

pub use command::{Command, NewBuild, Outcome, RankedCandidates, RebuildEvent, Refusal};
pub use decide::{decide, is_host_used};
pub use effect::Effect;
pub use image::{Image, ImageContent, Member, MemberStatus, Visibility};
pub use image_usages::ImageUsage;
pub use limit_check::LimitCheck;
pub use listing::{ListKey, Listing};
pub use quotas::DEFAULT_QUOTA_CLASS;
pub use record_sizes::{INSTANCE_BYTES, labels_bytes, spec_bytes};
pub use rows::{
    Aggregate, BuildRequest, BuildStage, Buried, Cell, Deletion, Flavor, GroupTopology,
    HostMapping, Keypair, Labels, LeftCell, Lock, Mapping, Migration, MigrationStatus, Move,
    MoveStage, Rebuild, Reschedule, ServerGroup, Service,
};
pub use state::{Change, State, Undo};
