//! Failures, and the history of attempts.

use placewright_placement::Timestamp;
use uuid::Uuid;

use crate::decision::cut_reason;
use crate::ids::HostId;

/// How many attempts are kept of a cell that an instance has left: the latest ones.
const ATTEMPTS_MAX: usize = 16;

/// Why an instance or a move is not as requested, for its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// An HTTP status: 404 if no host was found, 500 for a failure.
    pub code: u16,
    /// A description of the failure, as a sentence.
    pub message: String,
    /// Details: the explanation of a decision, or the output of a driver.
    pub details: String,
    /// The time of the failure.
    pub at: Timestamp,
}

/// An entry of an instance's history: its `create`, a `resize`, …
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The name of the action in the compute API.
    pub name: String,
    /// The time at which the action began.
    pub started_at: Timestamp,
    /// The time at which the action ended; `None` while it is under way.
    pub finished_at: Option<Timestamp>,
    /// The steps that were tried, in order.
    pub attempts: Vec<Attempt>,
    /// The reason of a failure; `None` on success.
    pub fault: Option<Fault>,
    /// The UUID of the API request that began the action; `None` if it is not known, as for actions that older releases
    /// recorded.
    pub request: Option<Uuid>,
}

/// One step requested from a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The host whose agent was to carry out the step.
    pub host: HostId,
    /// The attempt number within the instance.
    pub attempt: u32,
    /// The time of the request.
    pub started_at: Timestamp,
    /// The time of the answer, or of the time-out.
    pub finished_at: Timestamp,
    /// The reason of a failure; `None` on success.
    pub failure: Option<String>,
}

/// The latest of the attempts in a cell that an instance has left, with shortened reasons. The cell sends control only
/// these. Control keeps only these, too, even if a cell sends more.
pub(crate) fn kept_attempts(attempts: &[Attempt]) -> Vec<Attempt> {
    let latest = &attempts[attempts.len().saturating_sub(ATTEMPTS_MAX)..];
    let cut = |attempt: &Attempt| Attempt {
        failure: attempt.failure.clone().map(cut_reason),
        ..attempt.clone()
    };
    latest.iter().map(cut).collect()
}
