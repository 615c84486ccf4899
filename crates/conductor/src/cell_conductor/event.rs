//! What happens to a cell.

use placewright_placement::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ask::Answer;
use crate::fault::Fault;
use crate::ids::{HostId, InstanceId};
use crate::message::Envelope;
use crate::spec::Spec;

/// Something that happened. Any may come twice, late, or never.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Control says something.
    Message(Envelope),
    /// A user wants an instance off its host.
    Shelve {
        /// Which.
        instance: InstanceId,
    },
    /// A user wants an instance anew where it is.
    Rebuild {
        /// Which.
        instance: InstanceId,
        /// What it is to be.
        spec: Spec,
    },
    /// The scheduler does not let an instance be built anew where it is: it stays as it is, and its
    /// history says why.
    RebuildRefused {
        /// Which.
        instance: InstanceId,
        /// Why.
        fault: Fault,
    },
    /// An agent begins a session.
    AgentStarted {
        /// Its host.
        host: HostId,
        /// Greater than those before.
        session: u64,
        /// All the guests that the host has.
        guests: Vec<(InstanceId, u32)>,
    },
    /// A host was not heard of for too long.
    HostDown {
        /// Which.
        host: HostId,
    },
    /// An operator says that a host will never come back.
    HostRemoved {
        /// Which.
        host: HostId,
    },
    /// An agent ended a step.
    StepEnded {
        /// Its host.
        host: HostId,
        /// Of which instance.
        instance: InstanceId,
        /// The session in which it was asked to.
        session: u64,
        /// Which attempt.
        attempt: u32,
        /// Why it failed, if it did.
        failure: Option<Failure>,
    },
    /// An agent has no such guest any more.
    Destroyed {
        /// Its host.
        host: HostId,
        /// The instance.
        instance: InstanceId,
        /// The guest.
        number: u32,
    },
    /// Placement answered an ask.
    Answered {
        /// For which instance.
        instance: InstanceId,
        /// The ask's number.
        number: u64,
        /// What.
        answer: Answer,
    },
    /// Time passed.
    Tick,
    /// Deletions from before this need not be remembered any longer: messages are never that late.
    Forget {
        /// When.
        before: Timestamp,
    },
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What happened, in a sentence.
    pub message: String,
    /// Whether another host may do better; not with a bad image, say.
    pub may_retry: bool,
}
