//! The options of filters and weighers, under the names that operators know.
//!
//! The options that Nova 34 has in its sections `[filter_scheduler]` and `[metrics]` have the same names and defaults
//! here, so that a configuration can be reused literally.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The name that stands for all weighers in `weight_classes`.
pub const ALL_WEIGHERS: &str = "nova.scheduler.weights.all_weighers";

/// The filters that are enabled by default, in order.
pub const ENABLED_BY_DEFAULT: [&str; 5] = [
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
];

/// All options of filters and weighers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerConfig {
    /// The filters, in the order in which an explanation names them. Of a Python path only the
    /// last component counts.
    pub enabled_filters: Vec<String>,
    /// The weighers, or [`ALL_WEIGHERS`]. Of a Python path only the last component counts.
    pub weight_classes: Vec<String>,
    /// Accepted for compatibility, without effect: no choice is random. A claim lists the best
    /// hosts in order, and the first that still fits is taken.
    pub host_subset_size: u32,
    /// Accepted for compatibility, without effect: of hosts with equal scores, the one with the
    /// lowest slot comes first.
    pub shuffle_best_same_weighed_hosts: bool,
    /// How long a host may be silent before it counts as down.
    pub service_down_time_s: u32,

    /// `IoOpsFilter`, `AggregateIoOpsFilter`: a host passes with fewer busy instances than this.
    pub max_io_ops_per_host: i32,
    /// `NumInstancesFilter`, `AggregateNumInstancesFilter`: a host passes with fewer instances than this.
    pub max_instances_per_host: i32,
    /// `IsolatedHostsFilter`: the UUIDs of the images that may only use the isolated hosts.
    pub isolated_images: Vec<String>,
    /// `IsolatedHostsFilter`: the service hosts of the isolated hosts.
    pub isolated_hosts: Vec<String>,
    /// `IsolatedHostsFilter`: whether isolated hosts accept only isolated images.
    pub restrict_isolated_hosts_to_isolated_images: bool,
    /// `AggregateImagePropertiesIsolation`: only metadata keys with this prefix count.
    pub aggregate_image_properties_isolation_namespace: Option<String>,
    /// `AggregateImagePropertiesIsolation`: the text between the prefix and the property's name.
    pub aggregate_image_properties_isolation_separator: String,
    /// `ImagePropertiesFilter`: the architecture of images that name none.
    pub image_properties_default_architecture: Option<String>,

    /// Multiplier of `RAMWeigher`, which prefers free memory.
    pub ram_weight_multiplier: f64,
    /// Multiplier of `CPUWeigher`, which prefers free CPUs.
    pub cpu_weight_multiplier: f64,
    /// Multiplier of `DiskWeigher`, which prefers free disk.
    pub disk_weight_multiplier: f64,
    /// Multiplier of `IoOpsWeigher`; negative to prefer hosts with few busy instances.
    pub io_ops_weight_multiplier: f64,
    /// Multiplier of `ServerGroupSoftAffinityWeigher`; must not be negative.
    pub soft_affinity_weight_multiplier: f64,
    /// Multiplier of `ServerGroupSoftAntiAffinityWeigher`; must not be negative.
    pub soft_anti_affinity_weight_multiplier: f64,
    /// Multiplier of `BuildFailureWeigher`. The share of this weigher is subtracted from the score.
    pub build_failure_weight_multiplier: f64,
    /// Multiplier of `CrossCellWeigher`, which keeps moves within their cell.
    pub cross_cell_move_weight_multiplier: f64,
    /// Multiplier of `PCIWeigher`; must not be negative.
    pub pci_weight_multiplier: f64,
    /// Multiplier of `HypervisorVersionWeigher`, which prefers new versions.
    pub hypervisor_version_weight_multiplier: f64,
    /// `NumInstancesWeigher`: positive packs, negative spreads, 0 switches it off.
    pub num_instances_weight_multiplier: f64,
    /// `ImagePropertiesWeigher`: positive packs, negative spreads, 0 switches it off.
    pub image_props_weight_multiplier: f64,
    /// `TopologyWeigher`: how much the soft topology rules of a request count; not negative.
    pub topology_weight_multiplier: f64,
    /// `FragmentationWeigher`: packs devices that are shared or taken whole; 0 switches it off.
    pub fragmentation_weight_multiplier: f64,
    /// `FragmentationWeigher`: the resource class of which a whole device has 1000.
    pub fragmentation_device_class: String,
    /// `ImagePropertiesWeigher`: the properties that count, each as `property=ratio`; if empty,
    /// every property counts with ratio 1.
    pub image_props_weight_setting: Vec<String>,

    /// Options of the filter and the weigher that read metrics.
    pub metrics: MetricsConfig,
    /// Filters and weighers written as expressions; they come after the others.
    pub expressions: Vec<ExpressionConfig>,
}

/// An expression as configured: either `filter` or `weigher`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExpressionConfig {
    /// The name that explanations use: letters, digits, `_` and `-`.
    pub name: String,
    /// The condition on which a host passes.
    pub filter: Option<String>,
    /// The expression for a host's raw value.
    pub weigher: Option<String>,
    /// How much the weigher counts; an aggregate's metadata key `<name>_weight_multiplier`
    /// overrides it.
    pub multiplier: f64,
}

impl Default for ExpressionConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            filter: None,
            weigher: None,
            multiplier: 1.0,
        }
    }
}

/// Options of `MetricsFilter` and `MetricsWeigher`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsConfig {
    /// The multiplier of `MetricsWeigher`, in the section `[metrics]`.
    pub weight_multiplier: f64,
    /// The metrics that count, each as `metric=ratio`.
    pub weight_setting: Vec<String>,
    /// Whether a host without one of the metrics is refused.
    pub required: bool,
    /// The raw value of a host without one of the metrics, when they are not required.
    pub weight_of_unavailable: f64,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self {
            weight_multiplier: 1.0,
            weight_setting: Vec::new(),
            required: true,
            weight_of_unavailable: -10_000.0,
        }
    }
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            enabled_filters: ENABLED_BY_DEFAULT.map(str::to_owned).to_vec(),
            weight_classes: vec![ALL_WEIGHERS.to_owned()],
            host_subset_size: 1,
            shuffle_best_same_weighed_hosts: false,
            service_down_time_s: 60,
            max_io_ops_per_host: 8,
            max_instances_per_host: 50,
            isolated_images: Vec::new(),
            isolated_hosts: Vec::new(),
            restrict_isolated_hosts_to_isolated_images: true,
            aggregate_image_properties_isolation_namespace: None,
            aggregate_image_properties_isolation_separator: ".".to_owned(),
            image_properties_default_architecture: None,
            ram_weight_multiplier: 1.0,
            cpu_weight_multiplier: 1.0,
            disk_weight_multiplier: 1.0,
            io_ops_weight_multiplier: -1.0,
            soft_affinity_weight_multiplier: 1.0,
            soft_anti_affinity_weight_multiplier: 1.0,
            build_failure_weight_multiplier: 1_000_000.0,
            cross_cell_move_weight_multiplier: 1_000_000.0,
            pci_weight_multiplier: 1.0,
            hypervisor_version_weight_multiplier: 1.0,
            num_instances_weight_multiplier: 0.0,
            image_props_weight_multiplier: 0.0,
            topology_weight_multiplier: 1.0,
            fragmentation_weight_multiplier: 0.0,
            fragmentation_device_class: "CUSTOM_GPU_MILLI".to_owned(),
            image_props_weight_setting: Vec::new(),
            metrics: MetricsConfig::default(),
            expressions: Vec::new(),
        }
    }
}

/// An option, or a combination of options, that has no effect although it was set, or probably not the intended effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The name of the option, as operators write it.
    pub option: String,
    /// The problem as a sentence.
    pub text: String,
}

/// An option whose value is not usable.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{option}: {text}")]
pub struct ConfigError {
    /// The name of the option, as operators write it.
    pub option: String,
    /// The problem, and what would be valid.
    pub text: String,
}

/// The last part of a Python path: `nova.scheduler.weights.ram.RAMWeigher` is `RAMWeigher`.
#[must_use]
pub fn short_name(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The `name=ratio` pairs of a list option, and the elements that do not parse as such.
#[must_use]
pub fn parse_ratios(elements: &[String]) -> (Vec<(String, f64)>, Vec<String>) {
    let (mut parsed, mut malformed) = (Vec::new(), Vec::new());
    for element in elements {
        let pair = element
            .split_once('=')
            .and_then(|(name, ratio)| Some((name, crate::values::parse_float(ratio)?)));
        match pair {
            Some((name, ratio)) if !name.is_empty() => parsed.push((name.to_owned(), ratio)),
            _ => malformed.push(element.clone()),
        }
    }
    (parsed, malformed)
}
