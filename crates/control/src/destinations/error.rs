//! Why hosts are not selected, or a candidate is not claimed.

use std::fmt;

use placewright_placement::Refusal;
use placewright_scheduler::prepare::PrepareRefusal;
use placewright_scheduler::select::SelectRefusal;
use thiserror::Error;
use uuid::Uuid;

use crate::placement::CommitError;
use crate::placer::SearchRefusal;
use crate::scheduler::NoHostExplanation;

/// Why hosts are not selected, or a candidate is not claimed. Nothing is claimed then, with one exception: after
/// [`CommitError::Unavailable`] a claim may have been made all the same.
#[derive(Debug, Error)]
pub enum DestinationsError {
    /// The request cannot be searched for.
    #[error(transparent)]
    Prepare(#[from] PrepareRefusal),
    /// The request cannot be ranked.
    #[error(transparent)]
    Select(#[from] SelectRefusal),
    /// Too few instances find a host.
    #[error("{0}")]
    NoHost(Box<NoHost>),
    /// A consumer that a host is to be claimed for holds allocations already.
    #[error("consumer {0} holds something already")]
    Holds(Uuid),
    /// A consumer whose allocations are to be swapped or released has none.
    #[error("consumer {0} holds nothing")]
    HoldsNothing(Uuid),
    /// A candidate was never offered, or has expired.
    #[error("candidate {0} is not kept")]
    Expired(Uuid),
    /// The replica that may have offered a candidate does not say whether it keeps it.
    #[error("the replica that offered candidate {candidate} does not answer: {why}")]
    OffererAway {
        /// The UUID of the candidate, as the request for its claim has it.
        candidate: Uuid,
        /// Why there is no answer.
        why: String,
    },
    /// A candidate does not fit any more; with the reason, if placement gives one.
    #[error("the candidate does not fit any more")]
    NothingFits(#[source] Option<Box<Refusal>>),
    /// Placement refuses the server group of the request.
    #[error("the server group is refused")]
    Group(#[source] Box<Refusal>),
    /// Placement refuses the claim for another reason than capacity.
    #[error("the claim is refused")]
    Claim(#[source] Box<Refusal>),
    /// A change was not committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A bug in Placewright, as text.
    #[error("{0}")]
    Bug(String),
}

/// Why too few instances of a request find a host.
#[derive(Debug)]
pub struct NoHost {
    /// The instance without a host.
    pub instance: Uuid,
    /// How many instances found a host.
    pub placed_count: usize,
    /// How many instances the request has.
    pub instance_count: usize,
    /// How many instances had to find a host.
    pub least: usize,
    /// Why no host is feasible for that instance.
    pub why: NoHostExplanation,
}

impl fmt::Display for NoHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = self.why.sentence();
        write!(formatter, "No host for instance {}: {why}.", self.instance)?;
        if self.instance_count > 1 {
            write!(
                formatter,
                " {} of {} instances found one, at least {} had to; none keeps it.",
                self.placed_count, self.instance_count, self.least
            )?;
        }
        Ok(())
    }
}

impl DestinationsError {
    /// The error for an outcome that no claim can have, which is a bug.
    pub(super) fn unexpected_outcome() -> Self {
        Self::Bug("a claim had an unexpected outcome".to_owned())
    }

    /// Whether the store failed, so that the change may be durable all the same.
    pub(super) fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::Commit(CommitError::Unavailable(_)))
    }
}

impl From<SearchRefusal> for DestinationsError {
    fn from(refusal: SearchRefusal) -> Self {
        match refusal {
            SearchRefusal::Prepare(prepare) => prepare.into(),
            SearchRefusal::Select(select) => select.into(),
        }
    }
}
