//! What became of commands that were handed over, as the engine and as the link have it.

use std::sync::Arc;

use placewright_engine::{ForwardReply, StoreError, SubmitError};
use placewright_errors::chain;
use placewright_link::{HandedFailure, HandedOutcome};

/// What the leader tells the follower of a reply; `None` if the follower finds out without being told.
pub(crate) fn to_follower(reply: ForwardReply) -> Option<HandedOutcome> {
    let failure = match reply {
        // The follower meets the entry as it applies the journal.
        ForwardReply::Entry(_) => return None,
        ForwardReply::NoEntry(sequence) => return Some(HandedOutcome::NoEntry(sequence)),
        ForwardReply::NotLeading => return Some(HandedOutcome::NotLeading),
        ForwardReply::Failed(failure) => failure,
    };
    let failure = match failure {
        // The stream ends with this process, and the next leader's entry says what became of the command.
        SubmitError::ShuttingDown | SubmitError::HandedOver | SubmitError::Unknown(_) => {
            return None;
        }
        SubmitError::NotLeading => return Some(HandedOutcome::NotLeading),
        SubmitError::Unavailable(reason) => HandedFailure::Unavailable(chain(&*reason)),
        SubmitError::Overloaded => HandedFailure::Overloaded,
        SubmitError::TooLarge { bytes, bytes_max } => HandedFailure::TooLarge {
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            bytes_max: u64::try_from(bytes_max).unwrap_or(u64::MAX),
        },
        SubmitError::Panicked => HandedFailure::Panicked,
    };
    Some(HandedOutcome::Failed(failure))
}

/// The reply to the engine of the follower.
pub(crate) fn from_leader(outcome: HandedOutcome) -> ForwardReply {
    let failure = match outcome {
        HandedOutcome::NoEntry(sequence) => return ForwardReply::NoEntry(sequence),
        HandedOutcome::NotLeading => return ForwardReply::NotLeading,
        HandedOutcome::Failed(failure) => failure,
    };
    let at_leader = |why: String| Arc::new(StoreError::AtLeader(why));
    ForwardReply::Failed(match failure {
        HandedFailure::Unavailable(why) | HandedFailure::Other(why) => {
            SubmitError::Unavailable(at_leader(why))
        }
        HandedFailure::Overloaded => SubmitError::Overloaded,
        HandedFailure::TooLarge { bytes, bytes_max } => SubmitError::TooLarge {
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
        },
        HandedFailure::UnknownOutcome(why) => SubmitError::Unknown(at_leader(why)),
        HandedFailure::Unreadable(why) => {
            SubmitError::Unavailable(at_leader(format!("it cannot read the change: {why}")))
        }
        HandedFailure::Panicked => SubmitError::Panicked,
    })
}
