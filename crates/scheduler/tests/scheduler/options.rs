//! What the check of the scheduler's options refuses and warns of.

use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::policy;

#[test]
fn options_without_effect_get_a_warning() {
    let warned_options = |config: &SchedulerConfig| {
        let (errors, warnings) = policy::check(config);
        assert_eq!(errors, []);
        let options = warnings.into_iter().map(|warning| warning.option);
        options.collect::<Vec<_>>()
    };
    let default = SchedulerConfig::default();
    assert!(warned_options(&default).is_empty());
    let mut numa = default.clone();
    numa.enabled_filters
        .push("nova.scheduler.filters.NUMATopologyFilter".to_owned());
    assert_eq!(warned_options(&numa), ["enabled_filters"]);
    let changed = SchedulerConfig {
        max_io_ops_per_host: 3,
        isolated_hosts: vec!["a".to_owned()],
        image_props_weight_setting: vec!["os_distro=1".to_owned(), "bad".to_owned()],
        weight_classes: vec!["nova.scheduler.weights.ram.RAMWeigher".to_owned()],
        cpu_weight_multiplier: 2.0,
        host_subset_size: 5,
        shuffle_best_same_weighed_hosts: true,
        ..default.clone()
    };
    assert_eq!(
        warned_options(&changed),
        [
            "host_subset_size",
            "shuffle_best_same_weighed_hosts",
            "max_io_ops_per_host",
            "isolated_hosts",
            "cpu_weight_multiplier",
            "image_props_weight_setting",
            "image_props_weight_setting"
        ]
    );
    let broken = SchedulerConfig {
        enabled_filters: vec!["NoSuchFilter".to_owned()],
        host_subset_size: 0,
        pci_weight_multiplier: -1.0,
        ram_weight_multiplier: f64::NAN,
        image_properties_default_architecture: Some("vax".to_owned()),
        ..default
    };
    let (errors, _) = policy::check(&broken);
    assert_eq!(errors.len(), 5);
    let lists_filters = errors.iter().any(|error| {
        error
            .text
            .starts_with("there is no filter \"NoSuchFilter\"; there are ComputeFilter, ")
    });
    assert!(lists_filters, "{errors:?}");
}

#[test]
fn filters_that_placement_made_needless_only_give_a_warning() {
    let names = [
        "CoreFilter",
        "nova.scheduler.filters.ram_filter.RamFilter",
        "DiskFilter",
    ];
    let mut config = SchedulerConfig::default();
    config.enabled_filters.extend(names.map(str::to_owned));
    let (errors, warnings) = policy::check(&config);
    assert!(errors.is_empty(), "{errors:?}");
    let warned = warnings
        .iter()
        .filter(|warning| warning.text.contains("has nothing to do"));
    assert_eq!(warned.count(), 3, "{warnings:?}");
}
