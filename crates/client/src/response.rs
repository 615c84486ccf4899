//! The bodies of the scheduler API's responses. Fields that a newer server adds are ignored.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The response to [`crate::Client::select`].
#[derive(Clone, Debug, Deserialize)]
pub struct Destinations {
    /// Whether the selected hosts are claimed.
    pub claimed: bool,
    /// How long the server keeps the candidates, so that they can be claimed by their UUIDs, in milliseconds.
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
    /// The selected host; none if no host was found and the request allows that.
    pub selected: Option<Selection>,
    /// Candidates on other hosts of the same cell, best first.
    pub alternates: Vec<Selection>,
    /// Why this host was selected, if the request has `explain`.
    #[serde(default)]
    pub explanation: Option<Explanation>,
}

/// Why a host was selected: the scores of the best hosts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Explanation {
    /// How many hosts were feasible, and were compared.
    pub compared: usize,
    /// The best of them, best first: at most ten. If the selected host is not among these, it follows after them.
    pub ranking: Vec<ScoredHost>,
    /// The hosts of [`crate::DestinationsRequest::explain_hosts`], in their order. The name of a compute service with
    /// several nodes gives several hosts.
    #[serde(default)]
    pub hosts: Vec<RequestedHost>,
}

/// A host of [`crate::DestinationsRequest::explain_hosts`]: with its rank and its score, or what
/// excluded it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RequestedHost {
    /// The name or UUID in the request.
    pub asked: String,
    /// The UUID of the host's root provider; none if there is no such host.
    pub provider: Option<Uuid>,
    /// The name of the compute service that manages the host; none if there is no such host.
    pub host: Option<String>,
    /// The name of the compute node; none if there is no such host.
    pub node: Option<String>,
    /// The host's rank among all hosts that were compared, from 1; none if the host was excluded.
    pub rank: Option<usize>,
    /// The sum of the weighers' shares, higher is better; none if the host was excluded.
    pub score: Option<f64>,
    /// The contribution of each weigher to the score; empty if the host was excluded, or only one host was feasible.
    #[serde(default)]
    pub weights: Vec<WeigherContribution>,
    /// The reason why the host was excluded; none if it was compared.
    pub excluded: Option<Exclusion>,
}

/// The first check that excluded a host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Exclusion {
    /// The kind: `unknown`, `placement`, `filter`, `rule` or `search`.
    pub reason: String,
    /// The constraint of the placement query that the host fails; none unless `reason` is `placement`.
    pub constraint: Option<String>,
    /// The name of the filter; none unless `reason` is `filter`.
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
    /// Whether this is the selected host. Those before it in the ranking were full at the claim, because
    /// concurrent requests were faster.
    pub selected: bool,
    /// The contribution of each weigher to the score; empty if only one host was feasible.
    pub weights: Vec<WeigherContribution>,
}

/// The contribution of one weigher to a host's score.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct WeigherContribution {
    /// The name of the weigher, as in the configuration.
    pub weigher: String,
    /// The weigher's raw value for the host.
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
    /// The allocations that are claimed on the host, or that a claim would make.
    pub allocation_request: AllocationRequest,
}

/// The allocations that a consumer claims, in the form of placement's allocation requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct AllocationRequest {
    /// The claimed amounts, by the UUID of the resource provider.
    pub allocations: BTreeMap<Uuid, Allocations>,
    /// Which providers satisfy each group of the request, by the group's suffix; empty if no group has one.
    #[serde(default)]
    pub mappings: BTreeMap<String, Vec<Uuid>>,
}

/// The amounts that are claimed of one provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Allocations {
    /// The amounts, by resource class.
    pub resources: BTreeMap<String, i64>,
}

/// The result of a claim: the allocations of the consumer.
#[derive(Clone, Debug, Deserialize)]
pub struct Claimed {
    /// The UUID of the consumer: the instance.
    pub consumer: Uuid,
    /// The UUID of the candidate that was claimed.
    pub candidate: Uuid,
    /// The UUID of the host's root provider.
    pub provider: Uuid,
    /// The allocations of the consumer.
    pub allocation_request: AllocationRequest,
}

/// How many more instances of a request would fit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Capacity {
    /// The number of instances, at most the limit of the request if it has one.
    pub count: u64,
    /// Whether more instances would fit than were counted.
    pub more: bool,
    /// The number of hosts that would receive at least one instance.
    pub hosts: usize,
    /// The number of instances by the UUID of the cell.
    pub by_cell: BTreeMap<Uuid, u64>,
    /// The number of instances by availability zone.
    #[serde(default)]
    pub by_zone: BTreeMap<String, u64>,
    /// The number of instances by place, for each level of the topology.
    #[serde(default)]
    pub by_level: Vec<LevelCapacity>,
    /// The obstacles to the next instance, the one of the most hosts first.
    #[serde(default, rename = "bounds")]
    pub limiting_factors: Vec<LimitingFactor>,
}

/// How many instances fit in the places of one level.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LevelCapacity {
    /// The name of the level.
    pub level: String,
    /// The places that would receive at least one instance.
    pub places: Vec<PlaceCapacity>,
    /// The number of instances on hosts that are in no place of the level.
    pub elsewhere: u64,
}

/// How many instances fit in one place.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PlaceCapacity {
    /// The UUID of the aggregate that is the place.
    pub aggregate: String,
    /// The name of the place in the topology, or of the aggregate; its UUID if it has none.
    pub name: String,
    /// The number of instances.
    pub count: u64,
}

/// The first obstacle to the next instance on some hosts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LimitingFactor {
    /// The kind of obstacle: `resource_class`, `filter`, `constraint`, `rule` or `claim`.
    pub reason: String,
    /// The name of the resource class or filter, or the constraint as Placement's query has it; none for `rule` and
    /// `claim`.
    pub name: Option<String>,
    /// The number of hosts.
    pub hosts: usize,
}

/// A page of hosts.
#[derive(Clone, Debug, Deserialize)]
pub struct Hosts {
    /// The hosts of the page, in a stable order.
    pub hosts: Vec<Host>,
    /// The host after which the next page begins; none on the last page.
    pub next: Option<Uuid>,
}

/// The scheduler's state of a host.
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
    /// Whether the host counts as up: its latest update is recent enough.
    pub up: bool,
    /// Whether new instances may be placed on the host.
    pub enabled: bool,
    /// How long ago the latest update of the host was received, in milliseconds.
    pub age_ms: i64,
    /// The number of instances of the host, pending ones included.
    pub instances: usize,
}

/// The host aggregates that have a name or metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Aggregates {
    /// The aggregates without their members, which placement has.
    pub aggregates: Vec<Aggregate>,
}

/// The name and metadata of a host aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Aggregate {
    /// The UUID of the aggregate in placement.
    pub uuid: Uuid,
    /// The name that its operator gave it.
    pub name: String,
    /// The availability zone of its hosts, if the metadata have one as `availability_zone`.
    pub zone: Option<String>,
    /// The metadata, which filters and weighers read.
    pub metadata: BTreeMap<String, String>,
}

/// The scheduler's treatment of an update of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "receipt", rename_all = "lowercase")]
pub enum Receipt {
    /// The update was applied.
    Applied,
    /// This update or a newer one had been applied already; nothing changed.
    Stale,
}

/// One level of the topology: the racks, for instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// The name of the level, which topology rules refer to.
    pub name: String,
    /// The places of this level, each of which is an aggregate of placement.
    pub aggregates: BTreeSet<Uuid>,
    /// By aggregate: the name of the place, after the names of the larger places that it is in, as in `north/a/r1`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<Uuid, String>,
}

/// The distance between two places of one level; it is symmetric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distance {
    /// The aggregate of the first place.
    pub from: Uuid,
    /// The aggregate of the second place. If it is also the aggregate of the first one, the distance is between hosts
    /// within this place.
    pub to: Uuid,
    /// The distance in a unit that the operator chooses. The distance of pairs without an entry is
    /// in hops.
    pub distance: u32,
}

/// The operator's topology: racks, rows and so on, as aggregates of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The levels, from the smallest places to the largest.
    pub levels: Vec<Level>,
    /// Distances between places of one level; each pair once.
    pub distances: Vec<Distance>,
}
