//! Hosts that are down are never chosen, whichever filters are on and whether or not a host is forced.

use std::collections::BTreeMap;

use placewright_placement::Timestamp;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::{HostReport, HostUpdate};
use placewright_scheduler::host_table::HostTable;
use placewright_scheduler::policy::Policy;
use placewright_scheduler::request::RequestSpec;
use uuid::Uuid;

const UP: u32 = 0;
const DISABLED: u32 = 1;
const FORCED_DOWN: u32 = 2;
const SILENT: u32 = 3;

fn hosts(config: &SchedulerConfig) -> HostTable {
    let mut hosts = HostTable::new(config);
    for slot in [UP, DISABLED, FORCED_DOWN, SILENT] {
        let uuid = Uuid::from_u128(u128::from(slot) + 1);
        let mut report = HostReport::default();
        report.facts.names.service_host = format!("host{slot}");
        let at = Timestamp::from_seconds(if slot == SILENT { 1 } else { 1_000 });
        hosts.apply(uuid, at, &HostUpdate::Full(Box::new(report)));
        hosts.bind_to_slot(uuid, slot);
        let update = match slot {
            DISABLED => HostUpdate::Disabled(Some("worn".to_owned())),
            FORCED_DOWN => HostUpdate::ForcedDown(true),
            _ => continue,
        };
        hosts.apply(uuid, at, &update);
    }
    hosts.advance(Timestamp::from_seconds(1_010));
    hosts
}

/// The hosts that pass all filters of a request.
fn passing(enabled_filters: &[&str], request: &RequestSpec) -> Vec<u32> {
    let config = SchedulerConfig {
        enabled_filters: enabled_filters
            .iter()
            .map(|name| (*name).to_owned())
            .collect(),
        ..SchedulerConfig::default()
    };
    let hosts = hosts(&config);
    let policy = Policy::new(config).unwrap();
    let compiled = policy.compile(request, &hosts, Uuid::nil()).unwrap();
    let slots = [UP, DISABLED, FORCED_DOWN, SILENT].into_iter();
    slots
        .filter(|slot| compiled.filters.passes(*slot))
        .collect()
}

fn request() -> RequestSpec {
    RequestSpec::new(Flavor {
        vcpus: 1,
        memory_mb: 1,
        ..Flavor::default()
    })
}

#[test]
fn without_compute_filter_a_host_that_is_down_is_not_chosen() {
    assert_eq!(passing(&["ComputeFilter"], &request()), [UP]);
    assert_eq!(passing(&[], &request()), [UP, DISABLED]);
    assert_eq!(
        passing(&["ImagePropertiesFilter"], &request()),
        [UP, DISABLED]
    );
}

#[test]
fn a_forced_host_that_is_down_is_not_chosen() {
    for (slot, expected) in [
        (UP, vec![UP]),
        (DISABLED, vec![DISABLED]),
        (FORCED_DOWN, vec![]),
        (SILENT, vec![]),
    ] {
        let request = RequestSpec {
            force_hosts: vec![format!("host{slot}")],
            ..request()
        };
        assert_eq!(passing(&["ComputeFilter"], &request), expected);
    }
}

#[test]
fn an_instance_may_be_rebuilt_on_its_host() {
    let hints = [("_nova_check_type".to_owned(), vec!["rebuild".to_owned()])];
    let request = RequestSpec {
        scheduler_hints: BTreeMap::from(hints),
        ..request()
    };
    let all = [UP, DISABLED, FORCED_DOWN, SILENT];
    assert_eq!(passing(&["ComputeFilter"], &request), all);
}
