//! How control reaches a cell.

use placewright_conductor::cell_conductor::{JobKind, Place, Stage, VmState};
use placewright_conductor::message::Envelope;
use placewright_conductor::{Action, CellId, Fault, HostId, InstanceId, MigrationId, Reply, Spec};
use placewright_scheduler::host_state::NumberedUpdate;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::Coming;

/// A cell, as control reaches it.
pub trait CellLink: Send + Sync + 'static {
    /// Which cell this is: its own answer, so that a wrong address is found out.
    fn cell(&self) -> Coming<'_, CellId>;

    /// Delivers messages. A reply comes when what it says is durable; one for each message, in
    /// their order.
    fn deliver(&self, messages: Vec<Envelope>) -> Coming<'_, Vec<Reply>>;

    /// Does something that only the cell decides.
    fn act(&self, act: Act) -> Coming<'_, Reply>;

    /// What was done with an instance, oldest first.
    fn actions(&self, instance: InstanceId) -> Coming<'_, Vec<Action>>;

    /// Follows the cell: everything that it has, then every change. To whoever falls behind,
    /// changes of one thing come as one; whoever takes nothing for too long is cut off and begins
    /// anew. The stream ends when the cell goes away.
    ///
    /// Before [`CellNews::Complete`] a change may come twice, never something older after something
    /// newer.
    fn follow(&self) -> Coming<'_, mpsc::Receiver<CellNews>>;
}

/// What only a cell decides; control has no part in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Takes an instance off its host.
    Shelve {
        /// Which.
        instance: InstanceId,
    },
    /// Builds an instance anew where it is.
    Rebuild {
        /// Which.
        instance: InstanceId,
        /// What it is to be.
        spec: Box<Spec>,
    },
    /// An operator says that a host will never come back.
    RemoveHost {
        /// Which.
        host: HostId,
    },
    /// Has the agent of a host begin a new session: what is under way is asked for again, guests that
    /// the cell does not know are destroyed, and instances whose guests it does not have are in error.
    Reconcile {
        /// Which.
        host: HostId,
    },
    /// Writes into an instance's history that the scheduler does not let it be built anew where it
    /// is. Nothing else changes.
    RefuseRebuild {
        /// Which.
        instance: InstanceId,
        /// Why.
        fault: Box<Fault>,
    },
}

/// What control hears from a cell that it follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CellNews {
    /// An instance is like this now, or gone.
    Instance {
        /// Which.
        instance: InstanceId,
        /// What it is like; nothing if the cell does not have it (any more).
        view: Option<Box<InstanceView>>,
    },
    /// A host is like this now, or is none of the cell's any more.
    Host {
        /// Which.
        host: HostId,
        /// What it is like; nothing if an operator removed it.
        view: Option<HostView>,
    },
    /// The next update of a host's soft state.
    State {
        /// The host.
        host: HostId,
        /// The update.
        update: Box<NumberedUpdate>,
    },
    /// Hosts that are still there.
    Alive {
        /// The hosts.
        hosts: Vec<HostId>,
    },
    /// Everything that the cell had at the start was told: what was not mentioned is gone.
    Complete,
    /// The cell itself is still there. Comes at least every second.
    Heartbeat,
}

/// An instance as its cell sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceView {
    /// What state it is in.
    pub vm_state: VmState,
    /// What is being done with it.
    pub job: Option<JobView>,
    /// [`Spec::digest`] of what it is.
    pub spec: u64,
    /// Where it is.
    pub guest: Option<Place>,
    /// Its zone.
    pub zone: Option<String>,
    /// What went wrong last.
    pub fault: Option<Fault>,
    /// When it came.
    pub created_at: placewright_placement::Timestamp,
    /// When it was last changed.
    pub updated_at: placewright_placement::Timestamp,
}

/// What is being done with an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// What.
    pub kind: JobKind,
    /// The move that it carries out.
    pub migration: Option<MigrationId>,
    /// How far it is.
    pub stage: Stage,
    /// Where the instance is to go.
    pub target: Option<HostId>,
}

/// A host as its cell sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostView {
    /// Its name; nothing while its agent has not said it since the cell's start.
    pub name: Option<String>,
    /// Whether its agent is heard of.
    pub is_up: bool,
    /// When it was last heard of.
    pub heard_at: placewright_placement::Timestamp,
}
