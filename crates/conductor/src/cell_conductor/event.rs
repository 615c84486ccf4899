//! The events of a cell.

use placewright_placement::Timestamp;
use uuid::Uuid;

use crate::claim_request::ClaimResponse;
use crate::fault::Fault;
use crate::ids::{HostId, InstanceId};
use crate::message::Envelope;
use crate::spec::Spec;

/// An event. Any event may arrive twice, late, or never.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A message from control.
    Message(Envelope),
    /// A user shelves an instance, which leaves its host.
    Shelve {
        /// The instance to shelve.
        instance: InstanceId,
        /// The UUID of the API request, if it is known.
        request: Option<Uuid>,
    },
    /// A user rebuilds an instance in place.
    Rebuild {
        /// The instance to rebuild.
        instance: InstanceId,
        /// The specification that the guest is built from.
        spec: Spec,
        /// The UUID of the API request, if it is known.
        request: Option<Uuid>,
    },
    /// The scheduler refuses a rebuild: the instance is unchanged, and its history records the
    /// reason.
    RebuildRefused {
        /// The instance that is not rebuilt.
        instance: InstanceId,
        /// The reason, for the owner of the instance.
        fault: Fault,
        /// The UUID of the API request, if it is known.
        request: Option<Uuid>,
    },
    /// An agent begins a session.
    AgentStarted {
        /// The host of the agent.
        host: HostId,
        /// The number of the session, greater than all earlier ones.
        session: u64,
        /// All guests of the host: instance and number.
        guests: Vec<(InstanceId, u32)>,
    },
    /// A host was silent for too long.
    HostDown {
        /// The host that counts as down.
        host: HostId,
    },
    /// An operator declares that a host will never come back.
    HostRemoved {
        /// The host that is removed.
        host: HostId,
    },
    /// An agent ended a step, with success or without.
    StepEnded {
        /// The host of the agent.
        host: HostId,
        /// The instance that the step concerned.
        instance: InstanceId,
        /// The session in which the step was requested.
        session: u64,
        /// The number of the attempt with which the cell requested the step.
        attempt: u32,
        /// The reason of a failure; `None` on success.
        failure: Option<Failure>,
    },
    /// An agent reports that a guest does not exist any more.
    Destroyed {
        /// The host of the agent.
        host: HostId,
        /// The instance that the guest belonged to.
        instance: InstanceId,
        /// The number of the guest.
        number: u32,
    },
    /// Control answered a claim request.
    ClaimAnswered {
        /// The instance of the claim request.
        instance: InstanceId,
        /// The number of the claim request.
        number: u64,
        /// The response of control.
        response: ClaimResponse,
    },
    /// The secrets of a specification were sealed with another key. Nothing else of it has changed.
    Reseal {
        /// The instance whose specification was sealed again.
        instance: InstanceId,
        /// The specification before. If the instance's specification is no longer equal to it, nothing is replaced.
        from: Box<Spec>,
        /// The specification with other sealed secrets.
        to: Box<Spec>,
    },
    /// Time has passed: deadlines are checked against the time of the event.
    Tick,
    /// The cell forgets deletions before a time. It then refuses to create instances from messages that were sent
    /// before that time, because it does not know any more whether such an instance was deleted.
    Forget {
        /// The time before which deletions are forgotten.
        before: Timestamp,
    },
}

/// The failure of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A description of the failure, as a sentence.
    pub message: String,
    /// Whether another host may succeed; false for a bad image, for example.
    pub may_retry: bool,
}
