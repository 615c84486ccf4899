//! Why an instance was placed where it was, as it was decided.

use std::fmt;
use std::sync::Arc;

use placewright_placement::Timestamp;

use crate::ids::{HostId, MigrationId};

/// How many decisions of an instance are kept; see [`add_decision`].
pub const DECISIONS_MAX: usize = 4;
/// How many of the hosts are kept that a claim named before the claimed one and that did not fit any more.
pub const FALLEN_MAX: usize = 8;
/// The most bytes of the reason why a candidate did not fit.
const REASON_BYTES_MAX: usize = 300;

/// Why a host was selected for an instance. It is written in the step that claims the host, and never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The host that was claimed.
    pub host: HostId,
    /// The time of the claim.
    pub at: Timestamp,
    /// The move that needed the host; `None` for a build.
    pub migration: Option<MigrationId>,
    /// The ranking that named the host.
    pub ranking: RankingRecord,
    /// The first of the hosts that the claim named before the claimed one, and that did not fit any more: at most
    /// [`FALLEN_MAX`], in the claim's order.
    pub fallen: Vec<FallenHost>,
    /// The number of hosts that were named before the claimed one.
    pub fallen_count: u32,
    /// The number of alternates that the cell may try if the build fails.
    pub alternate_count: u32,
}

/// A host that fell out of a claim: it was named before the claimed one, and did not fit any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallenHost {
    /// The host that did not fit any more when it was to be claimed.
    pub host: HostId,
    /// Why the host did not fit. Empty if other instances of the same claim took its room.
    pub reason: String,
}

/// How the hosts of a claim were ranked, in the form of `placewright-records`. Conductors keep it and do not read it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RankingRecord(pub Arc<[u8]>);

impl fmt::Debug for RankingRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RankingRecord({} bytes)", self.0.len())
    }
}

impl FallenHost {
    /// A host that did not fit, with the reason cut to the length that is kept.
    #[must_use]
    pub fn new(host: HostId, reason: String) -> Self {
        Self {
            host,
            reason: cut_reason(reason),
        }
    }
}

/// A reason, cut to the length that is kept.
#[must_use]
pub fn cut_reason(mut reason: String) -> String {
    if reason.len() > REASON_BYTES_MAX {
        let end = reason.floor_char_boundary(REASON_BYTES_MAX);
        reason.truncate(end);
    }
    reason
}

/// Adds a decision to those of an instance. `present` is the host that the instance is on until then. If there are
/// already [`DECISIONS_MAX`], the oldest one is removed. Never removed are the decision of the build and the latest one
/// for the present host: if the move is reverted, the reason why the instance is on that host is still known.
pub fn add_decision(decisions: &mut Vec<Decision>, decision: Decision, present: Option<HostId>) {
    if decisions.len() >= DECISIONS_MAX {
        let is_build = |kept: &Decision| kept.migration.is_none();
        let latest_there = decisions
            .iter()
            .rposition(|kept| Some(kept.host) == present);
        let mut indexes = 0..decisions.len();
        let oldest = indexes.find(|index| {
            Some(*index) != latest_there && !(*index == 0 && is_build(&decisions[0]))
        });
        decisions.remove(oldest.unwrap_or(0));
    }
    decisions.push(decision);
}
