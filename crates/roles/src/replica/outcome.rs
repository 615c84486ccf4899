//! Conversions between the types of the engine and those of the link, in both directions: of the outcomes of commands
//! that were handed over to the leader, and of the batches that the leader has appended.

use std::sync::Arc;

use placewright_engine::{AppendedBatch, ForwardReply, StoreError, SubmitError};
use placewright_errors::chain;
use placewright_journal::batch::Link;
use placewright_link::{EntryBatch, HandedFailure, HandedOutcome};

/// The outcome that the leader reports to the follower; `None` if the follower finds out by itself.
pub(crate) fn to_follower(reply: ForwardReply) -> Option<HandedOutcome> {
    let failure = match reply {
        // The follower computes the outcome when it applies the entry.
        ForwardReply::Entry(_) => return None,
        ForwardReply::NoEntry(sequence) => return Some(HandedOutcome::NoEntry(sequence)),
        ForwardReply::NotLeading => return Some(HandedOutcome::NotLeading),
        ForwardReply::Failed(failure) => failure,
    };
    let failure = match failure {
        // The follower learns the outcome from the journal: it answers the command when it applies the command's entry,
        // and sends a command without an entry to the next leader.
        SubmitError::ShuttingDown | SubmitError::HandedOver => return None,
        // This replica may go on leading, as it does when the store has lost entries and they are appended again. The
        // follower would wait for a next leader in vain.
        SubmitError::Unknown(reason) => HandedFailure::UnknownOutcome(chain(&*reason)),
        SubmitError::NotLeading => return Some(HandedOutcome::NotLeading),
        SubmitError::Unavailable(reason) => HandedFailure::Unavailable(chain(&*reason)),
        // This does not happen to a command that another replica sent: that replica hands it over only when the reading
        // on which the command is based is durable.
        error @ SubmitError::ReadingUndone => HandedFailure::Unavailable(chain(&error)),
        SubmitError::Overloaded => HandedFailure::Overloaded,
        SubmitError::TooLarge { bytes, bytes_max } => HandedFailure::TooLarge {
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            bytes_max: u64::try_from(bytes_max).unwrap_or(u64::MAX),
        },
        SubmitError::Panicked => HandedFailure::Panicked,
    };
    Some(HandedOutcome::Failed(failure))
}

/// The outcome that the leader reported, as the reply that the follower's engine expects.
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

/// A batch of the leader, for a follower.
pub(crate) fn to_entry_batch(batch: &AppendedBatch) -> EntryBatch {
    let Link {
        first,
        last,
        previous,
        checksum,
    } = batch.link;
    EntryBatch {
        first,
        last,
        previous,
        checksum,
        payload: batch.payload.clone(),
    }
}

/// A batch for the engine of the follower.
pub(crate) fn to_appended_batch(batch: EntryBatch) -> AppendedBatch {
    AppendedBatch {
        link: Link {
            first: batch.first,
            last: batch.last,
            previous: batch.previous,
            checksum: batch.checksum,
        },
        payload: batch.payload,
    }
}
