//! What a cell asks of placement: the only thing that anything in a cell calls up for.
//!
//! Asks of one instance are numbered, together with the claims that control makes for it. Control
//! keeps the number of the last one and its answer. The same number again gets the same answer,
//! a smaller one gets [`Answer::Stale`]: an ask takes effect once, however often it comes.

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::ids::{InstanceId, MigrationId};
use crate::spec::Candidate;

/// One ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// For whom.
    pub instance: InstanceId,
    /// Greater than those of all claims and asks of the instance before.
    pub number: u64,
    /// What is wanted.
    pub want: Want,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// To hold the first of these that fits instead of what the instance holds now.
    Swap {
        /// Best first.
        candidates: Vec<Candidate>,
    },
    /// To hold nothing.
    Release {
        /// Whether the instance is gone: then no record of it remains.
        last: bool,
    },
    /// To end a move.
    Settle {
        /// Which.
        migration: MigrationId,
        /// What to hold from now on.
        keep: Keep,
        /// Why the move failed, if it did.
        fault: Option<Fault>,
    },
}

/// Which side of a move remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Keep {
    /// Where the instance was: what the migration holds goes back to the instance.
    Source,
    /// Where the instance went: what the migration holds is released.
    Target,
}

/// What an ask is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The instance holds the candidate at this place of the list, and nothing else.
    Swapped {
        /// The place.
        index: u32,
    },
    /// None of the candidates fits; the instance holds what it held.
    NothingFits,
    /// It is done.
    Done,
    /// Control knows no such instance, or is done with it.
    Gone,
    /// A later ask or claim was decided before; this one has no effect.
    Stale,
}
