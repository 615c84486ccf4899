//! Request classes: which requests are equal for the purpose of a search.
//!
//! The prepared query of a request does not depend on the members of its server group and on its
//! topology rules. Requests that differ in nothing else are of one class.

use std::hash::{BuildHasher, Hash, Hasher};

use crate::request::RequestSpec;

/// A hash that is equal for requests of one class. It leaves out fields that rarely differ.
pub(super) fn hash_of(request: &RequestSpec) -> u64 {
    let mut hasher = foldhash::quality::FixedState::default().build_hasher();
    request.flavor.vcpus.hash(&mut hasher);
    request.flavor.memory_mb.hash(&mut hasher);
    request.flavor.root_gb.hash(&mut hasher);
    request.flavor.extra_specs.hash(&mut hasher);
    request.is_bfv.hash(&mut hasher);
    request.project_id.hash(&mut hasher);
    request.availability_zone.hash(&mut hasher);
    request.scheduler_hints.hash(&mut hasher);
    if let Some(destination) = &request.requested_destination {
        destination.cell.hash(&mut hasher);
        destination.aggregates.hash(&mut hasher);
    }
    hasher.finish()
}

/// Requests of more bytes are not cached, because clients determine the lengths of lists.
const BYTES_MAX: usize = 64 << 10;
/// The assumed size of an element of a list or map besides its texts, in bytes.
const ITEM_BYTES: usize = 64;
/// The assumed size of an element that has lists itself, such as a request group.
const STRUCT_BYTES: usize = 16 * ITEM_BYTES;

/// Whether a request is small enough to be cached.
pub(super) fn has_cacheable_size(request: &RequestSpec) -> bool {
    let map_bytes = |map: &mut dyn Iterator<Item = (&String, &String)>| -> usize {
        map.map(|(key, value)| key.len() + value.len() + ITEM_BYTES)
            .sum()
    };
    let list_bytes =
        |list: &[String]| -> usize { list.iter().map(|text| text.len() + ITEM_BYTES).sum() };
    let hints = request.scheduler_hints.iter();
    let hint_bytes: usize = hints
        .map(|(key, list)| key.len() + ITEM_BYTES + list_bytes(list))
        .sum();
    let properties = request
        .image
        .iter()
        .flat_map(|image| image.properties.iter());
    let property_bytes: usize = properties
        .map(|(key, value)| key.len() + value.len() + ITEM_BYTES)
        .sum();
    let destination = request.requested_destination.iter();
    let aggregate_count: usize = destination
        .flat_map(|destination| &destination.aggregates)
        .map(|alternatives| alternatives.len() + 1)
        .sum();
    let group_and_device_count = request.requested_resources.len() + request.pci_requests.len();
    let profile_and_rule_count = request.device_profiles.len() + request.topology_rules.len();
    map_bytes(&mut request.flavor.extra_specs.iter())
        + hint_bytes
        + property_bytes
        + list_bytes(&request.ignore_hosts)
        + (aggregate_count + request.siblings.len()) * ITEM_BYTES
        + (group_and_device_count + profile_and_rule_count) * STRUCT_BYTES
        <= BYTES_MAX
}

/// Whether the prepared form depends on single hosts or networks too, so that it cannot be cached.
pub(super) fn depends_on_hosts_or_networks(request: &RequestSpec) -> bool {
    let names_host = request
        .requested_destination
        .as_ref()
        .is_some_and(|destination| destination.host.is_some() || destination.node.is_some());
    names_host || request.is_forced() || !request.requested_networks.is_empty()
}

/// Whether two requests are equal except for the members of the server group and the topology
/// rules.
pub(super) fn is_same_class(request: &RequestSpec, other: &RequestSpec) -> bool {
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
        group_policy,
        request_level_params,
        pci_requests,
        requested_networks,
        device_profiles,
        // These rules are evaluated in each search, together with the instances that they concern.
        topology_rules: _,
        siblings: _,
    } = request;
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
        && group(request) == group(other)
        && *requested_resources == other.requested_resources
        && *group_policy == other.group_policy
        && *request_level_params == other.request_level_params
        && *pci_requests == other.pci_requests
        && *requested_networks == other.requested_networks
        && *device_profiles == other.device_profiles
}
