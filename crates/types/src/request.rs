//! A request to the scheduler: the `request` of `POST /v1/destinations`.
//!
//! Every field of Nova's request spec that decides where an instance goes is here under its own
//! name. Either `flavor` or `requested_resources` is required. Unknown fields are refused. The errors of [`read`] name
//! the field.
//!
//! ```
//! # use placewright_types::request::{self, RequestSpec};
//! let json = r#"{
//!   "flavor": {
//!     "vcpus": 4, "memory_mb": 8192, "root_gb": 20,
//!     "extra_specs": {"resources:VGPU": 1, "trait:HW_CPU_X86_AVX2": "required"}
//!   },
//!   "image": {"disk_format": "qcow2", "properties": {"hw_disk_bus": "virtio"}},
//!   "project_id": "b7c4",
//!   "availability_zone": "north",
//!   "scheduler_hints": {"same_host": ["5ff5ab0a-7bf1-4b1c-8e4e-8a9d5e3a2b60"]},
//!   "requested_destination": {"aggregates": [["0a36a1c8-6c9a-4d5a-9a53-2b4f4a7a7d11"]]},
//!   "instance_group": {
//!     "uuid": "c1a2d5a6-3a0b-4e37-9d5c-0f3f0c6f9f10",
//!     "policy": "anti-affinity", "max_server_per_host": 2
//!   },
//!   "requested_networks": [{
//!     "port_id": "8d6f0a58-3b5e-4f64-a6d3-0d5f6a7b8c90",
//!     "resource_request": {
//!       "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000},
//!       "required": ["CUSTOM_PHYSNET_2"]
//!     }
//!   }],
//!   "topology_rules": [{"level": "rack", "relation": "different", "strength": "hard"}]
//! }"#;
//! let spec: RequestSpec = request::read(&mut serde_json::Deserializer::from_str(json)).unwrap();
//! assert_eq!(spec.flavor.vcpus, 4);
//! assert_eq!(spec.num_instances, 1);
//!
//! let json = r#"{"flavor": {"vcpus": 1, "memory_mb": "lots"}}"#;
//! let refused = request::read::<RequestSpec, _>(&mut serde_json::Deserializer::from_str(json));
//! assert_eq!(refused.unwrap_err().field, "flavor.memory_mb");
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;
use uuid::Uuid;

use crate::flavor::Flavor;
use crate::image::Image;
use crate::text;

pub mod device;
pub mod group;
pub mod rule_text;

pub use device::{
    DeviceGroup, DeviceProfile, PciNumaPolicy, PciRequest, PortResourceRequest, RequestedNetwork,
};
pub use group::{GroupPolicy, RequestGroupPolicy, ServerGroup, TopologyRelation, TopologyRule};

/// A request to place one or more equal instances: everything that decides where they go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// The size of each instance. Not needed if `requested_resources` says everything that an instance needs.
    #[serde(default)]
    pub flavor: Flavor,
    /// The image. Its properties apply also if the root disk is a volume.
    #[serde(default)]
    pub image: Option<Image>,
    /// Whether the instance boots from a volume, so that its root disk needs no local disk.
    #[serde(default)]
    pub is_bfv: bool,
    /// The project that will own the instances.
    #[serde(default)]
    pub project_id: String,
    /// The user who makes the request.
    #[serde(default)]
    pub user_id: String,
    /// The requested availability zone, if any.
    #[serde(default)]
    pub availability_zone: Option<String>,
    /// The number of instances. Not needed in `POST /v1/destinations`, whose field `instances` lists them.
    #[serde(default = "one")]
    pub num_instances: u32,
    /// Hosts to exclude, compared without regard to case.
    #[serde(default)]
    pub ignore_hosts: Vec<String>,
    /// Hosts that an administrator forced; only the first counts. Filters are skipped.
    #[serde(default)]
    pub force_hosts: Vec<String>,
    /// Nodes that an administrator forced; only the first counts. Filters are skipped.
    #[serde(default)]
    pub force_nodes: Vec<String>,
    /// Restricts the search to a host, cell or aggregates; filters apply.
    #[serde(default)]
    pub requested_destination: Option<Destination>,
    /// Free-form hints for filters; a single string is read as a list of one.
    #[serde(default, deserialize_with = "text::map_of_lists")]
    pub scheduler_hints: BTreeMap<String, Vec<String>>,
    /// The server group that the instances belong to.
    #[serde(default)]
    pub instance_group: Option<ServerGroup>,
    /// Ready-made groups of resources from outside the flavor. Ports, devices and accelerators
    /// that are described in their own fields must not be repeated here.
    #[serde(default)]
    pub requested_resources: Vec<RequestGroup>,
    /// Whether groups with a suffix may share a provider, in place of `group_policy` in the flavor's extra specs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_policy: Option<RequestGroupPolicy>,
    /// Constraints on the request as a whole.
    #[serde(default)]
    pub request_level_params: RequestLevelParams,
    /// PCI devices whose aliases were already resolved. If there are none, those in the flavor's
    /// `pci_passthrough:alias` are resolved with the configured aliases.
    #[serde(default)]
    pub pci_requests: Vec<PciRequest>,
    /// The ports and networks that each instance is attached to.
    #[serde(default)]
    pub requested_networks: Vec<RequestedNetwork>,
    /// The device profiles that the flavor or ports name.
    #[serde(default)]
    pub device_profiles: Vec<DeviceProfile>,
    /// Constraints and preferences on the places of the instances in the operator's topology.
    #[serde(default)]
    pub topology_rules: Vec<TopologyRule>,
    /// The other instances that are placed together with the current one. Set by callers that place
    /// several instances.
    #[serde(skip)]
    pub siblings: BTreeSet<Uuid>,
}

fn one() -> u32 {
    1
}

impl Default for RequestSpec {
    fn default() -> Self {
        Self::new(Flavor::default())
    }
}

impl RequestSpec {
    /// A request for one instance of a flavor, without further constraints.
    #[must_use]
    pub fn new(flavor: Flavor) -> Self {
        Self {
            flavor,
            image: None,
            is_bfv: false,
            project_id: String::new(),
            user_id: String::new(),
            availability_zone: None,
            num_instances: 1,
            ignore_hosts: Vec::new(),
            force_hosts: Vec::new(),
            force_nodes: Vec::new(),
            requested_destination: None,
            scheduler_hints: BTreeMap::new(),
            instance_group: None,
            requested_resources: Vec::new(),
            group_policy: None,
            request_level_params: RequestLevelParams::default(),
            pci_requests: Vec::new(),
            requested_networks: Vec::new(),
            device_profiles: Vec::new(),
            topology_rules: Vec::new(),
            siblings: BTreeSet::new(),
        }
    }

    /// The first value of a hint; `None` if the request lacks the hint, or if the hint is an empty list.
    #[must_use]
    pub fn hint(&self, name: &str) -> Option<&str> {
        self.hints(name).first().map(String::as_str)
    }

    /// All values of a hint.
    #[must_use]
    pub fn hints(&self, name: &str) -> &[String] {
        self.scheduler_hints.get(name).map_or(&[], Vec::as_slice)
    }

    /// A property of the image in its canonical form, if there is an image that has it.
    #[must_use]
    pub fn image_property(&self, name: &str) -> Option<&str> {
        self.image.as_ref()?.properties.get(name)
    }

    /// Whether an administrator forced a host or node, so that filters are skipped.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        !self.force_hosts.is_empty() || !self.force_nodes.is_empty()
    }

    /// Whether a host is one of those to exclude.
    #[must_use]
    pub fn ignores_host(&self, host: &str) -> bool {
        let host = host.to_lowercase();
        self.ignore_hosts
            .iter()
            .any(|ignored| ignored.to_lowercase() == host)
    }
}

/// A requested destination: restricts the hosts that are searched. The destination of an instance is the host that the
/// search then selects for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    /// The name of the only host to consider.
    #[serde(default)]
    pub host: Option<String>,
    /// The name of the only node to consider.
    #[serde(default)]
    pub node: Option<String>,
    /// The only cell to consider; with `allow_cross_cell_move` the preferred one.
    #[serde(default)]
    pub cell: Option<Uuid>,
    /// UUIDs of aggregates: the host has to be in one of each inner list.
    #[serde(default)]
    pub aggregates: Vec<Vec<Uuid>>,
    /// UUIDs of aggregates: the host must not be in any of them.
    #[serde(default)]
    pub forbidden_aggregates: BTreeSet<Uuid>,
    /// Whether hosts outside of `cell` may be chosen.
    #[serde(default)]
    pub allow_cross_cell_move: bool,
}

/// A request group: resources, and constraints on the providers that serve them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestGroup {
    /// The suffix of the group, such as a port's UUID: 1 to 64 letters, digits, `_` and `-`. Empty for the unsuffixed
    /// group, to which the flavor adds the resources that the group lacks.
    #[serde(default)]
    pub requester_id: String,
    /// Amounts by resource class.
    #[serde(default)]
    pub resources: BTreeMap<String, u64>,
    /// Traits that are required.
    #[serde(default)]
    pub required_traits: BTreeSet<String>,
    /// Sets of traits: at least one trait of each set is required.
    #[serde(default)]
    pub any_traits: Vec<BTreeSet<String>>,
    /// Traits that are forbidden.
    #[serde(default)]
    pub forbidden_traits: BTreeSet<String>,
    /// UUIDs of aggregates: providers have to be in one of each inner list.
    #[serde(default)]
    pub aggregates: Vec<Vec<Uuid>>,
    /// UUIDs of aggregates: providers must not be in any of them.
    #[serde(default)]
    pub forbidden_aggregates: BTreeSet<Uuid>,
    /// The UUID of a provider: the group must be served by the tree of that provider.
    #[serde(default)]
    pub in_tree: Option<Uuid>,
}

impl RequestGroup {
    /// Sets the amount of a class, replacing an earlier one.
    pub fn set_resource(&mut self, class: &str, amount: u64) {
        self.resources.insert(class.to_owned(), amount);
    }

    /// Adds a trait to the required ones.
    pub fn require(&mut self, name: &str) {
        self.required_traits.insert(name.to_owned());
    }

    /// Adds a trait to the forbidden ones.
    pub fn forbid(&mut self, name: &str) {
        self.forbidden_traits.insert(name.to_owned());
    }

    /// Adds the resources and constraints of another group. An amount of the other group replaces this group's amount
    /// of the same class.
    pub fn merge(&mut self, other: Self) {
        self.resources.extend(other.resources);
        self.required_traits.extend(other.required_traits);
        self.any_traits.extend(other.any_traits);
        self.forbidden_traits.extend(other.forbidden_traits);
        self.aggregates.extend(other.aggregates);
        self.forbidden_aggregates.extend(other.forbidden_aggregates);
        self.in_tree = other.in_tree.or(self.in_tree);
    }

    /// Whether the group requests no resources and has no constraints.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
            && self.required_traits.is_empty()
            && self.any_traits.is_empty()
            && self.forbidden_traits.is_empty()
            && self.aggregates.is_empty()
            && self.forbidden_aggregates.is_empty()
            && self.in_tree.is_none()
    }
}

/// Constraints on a request as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestLevelParams {
    /// Traits that the host itself must have.
    #[serde(default)]
    pub root_required: BTreeSet<String>,
    /// Traits that the host itself must not have.
    #[serde(default)]
    pub root_forbidden: BTreeSet<String>,
    /// Sets of group suffixes: of the providers that serve a set, one must be the ancestor of all others.
    #[serde(default)]
    pub same_subtree: Vec<BTreeSet<String>>,
}

/// The error for a request body that cannot be parsed, with the field.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {message}")]
pub struct RequestParseError {
    /// The path to the field: `flavor.extra_specs.hw:cpu_policy`; `.` for the body itself.
    pub field: String,
    /// The problem with the field.
    pub message: String,
}

/// Parses one of the request types.
///
/// # Errors
///
/// [`RequestParseError`] names the field that cannot be parsed.
pub fn read<'de, T, D>(deserializer: D) -> Result<T, RequestParseError>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    serde_path_to_error::deserialize(deserializer).map_err(|error| RequestParseError {
        field: error.path().to_string(),
        message: error.inner().to_string(),
    })
}
