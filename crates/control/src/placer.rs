//! Places the instances of a request: ranks hosts, claims them, and decides again when others were
//! faster.
//!
//! [`Placing`] is one request on its way to its hosts. It looks at a scheduler and a state, makes
//! one command that claims hosts for all of its instances, and takes the answer. It submits
//! nothing itself. Whoever drives it does that: [`destinations`](crate::destinations) for the API,
//! control's runtime for builds and moves, and the bench `races`.
//!
//! ```text
//!  look ──▶ Ready ──▶ claim ──▶ decided ──▶ Done
//!   ▲ │                  └────▶ refused ──▶ Lost
//!   │ └─▶ Nowhere                  │
//!   └──────────── Again ◀──────────┘
//! ```
//!
//! - A [`Search`] is one look at the scheduler: the best hosts for one instance, with candidates.
//! - The instances of a request are looked at one after the other, each beside those before it:
//!   their weights, rules and resources count at once ([`ExpectedPlacement`], [`Rehearsal`]).
//! - [`claim`] has the commands. No other module makes one; `crates/control/tests/one_placer.rs`
//!   holds that.
//!
//! [`Rehearsal`]: placewright_placement::Rehearsal

pub mod claim;
mod contention;
mod count;
mod demand;
mod explained;
mod placing;
mod search;
mod turn;

pub use contention::Contention;
pub use count::{Correction, ExpectedPlacement, arrive, correct, depart};
pub use demand::Demand;
pub use explained::{
    AskedHost, EXPLAINED_MAX, Exclusion, HostNames, ScoreExplanation, ScoredHost, Standing,
};
pub use placing::{LookContext, LookRefusal, Next, Placing, SearchResults, Selected};
pub use search::{CandidatesFound, FeasibleHost, Search};
pub use turn::TimeSlice;

/// The most candidates that a claim names of each host. A flat host has one. Of a tree, the
/// candidates differ in the devices or NUMA nodes that they take from, and claims that race for the
/// same host take the same one first.
pub const CANDIDATES_OF_HOST: usize = 4;
/// How often hosts are claimed for a request before it fails. With [`HOSTS_FACTOR`] the last round
/// names so many hosts that the request would lose as often again with more.
pub const ROUNDS: u32 = 5;
/// The factor by which the number of hosts in a claim grows with each further round. The first
/// claim names as many as [`Contention`] found to be enough; a claim that found all of them full
/// was far from it.
const HOSTS_FACTOR: usize = 4;
/// The most hosts that a claim names for one instance: beyond, ranking them takes longer than
/// another round.
const HOSTS_OF_CLAIM_MAX: usize = 256;
/// For each host that a claim names, so many are ranked where others are often faster, so that
/// schedulers fall back on different ones.
const RANKED_PER_NAMED: usize = 4;
/// For each alternate, this many hosts are ranked besides those wanted, and in all at most
/// [`RANKED_FOR_ALTERNATES_MAX`]. Most of them are in other cells, but mostly this one ranking
/// yields enough alternates.
const RANKED_PER_ALTERNATE: usize = 8;
const RANKED_FOR_ALTERNATES_MAX: usize = 128;
