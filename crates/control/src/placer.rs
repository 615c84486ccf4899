//! Places the instances of a request: ranks hosts, claims them, and searches again when other claims were faster.
//!
//! [`Placing`] is the state of one request until its hosts are claimed. It reads a scheduler and a
//! state, makes one command that claims hosts for all of its instances, and applies the response. It
//! submits nothing itself; its caller does: [`destinations`](crate::destinations) for the API,
//! control's runtime for builds and moves, and the bench `races`.
//!
//! ```text
//!  find_hosts ──▶ Ready ──▶ claim ──▶ apply_claimed ──┐
//!   ▲ │                       └─────▶ apply_refused ──┴──▶ end_round ──▶ Done
//!   │ └─▶ NoHost                                           │   └─────▶ RoundsExhausted
//!   └─────────────────────── SearchAgain ◀─────────────────┘
//! ```
//!
//! - A [`Search`] ranks hosts once: it finds the best hosts for one instance, with candidates.
//! - Hosts are searched for one instance of a request after the other. Each search takes account of
//!   the instances before it: their weights, rules and resources count at once
//!   ([`ExpectedPlacement`], [`Rehearsal`]).
//! - [`claim`] makes the commands. No other module makes any, which
//!   `crates/control/tests/control_plane/one_placer.rs` tests.
//!
//! [`Rehearsal`]: placewright_placement::Rehearsal

pub mod claim;
mod contention;
mod demand;
mod explained;
mod pending_instances;
mod placing;
mod search;
mod time_slice;

pub use contention::Contention;
pub use demand::Demand;
pub use explained::{
    EXPLAINED_MAX, Exclusion, HostIdentity, HostStanding, RequestedHost, ScoreExplanation,
    ScoredHost,
};
pub use pending_instances::{Correction, ExpectedPlacement, apply_corrections, count_claimed};
pub use placing::{Placing, RoundEnd, SearchContext, SearchRefusal, SearchResults, Selected};
pub use search::{CandidatesFound, FeasibleHost, Search};
pub use time_slice::TimeSlice;

/// The most candidates that a claim names of each host. A flat host has one candidate. A host that is a
/// tree may have several, which differ in the devices or NUMA nodes that they take from. More than one
/// is named because claims that race for the same host try the same candidate first.
pub const CANDIDATES_OF_HOST: usize = 4;
/// How often hosts are claimed for a request before it fails. The number of hosts grows by
/// [`HOSTS_FACTOR`] each time, so the last round names enough of them.
pub const ROUNDS: u32 = 5;
/// The factor by which the number of hosts in a claim grows with each further round. The first
/// claim names as many as [`Contention`] found to be enough; a claim that found all of them full
/// needs many more.
const HOSTS_FACTOR: usize = 4;
/// The most hosts that a claim names for one instance. To rank more hosts takes longer than another round.
const HOSTS_OF_CLAIM_MAX: usize = 256;
/// Under contention this many hosts are ranked for each host that a claim names, so that schedulers
/// fall back on different ones.
const RANKED_PER_NAMED: usize = 4;
/// How many hosts are ranked for each wanted alternate, besides the wanted hosts. An alternate has to be in the cell of
/// the selected host, and most ranked hosts are in other cells. With this number one ranking usually yields enough
/// alternates.
const RANKED_PER_ALTERNATE: usize = 8;
/// The most hosts that one search ranks for alternates, besides the wanted hosts.
const RANKED_FOR_ALTERNATES_MAX: usize = 128;
