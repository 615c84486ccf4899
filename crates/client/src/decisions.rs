//! The body of the response to [`crate::Client::decisions`]. Fields that a newer server adds are ignored.

use serde::Deserialize;
use uuid::Uuid;

use crate::WeigherContribution;

/// Why an instance is on its host, as it was recorded when the host was chosen.
#[derive(Clone, Debug, Deserialize)]
pub struct Decisions {
    /// The UUID of the instance.
    pub instance: Uuid,
    /// The project that owns the instance.
    pub project: String,
    /// The cell of the instance; none without a host.
    pub cell: Option<Uuid>,
    /// The host that the instance's claim is on now.
    pub host: Option<DecidedHost>,
    /// Whether a host is still searched for.
    pub waiting: bool,
    /// Why no host was found, if none was.
    #[serde(default)]
    pub fault: Option<PlacementFault>,
    /// The decisions that led to a host, the latest first: one for each of the latest moves, and one for the build.
    pub decisions: Vec<Decision>,
    /// The cell that the instance was taken from, because its build failed on every host that the cell might try.
    #[serde(default)]
    pub left_cell: Option<LeftCell>,
}

/// A cell that an instance was taken from.
#[derive(Clone, Debug, Deserialize)]
pub struct LeftCell {
    /// The UUID of the cell.
    pub cell: Uuid,
    /// The time at which the instance was taken from the cell.
    pub at: String,
    /// The hosts that were tried, each with the reason why the build failed there.
    pub attempts: Vec<FallenHost>,
}

/// Why no host was found.
#[derive(Clone, Debug, Deserialize)]
pub struct PlacementFault {
    /// The reason as a sentence.
    pub message: String,
    /// An explanation, or a text.
    pub details: serde_json::Value,
    /// The time of the failure.
    pub at: String,
}

/// A host: its root provider, and its name as long as it exists.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct DecidedHost {
    /// The UUID of the host's root provider.
    pub provider: Uuid,
    /// The name of the host; none once it was removed.
    pub host: Option<String>,
}

/// Why one build or move of an instance went to its host.
#[derive(Clone, Debug, Deserialize)]
pub struct Decision {
    /// What needed the host: `build` or `move`.
    pub kind: String,
    /// The time of the claim.
    pub at: String,
    /// The host that was claimed.
    #[serde(flatten)]
    pub host: DecidedHost,
    /// Whether the instance's claim is on this host now.
    pub is_present: bool,
    /// Hosts that came before the claimed one, and did not fit any more when they were claimed.
    pub fallen: Vec<FallenHost>,
    /// The number of all such hosts; `fallen` has only the first of them.
    pub fallen_count: u32,
    /// The number of alternates that the cell may try if the build fails.
    pub alternates: u32,
    /// How hosts were ranked; none if an older release decided.
    #[serde(default)]
    pub search: Option<DecidedSearch>,
}

/// A host that did not fit any more, or on which an attempt failed.
#[derive(Clone, Debug, Deserialize)]
pub struct FallenHost {
    /// The host.
    #[serde(flatten)]
    pub host: DecidedHost,
    /// Why it did not fit, or why the build failed there; empty if other instances of the same request took it.
    pub reason: String,
}

/// The search that ranked the hosts.
#[derive(Clone, Debug, Deserialize)]
pub struct DecidedSearch {
    /// The last entry of the journal in the state that was ranked.
    pub sequence: u64,
    /// The number of earlier searches of the request that lost all their hosts to other claims.
    pub round: u32,
    /// For how many other instances of the request hosts were found before.
    pub siblings: u32,
    /// The number of hosts that the scheduler knew.
    pub known_hosts: u32,
    /// The number of feasible hosts; none if the search ended before it had seen all of them.
    pub feasible: Option<u32>,
    /// The number of hosts that were ranked, which are the best of the feasible ones.
    pub ranked: u32,
    /// The number of hosts that the claim named.
    pub named: u32,
    /// The number of hosts that were left out of the search.
    pub excluded: u32,
    /// Whether the hosts satisfy the fallback query only, because none satisfied the first one.
    pub from_fallback: bool,
    /// Silent cells whose hosts were left out.
    pub avoided_cells: Vec<Uuid>,
    /// The best hosts, best first.
    pub ranking: Vec<DecidedScore>,
    /// Hosts that earlier searches of the request lost to other claims.
    pub lost: Vec<DecidedHost>,
    /// Why the last of these claims was refused.
    #[serde(default)]
    pub last_refusal: String,
}

/// One of the best hosts.
#[derive(Clone, Debug, Deserialize)]
pub struct DecidedScore {
    /// The host with this score.
    #[serde(flatten)]
    pub host: DecidedHost,
    /// The sum of the weighers' shares, higher is better.
    pub score: f64,
    /// Whether this is the host that was claimed.
    pub selected: bool,
    /// The part that each weigher has in the score.
    pub weights: Vec<WeigherContribution>,
}
