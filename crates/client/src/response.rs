//! The answers of the scheduler API. Fields that a newer server adds are ignored.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The answer of [`crate::Client::select`].
#[derive(Clone, Debug, Deserialize)]
pub struct Destinations {
    /// Whether the selected hosts are claimed.
    pub claimed: bool,
    /// For how long the candidates can be claimed by their UUIDs, in milliseconds.
    pub kept_ms: u64,
    /// The result for each instance, in the order of the request.
    pub selections: Vec<InstanceResult>,
    /// Parts of the request that have no effect, for people.
    pub warnings: Vec<String>,
}

/// The result for one instance.
#[derive(Clone, Debug, Deserialize)]
pub struct InstanceResult {
    /// The UUID of the instance, as in the request.
    pub instance: Uuid,
    /// The selected host; none when none was found and the request allowed that.
    pub selected: Option<Selection>,
    /// Candidates on other hosts of the same cell, best first.
    pub alternates: Vec<Selection>,
    /// Why this host was selected; only if the request asked for it.
    #[serde(default)]
    pub explanation: Option<Explanation>,
}

/// Why a host was selected: the scores of the best hosts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Explanation {
    /// How many hosts were feasible, and were compared.
    pub compared: usize,
    /// The best of them, best first: at most ten, and always the selected one.
    pub ranking: Vec<ScoredHost>,
    /// The hosts that the request asked about, in its order.
    #[serde(default)]
    pub hosts: Vec<AskedHost>,
}

/// A host that a request asked about: compared, with its place and its score, or excluded.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct AskedHost {
    /// The name or UUID of the request.
    pub asked: String,
    /// The UUID of the host's root provider; none if there is no such host.
    pub provider: Option<Uuid>,
    /// The name of the compute service that manages the host.
    pub host: Option<String>,
    /// The name of the compute node.
    pub node: Option<String>,
    /// Its place among all hosts that were compared, from 1; none if it was excluded.
    pub rank: Option<usize>,
    /// Its score.
    pub score: Option<f64>,
    /// What each weigher contributes to the score.
    #[serde(default)]
    pub weights: Vec<WeigherContribution>,
    /// What excluded it.
    pub excluded: Option<Exclusion>,
}

/// What excluded a host first.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Exclusion {
    /// The kind: `unknown`, `placement`, `filter`, `rule` or `search`.
    pub reason: String,
    /// The constraint of the placement query.
    pub constraint: Option<String>,
    /// The name of the filter.
    pub filter: Option<String>,
}

/// A host with its score.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ScoredHost {
    /// The UUID of the host's root provider.
    pub provider: Uuid,
    /// The name of the compute service that manages the host.
    pub host: String,
    /// The name of the compute node.
    pub node: String,
    /// The host's score: the sum of the weighers' shares.
    pub score: f64,
    /// Whether this is the selected host. Hosts above it were taken by concurrent requests first.
    pub selected: bool,
    /// What each weigher contributes; empty where there was no other host to compare it with.
    pub weights: Vec<WeigherContribution>,
}

/// The contribution of one weigher to a host's score.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct WeigherContribution {
    /// The name of the weigher, as in the configuration.
    pub weigher: String,
    /// The weigher's raw value of the host.
    pub number: f64,
    /// The value scaled to the range of the compared hosts, from 0 to 1.
    pub normalised: f64,
    /// The configured factor of the weigher.
    pub multiplier: f64,
    /// The weigher's part of the score: `normalised` times `multiplier`.
    pub share: f64,
}

/// A candidate: a host, and one way of allocating the resources there.
#[derive(Clone, Debug, Deserialize)]
pub struct Selection {
    /// The UUID of the candidate, for a later [`crate::Client::claim`] or [`crate::Client::swap`].
    pub candidate: Uuid,
    /// The UUID of the host's cell.
    pub cell: Uuid,
    /// The name of the compute service that manages the host.
    pub host: String,
    /// The name of the compute node.
    pub node: String,
    /// The UUID of the host's root provider.
    pub provider: Uuid,
    /// The availability zone of the host, if it is in one.
    pub zone: Option<String>,
    /// The score; higher is better. Scores of different requests cannot be compared.
    pub score: f64,
    /// What is claimed, or would be, on that host.
    pub allocation_request: AllocationRequest,
}

/// What a consumer claims, in the form of placement's allocation requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct AllocationRequest {
    /// The claimed amounts, by the UUID of the resource provider.
    pub allocations: BTreeMap<Uuid, Allocations>,
    /// Which providers satisfy each group of a granular request, by the group's suffix.
    #[serde(default)]
    pub mappings: BTreeMap<String, Vec<Uuid>>,
}

/// The amounts that are claimed of one provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Allocations {
    /// The amounts, by resource class.
    pub resources: BTreeMap<String, i64>,
}

/// The result of a claim: what the consumer holds now.
#[derive(Clone, Debug, Deserialize)]
pub struct Claimed {
    /// The UUID of the consumer: the instance.
    pub consumer: Uuid,
    /// The UUID of the candidate that was claimed.
    pub candidate: Uuid,
    /// The UUID of the host's root provider.
    pub provider: Uuid,
    /// The resources that the consumer holds.
    pub allocation_request: AllocationRequest,
}

/// How many more instances of a request would fit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Capacity {
    /// The number of instances, at most the limit of the request.
    pub count: usize,
    /// Whether more than the limit would fit.
    pub more: bool,
    /// The number of hosts that would receive at least one instance.
    pub hosts: usize,
    /// The number of instances by the UUID of the cell.
    pub by_cell: BTreeMap<Uuid, usize>,
}

/// A page of hosts.
#[derive(Clone, Debug, Deserialize)]
pub struct Hosts {
    /// The hosts of the page, in an order that does not change.
    pub hosts: Vec<Host>,
    /// The host after which the next page begins; none on the last page.
    pub next: Option<Uuid>,
}

/// A host as the scheduler sees it.
#[derive(Clone, Debug, Deserialize)]
pub struct Host {
    /// The UUID of the compute node, which is that of its root provider.
    pub uuid: Uuid,
    /// The UUID of the host's cell.
    pub cell: Uuid,
    /// The name of the compute service that manages the host.
    pub host: String,
    /// The name of the compute node.
    pub node: String,
    /// The availability zone of the host, if it is in one.
    pub zone: Option<String>,
    /// Whether placement has the host's root provider.
    pub has_provider: bool,
    /// Whether the host counts as up: it was heard of recently enough.
    pub up: bool,
    /// Whether new instances may be placed on the host.
    pub enabled: bool,
    /// How long ago the host was last heard of, in milliseconds.
    pub age_ms: i64,
    /// The number of instances on the host or on their way to it.
    pub instances: usize,
}

/// The host aggregates that have a name or metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Aggregates {
    /// The aggregates; which hosts are members is placement's to say.
    pub aggregates: Vec<Aggregate>,
}

/// The name and metadata of a host aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Aggregate {
    /// The UUID of the aggregate in placement.
    pub uuid: Uuid,
    /// The name.
    pub name: String,
    /// The availability zone of its hosts, if it says one: `availability_zone` of the metadata.
    pub zone: Option<String>,
    /// The metadata, which filters and weighers read.
    pub metadata: BTreeMap<String, String>,
}

/// What a host update led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "receipt", rename_all = "lowercase")]
pub enum Receipt {
    /// The update is in effect.
    Applied,
    /// This update or a newer one was there already; nothing changed.
    Stale,
}

/// One level of the topology: the racks, for instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// The name of the level, which topology rules refer to.
    pub name: String,
    /// The groups of hosts at this level: each is an aggregate of placement.
    pub aggregates: BTreeSet<Uuid>,
}

/// The distance between two groups of hosts of one level; it is symmetric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distance {
    /// The aggregate of one group of hosts.
    pub from: Uuid,
    /// The aggregate of the other group; the same one for the distance between hosts within it.
    pub to: Uuid,
    /// The distance in the operator's own unit. Pairs without an entry are counted in hops.
    pub distance: u32,
}

/// The operator's topology: racks, rows and so on, as groups of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The levels, the smallest groups first.
    pub levels: Vec<Level>,
    /// Distances between groups of one level; each pair once.
    pub distances: Vec<Distance>,
}
