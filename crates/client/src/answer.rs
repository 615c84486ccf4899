//! What the scheduler answers. Fields that a newer server adds are passed over.

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
    /// One for each instance, in the order of the request.
    pub selections: Vec<Slot>,
    /// What of the request has no effect.
    pub warnings: Vec<String>,
}

/// What an instance gets.
#[derive(Clone, Debug, Deserialize)]
pub struct Slot {
    /// The instance.
    pub instance: Uuid,
    /// Its host; nothing when it found none and did not have to.
    pub selected: Option<Selection>,
    /// Other hosts of the same cell.
    pub alternates: Vec<Selection>,
    /// Why this host; only of a request that asks for it.
    #[serde(default)]
    pub explanation: Option<Explanation>,
}

/// Why a host was selected.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Explanation {
    /// How many hosts would do, and were compared.
    pub compared: usize,
    /// The best of them, best first: at most ten, and the selected one.
    pub ranking: Vec<Weighed>,
}

/// What a host weighs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Weighed {
    /// The host's root provider.
    pub provider: Uuid,
    /// The service that looks after the host.
    pub host: String,
    /// The host's node.
    pub node: String,
    /// The sum of the shares.
    pub score: f64,
    /// Whether the instance goes there. A better one was taken by others first.
    pub selected: bool,
    /// What each weigher gives it; empty where there was nobody to compare it with.
    pub weights: Vec<Weight>,
}

/// What a weigher gives a host.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Weight {
    /// The weigher.
    pub weigher: String,
    /// The host's number.
    pub number: f64,
    /// The number on the scale of the hosts compared, from 0 to 1.
    pub normalised: f64,
    /// How much it counts.
    pub multiplier: f64,
    /// What it comes to.
    pub share: f64,
}

/// A host with one way to be served.
#[derive(Clone, Debug, Deserialize)]
pub struct Selection {
    /// The name of this way, for a later claim.
    pub candidate: Uuid,
    /// The host's cell.
    pub cell: Uuid,
    /// The service that looks after the host.
    pub host: String,
    /// The host's node.
    pub node: String,
    /// The host's root provider.
    pub provider: Uuid,
    /// Its zone.
    pub zone: Option<String>,
    /// Its weight; the more the better. Of another request it means nothing.
    pub score: f64,
    /// What is claimed there.
    pub allocation_request: AllocationRequest,
}

/// What is claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct AllocationRequest {
    /// By provider.
    pub allocations: BTreeMap<Uuid, Allocations>,
    /// Who serves which group of a granular request, by the group's suffix.
    #[serde(default)]
    pub mappings: BTreeMap<String, Vec<Uuid>>,
}

/// Amounts of one provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Allocations {
    /// By resource class.
    pub resources: BTreeMap<String, i64>,
}

/// What a consumer holds now.
#[derive(Clone, Debug, Deserialize)]
pub struct Claimed {
    /// The consumer.
    pub consumer: Uuid,
    /// The candidate.
    pub candidate: Uuid,
    /// The host's root provider.
    pub provider: Uuid,
    /// What is claimed there.
    pub allocation_request: AllocationRequest,
}

/// How many more would fit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Capacity {
    /// The instances.
    pub count: usize,
    /// Whether there is room for more than the limit.
    pub more: bool,
    /// The hosts that would get some.
    pub hosts: usize,
    /// The instances by cell.
    pub by_cell: BTreeMap<Uuid, usize>,
}

/// A page of hosts.
#[derive(Clone, Debug, Deserialize)]
pub struct Hosts {
    /// The hosts.
    pub hosts: Vec<Host>,
    /// What to begin the next page after; nothing on the last.
    pub next: Option<Uuid>,
}

/// A host as the scheduler sees it.
#[derive(Clone, Debug, Deserialize)]
pub struct Host {
    /// The compute node's UUID: that of its root provider.
    pub uuid: Uuid,
    /// Its cell.
    pub cell: Uuid,
    /// The service that looks after it.
    pub host: String,
    /// Its node.
    pub node: String,
    /// Its zone.
    pub zone: Option<String>,
    /// Whether placement has its root provider.
    pub has_provider: bool,
    /// Whether it is heard of.
    pub up: bool,
    /// Whether new instances may come.
    pub enabled: bool,
    /// How long ago it was last heard of, in milliseconds.
    pub age_ms: i64,
    /// The instances there, or on their way.
    pub instances: usize,
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "receipt", rename_all = "lowercase")]
pub enum Receipt {
    /// It counts now.
    Applied,
    /// It, or a newer one, was there already.
    Stale,
}

/// One level of places: the racks, say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// Its places: each an aggregate of placement.
    pub aggregates: BTreeSet<Uuid>,
}

/// How far apart two places of one level are; the same both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distance {
    /// One place.
    pub from: Uuid,
    /// The other, or the same one: the distance between hosts of the place.
    pub to: Uuid,
    /// In the operator's own unit. Pairs of which nothing is said are counted in hops.
    pub distance: u32,
}

/// The places of the operator's topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The levels, the smallest first.
    pub levels: Vec<Level>,
    /// Distances between places of one level; each pair once.
    pub distances: Vec<Distance>,
}
