//! Validates a configuration: finds errors, and options that have no effect.

use super::enabled::{enabled_filters, enabled_weighers, load_expressions};
use crate::config::{
    ALL_WEIGHERS, ConfigError, SchedulerConfig, Warning, parse_ratios, short_name,
};
use crate::image::known::{Kind, kind};

/// All errors of a configuration, and its warnings: options that were set and have no effect, and options that probably
/// have another effect than intended.
#[must_use]
pub fn check(config: &SchedulerConfig) -> (Vec<ConfigError>, Vec<Warning>) {
    let mut checker = Checker {
        config,
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    checker.check_names();
    checker.check_numbers();
    checker.check_filter_options();
    checker.check_isolated_hosts();
    checker.check_metrics();
    checker.check_multipliers();
    checker.check_image_properties();
    checker
        .errors
        .extend(load_expressions(config).err().unwrap_or_default());
    (checker.errors, checker.warnings)
}

/// Collects the errors and warnings of a configuration.
struct Checker<'a> {
    config: &'a SchedulerConfig,
    errors: Vec<ConfigError>,
    warnings: Vec<Warning>,
}

impl Checker<'_> {
    fn add_warning(&mut self, option: &str, text: impl Into<String>) {
        self.warnings.push(Warning {
            option: option.to_owned(),
            text: text.into(),
        });
    }

    fn add_error(&mut self, option: &str, text: impl Into<String>) {
        self.errors.push(ConfigError {
            option: option.to_owned(),
            text: text.into(),
        });
    }

    fn has_filter(&self, name: &str) -> bool {
        let mut enabled = self.config.enabled_filters.iter();
        enabled.any(|enabled| short_name(enabled) == name)
    }

    fn has_weigher(&self, name: &str) -> bool {
        let mut enabled = self
            .config
            .weight_classes
            .iter()
            .map(|name| short_name(name));
        enabled.any(|enabled| enabled == name || enabled == short_name(ALL_WEIGHERS))
    }

    /// Checks the names of the enabled filters and weighers.
    fn check_names(&mut self) {
        self.errors.extend(enabled_filters(self.config).err());
        let config = self.config;
        let mut seen = Vec::new();
        for name in config.enabled_filters.iter().map(|name| short_name(name)) {
            if seen.contains(&name) {
                self.add_warning("enabled_filters", format!("{name} is listed twice"));
            }
            seen.push(name);
            match name {
                "NUMATopologyFilter" => self.add_warning(
                    "enabled_filters",
                    "NUMATopologyFilter has nothing to do: guest NUMA nodes and pinned CPUs are \
                     request groups, which placement fits into the hosts' NUMA providers",
                ),
                "PciPassthroughFilter" => self.add_warning(
                    "enabled_filters",
                    "PciPassthroughFilter has nothing to do: PCI devices are request groups, which \
                     placement fits into the hosts' device providers",
                ),
                "CoreFilter" | "RamFilter" | "DiskFilter" => self.add_warning(
                    "enabled_filters",
                    format!("{name} has nothing to do: placement knows how much of it is free"),
                ),
                "AllHostsFilter" => {
                    self.add_warning("enabled_filters", "AllHostsFilter has no effect");
                }
                _ => {}
            }
        }
        if !self.has_filter("ComputeFilter") {
            self.add_warning(
                "enabled_filters",
                "without ComputeFilter, instances go to hosts that are disabled",
            );
        }
        if self.has_filter("AggregateInstanceExtraSpecsFilter")
            && self.has_filter("ComputeCapabilitiesFilter")
        {
            self.add_warning(
                "enabled_filters",
                "AggregateInstanceExtraSpecsFilter and ComputeCapabilitiesFilter both read extra \
                 specs without a scope; give each a scope",
            );
        }
        match enabled_weighers(config) {
            Err(error) => self.errors.push(error),
            Ok(weighers) => {
                for (index, weigher) in weighers.iter().enumerate() {
                    let has_same_name =
                        |other: &&crate::weighers::Weigher| other.name == weigher.name;
                    if weighers[..index].iter().any(has_same_name) {
                        let name = weigher.name;
                        self.add_warning(
                            "weight_classes",
                            format!("{name} is listed twice and counts twice"),
                        );
                    }
                }
            }
        }
    }

    /// Checks the ranges of numbers, and warns of options that never have an effect.
    fn check_numbers(&mut self) {
        let config = self.config;
        if config.host_subset_size < 1 {
            self.add_error("host_subset_size", "must be at least 1");
        }
        let no_random_choice = "has no effect: a claim names the best hosts in order, and \
                                schedulers that race name different ones further down";
        if config.host_subset_size > 1 {
            self.add_warning("host_subset_size", no_random_choice);
        }
        if config.shuffle_best_same_weighed_hosts {
            self.add_warning("shuffle_best_same_weighed_hosts", no_random_choice);
        }
        if config.max_io_ops_per_host < 0 {
            self.add_error("max_io_ops_per_host", "must be at least 0");
        }
        if config.max_instances_per_host < 1 {
            self.add_error("max_instances_per_host", "must be at least 1");
        }
        if config.service_down_time_s < 1 {
            self.add_error("service_down_time_s", "must be at least 1");
        }
        for (option, multiplier) in [
            ("pci_weight_multiplier", config.pci_weight_multiplier),
            (
                "soft_affinity_weight_multiplier",
                config.soft_affinity_weight_multiplier,
            ),
            (
                "soft_anti_affinity_weight_multiplier",
                config.soft_anti_affinity_weight_multiplier,
            ),
            (
                "topology_weight_multiplier",
                config.topology_weight_multiplier,
            ),
        ] {
            if multiplier < 0.0 {
                self.add_error(option, "must not be negative");
            }
        }
        for weigher in crate::weighers::ALL {
            if !(weigher.multiplier)(config).is_finite() {
                self.add_error(weigher.multiplier_key, "must be a finite number");
            }
        }
        if config.fragmentation_device_class.is_empty() {
            self.add_error("fragmentation_device_class", "must name a resource class");
        }
        if !config.metrics.weight_of_unavailable.is_finite() {
            self.add_error("metrics.weight_of_unavailable", "must be a finite number");
        }
        if let Some(name) = &config.image_properties_default_architecture
            && let Some(Kind::Normalized(allowed, _)) = kind("hw_architecture")
            && !allowed.contains(&name.as_str())
        {
            let text = format!("{name:?} is none of {}", allowed.join(", "));
            self.add_error("image_properties_default_architecture", text);
        }
    }

    /// Warns of options that were set although the filters that read them are not enabled.
    fn check_filter_options(&mut self) {
        let (config, default) = (self.config, SchedulerConfig::default());
        let namespace = &config.aggregate_image_properties_isolation_namespace;
        let has_namespace = namespace.as_ref().is_some_and(|text| !text.is_empty());
        for (option, is_set, filters) in [
            (
                "max_io_ops_per_host",
                config.max_io_ops_per_host != default.max_io_ops_per_host,
                &["IoOpsFilter", "AggregateIoOpsFilter"][..],
            ),
            (
                "max_instances_per_host",
                config.max_instances_per_host != default.max_instances_per_host,
                &["NumInstancesFilter", "AggregateNumInstancesFilter"],
            ),
            (
                "isolated_images",
                !config.isolated_images.is_empty(),
                &["IsolatedHostsFilter"],
            ),
            (
                "isolated_hosts",
                !config.isolated_hosts.is_empty(),
                &["IsolatedHostsFilter"],
            ),
            (
                "restrict_isolated_hosts_to_isolated_images",
                !config.restrict_isolated_hosts_to_isolated_images,
                &["IsolatedHostsFilter"],
            ),
            (
                "image_properties_default_architecture",
                config.image_properties_default_architecture.is_some(),
                &["ImagePropertiesFilter"],
            ),
            (
                "aggregate_image_properties_isolation_namespace",
                has_namespace,
                &["AggregateImagePropertiesIsolation"],
            ),
        ] {
            if is_set && !filters.iter().any(|filter| self.has_filter(filter)) {
                let text = format!("has no effect: {} is not enabled", filters.join(" or "));
                self.add_warning(option, text);
            }
        }
        if has_namespace && self.has_filter("AggregateImagePropertiesIsolation") {
            self.add_warning(
                "aggregate_image_properties_isolation_namespace",
                "switches AggregateImagePropertiesIsolation off: no known image property starts \
                 with a namespace",
            );
        }
        for (aggregate_filter, plain_filter) in [
            ("AggregateIoOpsFilter", "IoOpsFilter"),
            ("AggregateNumInstancesFilter", "NumInstancesFilter"),
        ] {
            if self.has_filter(aggregate_filter) && self.has_filter(plain_filter) {
                let text = format!(
                    "{plain_filter} beside {aggregate_filter}: aggregates cannot raise the limit"
                );
                self.add_warning("enabled_filters", text);
            }
        }
    }

    fn check_isolated_hosts(&mut self) {
        let config = self.config;
        if !self.has_filter("IsolatedHostsFilter") {
            return;
        }
        let (images, hosts) = (&config.isolated_images, &config.isolated_hosts);
        match (images.is_empty(), hosts.is_empty()) {
            (true, true) => self.add_warning(
                "enabled_filters",
                "IsolatedHostsFilter has no effect: neither isolated_images nor isolated_hosts is set",
            ),
            (false, true) => self.add_warning(
                "isolated_images",
                "these images cannot run anywhere: isolated_hosts is empty",
            ),
            (true, false) if config.restrict_isolated_hosts_to_isolated_images => self.add_warning(
                "isolated_hosts",
                "nothing can run on these hosts: isolated_images is empty",
            ),
            (true, false) => self.add_warning("isolated_hosts", "has no effect: isolated_images is empty"),
            (false, false) => {}
        }
    }

    fn check_metrics(&mut self) {
        let metrics = &self.config.metrics;
        let (ratios, malformed) = parse_ratios(&metrics.weight_setting);
        for element in malformed {
            let text = format!("{element:?} is ignored: it is not of the form name=number");
            self.add_warning("metrics.weight_setting", text);
        }
        let has_metrics_weigher = self.has_weigher("MetricsWeigher");
        if ratios.is_empty() && self.has_filter("MetricsFilter") {
            self.add_warning(
                "enabled_filters",
                "MetricsFilter has no effect: metrics.weight_setting names no metric",
            );
        }
        if !ratios.is_empty() && !has_metrics_weigher && !self.has_filter("MetricsFilter") {
            self.add_warning(
                "metrics.weight_setting",
                "has no effect: neither MetricsWeigher nor MetricsFilter is enabled",
            );
        }
        if ratios.iter().any(|(_, ratio)| !ratio.is_finite()) {
            self.add_error("metrics.weight_setting", "ratios must be finite numbers");
        }
        if ratios.is_empty() && metrics.weight_multiplier != 1.0 {
            self.add_warning(
                "metrics.weight_multiplier",
                "has no effect: metrics.weight_setting names no metric",
            );
        }
    }

    /// Warns of multipliers that were set although their weighers are not enabled.
    fn check_multipliers(&mut self) {
        let default = SchedulerConfig::default();
        for weigher in crate::weighers::ALL {
            let is_set = (weigher.multiplier)(self.config) != (weigher.multiplier)(&default);
            if is_set && !self.has_weigher(weigher.name) {
                let text = format!("has no effect: {} is not enabled", weigher.name);
                self.add_warning(weigher.multiplier_key, text);
            }
        }
    }

    fn check_image_properties(&mut self) {
        let config = self.config;
        let option = "image_props_weight_setting";
        let (ratios, malformed) = parse_ratios(&config.image_props_weight_setting);
        for element in malformed {
            let text = format!("{element:?} is ignored: it is not of the form property=number");
            self.add_warning(option, text);
        }
        for (name, ratio) in &ratios {
            if kind(name).is_none() {
                let text = format!("{name:?} has no effect: there is no such image property");
                self.add_warning(option, text);
            }
            if !ratio.is_finite() {
                self.add_error(option, "ratios must be finite numbers");
            }
        }
        if !ratios.is_empty() && config.image_props_weight_multiplier == 0.0 {
            self.add_warning(option, "has no effect: image_props_weight_multiplier is 0");
        }
    }
}
