//! Requests to the scheduler, which are part of the bodies of specs.

use std::collections::BTreeMap;

use placewright_types::flavor::Flavor;
use placewright_types::image::{Image, ImageProperties};
use placewright_types::request::device::{
    DeviceGroup, DeviceProfile, PciDeviceSpec, PciNumaPolicy, PciRequest, PortRequestGroup,
    PortResourceRequest, RequestedNetwork,
};
use placewright_types::request::group::Strength;
use placewright_types::request::{
    Destination, GroupPolicy, RequestGroup, RequestGroupPolicy, RequestLevelParams, RequestSpec,
    ServerGroup, TopologyRelation, TopologyRule,
};

use crate::form::{Form, FormError, Reader, Writer};

row!(RequestSpec {
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
    instance_group,
    requested_resources,
    request_level_params,
    pci_requests,
    requested_networks,
    device_profiles,
    topology_rules,
    siblings;
    group_policy
});
row!(Flavor {
    name,
    vcpus,
    memory_mb,
    root_gb,
    ephemeral_gb,
    swap_mb,
    extra_specs
});
row!(Image {
    id,
    name,
    disk_format,
    properties
});
row!(Destination {
    host,
    node,
    cell,
    aggregates,
    forbidden_aggregates,
    allow_cross_cell_move,
});
row!(ServerGroup {
    uuid,
    policy,
    max_server_per_host,
    members,
    hosts,
    topology_rules,
});
row!(TopologyRule {
    level,
    relation,
    strength,
    to,
    max_skew,
    weight;
    place
});
row!(RequestGroup {
    requester_id,
    resources,
    required_traits,
    any_traits,
    forbidden_traits,
    aggregates,
    forbidden_aggregates,
    in_tree,
});
row!(RequestLevelParams {
    root_required,
    root_forbidden,
    same_subtree
});
row!(PciRequest {
    request_id,
    count,
    alias_name,
    from_port,
    numa_policy,
    spec
});
row!(PciDeviceSpec {
    vendor_id,
    product_id,
    dev_type,
    resource_class,
    traits,
    live_migratable
});
row!(RequestedNetwork {
    port_id,
    network_id,
    vnic_type,
    physical_network,
    tunneled,
    segments,
    resource_request,
    device_profile,
});
row!(PortResourceRequest {
    resources,
    required,
    request_groups,
    same_subtree
});
row!(PortRequestGroup {
    id,
    resources,
    required
});
row!(DeviceProfile { name, groups });
row!(DeviceGroup { properties });

names!(RequestGroupPolicy { 0 None, 1 Isolate });
names!(GroupPolicy { 0 Affinity, 1 AntiAffinity, 2 SoftAffinity, 3 SoftAntiAffinity });
names!(TopologyRelation { 0 Same, 1 Different, 2 Spread, 3 Near, 4 Far });
names!(Strength { 0 Hard, 1 Soft });
names!(PciNumaPolicy { 0 Required, 1 Legacy, 2 Preferred, 3 Socket });

/// Properties are written as names and values, and are parsed again when they are read.
impl Form for ImageProperties {
    fn write(&self, out: &mut Writer) {
        self.to_map().write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        let properties: BTreeMap<String, String> = Form::read(from)?;
        Self::new(properties).map_err(|_| FormError::Bad("a property of an image"))
    }
}
