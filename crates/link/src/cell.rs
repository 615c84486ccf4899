//! The interface between control and a cell.

use placewright_conductor::cell_conductor::{GuestRef, JobKind, Stage, VmState};
use placewright_conductor::message::Envelope;
use placewright_conductor::{Action, CellId, Fault, HostId, InstanceId, MigrationId, Reply, Spec};
use placewright_types::host_state::NumberedUpdate;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::LinkFuture;

/// The cell's interface towards control.
pub trait CellLink: Send + Sync + 'static {
    /// The cell's own id, by which control checks that it has reached the cell that it meant.
    fn cell_id(&self) -> LinkFuture<'_, CellId>;

    /// Delivers messages. There is one reply for each message, in the same order, and each is sent
    /// only after the state that it reports is durable.
    fn deliver(&self, messages: Vec<Envelope>) -> LinkFuture<'_, Vec<Reply>>;

    /// Carries out an operation that the cell decides alone, without control.
    fn perform(&self, operation: CellOperation) -> LinkFuture<'_, Reply>;

    /// The history of an instance's actions, oldest first.
    fn actions(&self, instance: InstanceId) -> LinkFuture<'_, Vec<Action>>;

    /// Subscribes to the cell: a full listing first, then every change. For a slow subscriber,
    /// several changes of one object are merged into one; a subscriber that receives nothing for too
    /// long is disconnected and has to subscribe again. The stream ends when the cell goes away.
    ///
    /// Before [`CellEvent::Complete`] a change may be delivered twice, but an older state never
    /// follows a newer one.
    fn follow(&self) -> LinkFuture<'_, mpsc::Receiver<CellEvent>>;
}

/// An operation that a cell decides alone; control only passes it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellOperation {
    /// Shelves an instance: removes it from its host and releases its resources.
    Shelve {
        /// The instance to shelve.
        instance: InstanceId,
        /// The UUID of the API request, if it is known.
        request: Option<Uuid>,
    },
    /// Rebuilds an instance on its present host.
    Rebuild {
        /// The instance to rebuild.
        instance: InstanceId,
        /// The new specification of the instance.
        spec: Box<Spec>,
        /// The UUID of the API request, if it is known.
        request: Option<Uuid>,
    },
    /// Removes a host that will never come back, as an operator declares.
    RemoveHost {
        /// The host to remove.
        host: HostId,
    },
    /// Makes the agent of a host begin a new session. Steps under way are requested again, guests
    /// that the cell does not know are destroyed, and instances whose guests are missing go to the
    /// error state.
    Reconcile {
        /// The host to reconcile.
        host: HostId,
    },
    /// Records in an instance's history that the scheduler refused its rebuild. Nothing else
    /// changes.
    RefuseRebuild {
        /// The instance whose rebuild was refused.
        instance: InstanceId,
        /// The reason, as the instance's owner sees it.
        fault: Box<Fault>,
        /// The UUID of the API request, if it is known.
        request: Option<Uuid>,
    },
}

/// An event of a cell's subscription stream; see [`CellLink::follow`].
#[derive(Clone, Debug, PartialEq)]
pub enum CellEvent {
    /// An instance was created, changed or removed.
    Instance {
        /// The instance that changed.
        instance: InstanceId,
        /// The instance's new state; `None` if the cell does not have the instance (any more).
        view: Option<Box<InstanceView>>,
    },
    /// A host was added, changed or removed.
    Host {
        /// The host that changed.
        host: HostId,
        /// The host's new state; `None` if an operator removed the host.
        view: Option<HostView>,
    },
    /// The next update of a host's soft state, as its agent sent it.
    State {
        /// The host that the update is about.
        host: HostId,
        /// The update with its incarnation and sequence number.
        update: Box<NumberedUpdate>,
    },
    /// A heartbeat of several hosts at once.
    Alive {
        /// The hosts that are still up.
        hosts: Vec<HostId>,
    },
    /// The end of the initial listing: an instance or host that was not listed before does not exist.
    Complete,
    /// The cell itself is up. Sent at least every second.
    Heartbeat,
}

/// The state of an instance, as its cell sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceView {
    /// The lifecycle state: building, active, error and so on.
    pub vm_state: VmState,
    /// The build, move, rebuild or deletion under way, if any.
    pub job: Option<JobView>,
    /// [`Spec::digest`] of the instance's present specification.
    pub spec_digest: u64,
    /// The guest that the instance runs in; `None` while the instance is on no host.
    pub guest: Option<GuestRef>,
    /// The availability zone of the instance's host.
    pub zone: Option<String>,
    /// The most recent failure.
    pub fault: Option<Fault>,
    /// When the cell accepted the instance.
    pub created_at: placewright_placement::Timestamp,
    /// When the instance was last changed.
    pub updated_at: placewright_placement::Timestamp,
}

/// A job of an instance: a build, move, shelving, rebuild or deletion under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// The kind of job.
    pub kind: JobKind,
    /// The migration that the job carries out, if it is a move.
    pub migration: Option<MigrationId>,
    /// How far the job has come.
    pub stage: Stage,
    /// The host that the instance is to go to.
    pub target: Option<HostId>,
}

/// The state of a host, as its cell sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostView {
    /// The host's name; `None` until the host's agent has reported it since the cell's start.
    pub name: Option<String>,
    /// Whether the host counts as up: its agent is not silent.
    pub is_up: bool,
    /// When the cell last received a message from the agent.
    pub heard_at: placewright_placement::Timestamp,
}
