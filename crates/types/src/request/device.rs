//! Ports, PCI devices and accelerators of a request.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::text;

/// A port or a network that the instance is to be attached to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestedNetwork {
    /// The UUID of the port, if it exists already.
    #[serde(default)]
    pub port_id: Option<Uuid>,
    /// The UUID of the network.
    #[serde(default)]
    pub network_id: Option<Uuid>,
    /// How the port is attached: `normal`, `direct`, `remote-managed` …
    #[serde(default)]
    pub vnic_type: Option<String>,
    /// The name of the port's physical network, for NUMA-aware virtual switches.
    #[serde(default)]
    pub physical_network: Option<String>,
    /// Whether the port's traffic is tunnelled, for NUMA-aware virtual switches.
    #[serde(default)]
    pub tunneled: bool,
    /// The segments that the port can use: the segment of the port's subnet, or all segments of the network. Empty if
    /// the network is not a routed one.
    #[serde(default)]
    pub segments: Vec<Uuid>,
    /// The resources that the network service requests for this port.
    #[serde(default)]
    pub resource_request: Option<PortResourceRequest>,
    /// The name of the device profile of the port.
    #[serde(default)]
    pub device_profile: Option<String>,
}

/// The resources that a port requests, in either format of the network service.
///
/// One group: `{"resources": {…}, "required": […]}`. Several groups:
/// `{"request_groups": [{"id": …, "resources": {…}, "required": […]}, …], "same_subtree": [ids]}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortResourceRequest {
    /// Amounts by resource class, of the only group.
    #[serde(default)]
    pub resources: BTreeMap<String, u64>,
    /// Traits of the only group.
    #[serde(default)]
    pub required: BTreeSet<String>,
    /// The groups, in the format with several groups.
    #[serde(default)]
    pub request_groups: Option<Vec<PortRequestGroup>>,
    /// Identifiers of groups: of the providers that serve them, one must be the ancestor of all others.
    #[serde(default)]
    pub same_subtree: BTreeSet<String>,
}

/// One of several groups of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortRequestGroup {
    /// The identifier of the group, unique among all groups.
    pub id: String,
    /// Amounts by resource class.
    pub resources: BTreeMap<String, u64>,
    /// Traits that are required.
    #[serde(default)]
    pub required: BTreeSet<String>,
}

/// A number of equal PCI devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciRequest {
    /// The identifier of the request; device `i` becomes the group `<request_id>-<i>`.
    pub request_id: String,
    /// The number of devices.
    pub count: u32,
    /// The alias that the request comes from, for messages.
    #[serde(default)]
    pub alias_name: Option<String>,
    /// Whether the request belongs to a port; then the network service's groups say where the devices can be.
    #[serde(default)]
    pub from_port: bool,
    /// The NUMA affinity of the devices.
    #[serde(default)]
    pub numa_policy: PciNumaPolicy,
    /// The acceptable devices, as alternatives. Where placement has PCI devices as resources, only one
    /// alternative is possible.
    pub spec: Vec<PciDeviceSpec>,
}

/// The NUMA affinity of a PCI device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PciNumaPolicy {
    /// On a NUMA node of the guest.
    Required,
    /// On a NUMA node of the guest, or on none.
    #[default]
    Legacy,
    /// On any NUMA node or on none.
    Preferred,
    /// In the socket of a NUMA node of the guest.
    Socket,
}

/// A description of acceptable PCI devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciDeviceSpec {
    /// The PCI vendor, as four hexadecimal digits.
    #[serde(default)]
    pub vendor_id: Option<String>,
    /// The PCI product, as four hexadecimal digits.
    #[serde(default)]
    pub product_id: Option<String>,
    /// `type-PCI`, `type-PF` or `type-VF`.
    #[serde(default)]
    pub dev_type: Option<String>,
    /// The resource class of the devices; without it, one made of vendor and product.
    #[serde(default)]
    pub resource_class: Option<String>,
    /// Traits that the devices must have, separated by commas.
    #[serde(default)]
    pub traits: Option<String>,
    /// Whether an instance with such a device can be live migrated.
    #[serde(default)]
    pub live_migratable: Option<bool>,
}

/// A device profile of the accelerator service: one map of properties for each group.
///
/// `{"name": "fpga", "groups": [{"resources:FPGA": "1", "trait:CUSTOM_FAST": "required"}]}`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceProfile {
    /// The name by which flavors and ports refer to the profile.
    pub name: String,
    /// The groups; keys other than `resources:` and `trait:` are internal to the accelerator
    /// service.
    pub groups: Vec<DeviceGroup>,
}

/// One group of a device profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceGroup {
    /// The group's properties, such as `resources:FPGA`.
    #[serde(deserialize_with = "text::map_of_texts")]
    pub properties: BTreeMap<String, String>,
}
