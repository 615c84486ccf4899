//! Why hosts are not selected, or a candidate is not claimed.

use std::fmt;

use placewright_placement::Refusal;
use placewright_scheduler::prepare::PrepareRefusal;
use placewright_scheduler::select::SelectRefusal;
use thiserror::Error;
use uuid::Uuid;

use crate::placement::NotMade;
use crate::placer::LookRefusal;
use crate::scheduler::NoHostExplanation;

/// Why hosts are not selected, or a candidate is not claimed. Nothing is claimed then.
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
    /// An instance that is to be claimed for holds something.
    #[error("consumer {0} holds something already")]
    Holds(Uuid),
    /// A consumer that is to swap or to release holds nothing.
    #[error("consumer {0} holds nothing")]
    HoldsNothing(Uuid),
    /// A candidate was never offered, or is not kept any more.
    #[error("candidate {0} is not kept")]
    Expired(Uuid),
    /// A candidate does not fit any more, for this reason.
    #[error("the candidate does not fit any more")]
    NothingFits(#[source] Option<Box<Refusal>>),
    /// Placement refuses the server group of the request.
    #[error("the server group is refused")]
    Group(#[source] Box<Refusal>),
    /// Placement refuses the claim for another reason than capacity.
    #[error("the claim is refused")]
    Claim(#[source] Box<Refusal>),
    /// The store did not make a change.
    #[error(transparent)]
    NotMade(#[from] NotMade),
    /// A bug.
    #[error("{0}")]
    Bug(String),
}

/// Why too few instances of a request find a host.
#[derive(Debug)]
pub struct NoHost {
    /// The instance without a host.
    pub instance: Uuid,
    /// How many instances found one.
    pub placed: usize,
    /// How many instances the request has.
    pub instances: usize,
    /// How many of them had to find one.
    pub least: usize,
    /// What kept the hosts out.
    pub why: NoHostExplanation,
}

impl fmt::Display for NoHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = self.why.sentence();
        write!(formatter, "No host for instance {}: {why}.", self.instance)?;
        if self.instances > 1 {
            write!(
                formatter,
                " {} of {} instances found one, at least {} had to; none keeps it.",
                self.placed, self.instances, self.least
            )?;
        }
        Ok(())
    }
}

impl DestinationsError {
    /// An answer to a claim that no claim has.
    pub(super) fn odd_outcome() -> Self {
        Self::Bug("an odd outcome of a claim".to_owned())
    }

    /// Whether the store failed, so that it may have kept the change all the same.
    pub(super) fn is_unsure(&self) -> bool {
        matches!(self, Self::NotMade(NotMade::Unavailable(_)))
    }
}

impl From<LookRefusal> for DestinationsError {
    fn from(refusal: LookRefusal) -> Self {
        match refusal {
            LookRefusal::Prepare(prepare) => prepare.into(),
            LookRefusal::Select(select) => select.into(),
        }
    }
}
