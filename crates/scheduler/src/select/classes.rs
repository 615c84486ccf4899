//! A cache of prepared requests: an equal request costs a look-up.
//!
//! A request's server group and topology rules say which other instances matter to one instance;
//! the prepared query does not depend on them. Requests that differ in nothing else are of one
//! class.
//!
//! A request is cached when it comes for the second time, so one-off requests evict nothing.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::request::RequestSpec;
use crate::translate::prepare::{Class, PrepareRefusal, Prepared};

/// The capacity of the cache, in requests.
const KEPT_MAX: usize = 1_024;

/// The size of the table of hashes of requests seen once; it is direct-mapped, so hashes with a
/// common remainder share an entry.
const ONCE_MAX: usize = 4_096;

type Hashing = foldhash::quality::FixedState;

/// A cache entry: a request with its prepared form.
#[derive(Debug)]
struct Kept {
    hash: u64,
    request: RequestSpec,
    prepared: Arc<Prepared>,
}

/// The cache of prepared requests.
#[derive(Debug, Default)]
pub(super) struct PreparedShelf {
    /// The versions of aggregates and compute services that the results depend on.
    basis: (u64, u32),
    kept: Vec<Kept>,
    place_of: HashMap<u64, usize, Hashing>,
    /// The next entry to be replaced once the cache is full (FIFO eviction).
    oldest: usize,
    /// The number of the newest class.
    classes: u64,
    /// Hashes of requests seen once; empty before the first.
    once: Vec<u64>,
}

impl PreparedShelf {
    /// An empty cache whose class numbers do not collide with those given out here.
    pub(super) fn fork(&self) -> Self {
        Self {
            classes: self.classes,
            ..Self::default()
        }
    }

    /// The prepared form of an equal request, or of this one, prepared now. Results for an older
    /// basis are discarded.
    pub(super) fn get(
        &mut self,
        request: &RequestSpec,
        basis: (u64, u32),
        make: impl FnOnce() -> Result<Prepared, PrepareRefusal>,
    ) -> Result<Arc<Prepared>, PrepareRefusal> {
        if self.basis != basis {
            self.kept.clear();
            self.place_of.clear();
            self.oldest = 0;
            self.basis = basis;
        }
        if depends_on_more(request) {
            return make().map(Arc::new);
        }
        let mut hasher = Hashing::default().build_hasher();
        request.flavor.vcpus.hash(&mut hasher);
        request.flavor.memory_mb.hash(&mut hasher);
        request.flavor.root_gb.hash(&mut hasher);
        request.flavor.extra_specs.hash(&mut hasher);
        request.is_bfv.hash(&mut hasher);
        request.project_id.hash(&mut hasher);
        request.availability_zone.hash(&mut hasher);
        request.scheduler_hints.hash(&mut hasher);
        if let Some(wanted) = &request.requested_destination {
            wanted.cell.hash(&mut hasher);
            wanted.aggregates.hash(&mut hasher);
        }
        let hash = hasher.finish();
        let known = self.place_of.get(&hash).map(|place| &self.kept[*place]);
        if let Some(known) = known.filter(|known| is_same_class(&known.request, request)) {
            return Ok(Arc::clone(&known.prepared));
        }
        self.classes += 1;
        let mut prepared = make()?;
        let is_known = self.came_before(hash);
        prepared.class = Some(Class {
            number: self.classes,
            is_known,
        });
        let prepared = Arc::new(prepared);
        if is_known && is_light(request) {
            self.put(hash, request, &prepared);
        }
        Ok(prepared)
    }

    /// Whether a request with this hash came lately. A collision of hashes only caches one request
    /// too many.
    fn came_before(&mut self, hash: u64) -> bool {
        self.once.resize(ONCE_MAX, 0);
        let place = usize::try_from(hash % ONCE_MAX as u64).unwrap_or(0);
        std::mem::replace(&mut self.once[place], hash) == hash
    }

    fn put(&mut self, hash: u64, request: &RequestSpec, prepared: &Arc<Prepared>) {
        let one = Kept {
            hash,
            request: request.clone(),
            prepared: Arc::clone(prepared),
        };
        let place = self.place_of.get(&hash).copied();
        let place = place.or_else(|| {
            let is_full = self.kept.len() >= KEPT_MAX;
            is_full.then(|| {
                let place = self.oldest;
                self.oldest = (place + 1) % KEPT_MAX;
                self.place_of.remove(&self.kept[place].hash);
                place
            })
        });
        if let Some(place) = place {
            self.kept[place] = one;
            self.place_of.insert(hash, place);
        } else {
            self.place_of.insert(hash, self.kept.len());
            self.kept.push(one);
        }
    }
}

/// Requests with more bytes of texts and items are not cached, because clients choose the length
/// of lists.
const BYTES_MAX: usize = 64 << 10;
const ITEM_BYTES: usize = 64;

/// Whether a request is small enough to be cached.
fn is_light(request: &RequestSpec) -> bool {
    let texts = |map: &mut dyn Iterator<Item = (&String, &String)>| -> usize {
        map.map(|(key, value)| key.len() + value.len() + ITEM_BYTES)
            .sum()
    };
    let listed = |list: &[String]| -> usize { list.iter().map(|one| one.len() + ITEM_BYTES).sum() };
    let hints = request.scheduler_hints.iter();
    let hints: usize = hints
        .map(|(key, list)| key.len() + ITEM_BYTES + listed(list))
        .sum();
    let properties = request
        .image
        .iter()
        .flat_map(|image| image.properties.iter());
    let properties: usize = properties
        .map(|(key, value)| key.len() + value.len() + ITEM_BYTES)
        .sum();
    let wanted = request.requested_destination.iter();
    let aggregates: usize = wanted
        .flat_map(|wanted| &wanted.aggregates)
        .map(|any| any.len() + 1)
        .sum();
    let groups = request.requested_resources.len() + request.pci_requests.len();
    let profiles = request.device_profiles.len() + request.topology_rules.len();
    texts(&mut request.flavor.extra_specs.iter())
        + hints
        + properties
        + listed(&request.ignore_hosts)
        + (aggregates + request.mates.len()) * ITEM_BYTES
        + (groups + profiles) * 16 * ITEM_BYTES
        <= BYTES_MAX
}

/// Whether the prepared form depends on hosts or networks too, and so cannot be cached.
fn depends_on_more(request: &RequestSpec) -> bool {
    let names_host = request
        .requested_destination
        .as_ref()
        .is_some_and(|wanted| wanted.host.is_some() || wanted.node.is_some());
    names_host || request.is_forced() || !request.requested_networks.is_empty()
}

/// Whether two requests are equal except for the members of the server group and the topology
/// rules.
fn is_same_class(one: &RequestSpec, other: &RequestSpec) -> bool {
    let RequestSpec {
        flavor,
        image,
        is_bfv,
        project_id,
        user_id,
        availability_zone,
        num_instances,
        ignore_hosts,
        force_hosts,
        force_nodes,
        requested_destination,
        scheduler_hints,
        instance_group: _,
        requested_resources,
        request_level_params,
        pci_requests,
        requested_networks,
        device_profiles,
        // Evaluated in each search, together with the instances that they are about.
        topology_rules: _,
        mates: _,
    } = one;
    let group = |request: &RequestSpec| {
        let group = request.instance_group.as_ref();
        group.map(|group| (group.policy, group.max_server_per_host))
    };
    *flavor == other.flavor
        && *image == other.image
        && *is_bfv == other.is_bfv
        && *project_id == other.project_id
        && *user_id == other.user_id
        && *availability_zone == other.availability_zone
        && *num_instances == other.num_instances
        && *ignore_hosts == other.ignore_hosts
        && *force_hosts == other.force_hosts
        && *force_nodes == other.force_nodes
        && *requested_destination == other.requested_destination
        && *scheduler_hints == other.scheduler_hints
        && group(one) == group(other)
        && *requested_resources == other.requested_resources
        && *request_level_params == other.request_level_params
        && *pci_requests == other.pci_requests
        && *requested_networks == other.requested_networks
        && *device_profiles == other.device_profiles
}
