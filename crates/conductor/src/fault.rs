//! What went wrong, and what was tried where.

use placewright_placement::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::HostId;

/// Why an instance or a move is not what it was meant to be, for its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// An HTTP status: 404 for what has no host, 500 for what broke.
    pub code: u16,
    /// What happened, in a sentence.
    pub message: String,
    /// More of it: the explanation of a decision, the output of a driver.
    pub details: String,
    /// When.
    pub at: Timestamp,
}

/// One thing that was done with an instance: its `create`, a `resize`, …
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// What.
    pub name: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// What was tried, in order.
    pub tries: Vec<Try>,
    /// Why it failed, if it did.
    pub fault: Option<Fault>,
}

/// One step that a host was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Try {
    /// The host.
    pub host: HostId,
    /// Which attempt of the instance.
    pub attempt: u32,
    /// When the host was asked.
    pub started_at: Timestamp,
    /// When it answered, or was given up.
    pub finished_at: Timestamp,
    /// Why it failed; nothing if it did not.
    pub failure: Option<String>,
}
