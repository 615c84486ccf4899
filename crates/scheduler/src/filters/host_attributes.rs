//! A host's attributes by the names that extra specs and the `JsonFilter` use.

use serde_json::{Map, Value, json};

use crate::hosts::column;
use crate::hosts::platform::PlatformGroup;
use crate::hosts::table::HostTable;

/// The names that are defined for every host, even where the value is absent: all attributes and methods of
/// the reference's `HostState`.
const NAMES: [&str; 38] = [
    "aggregates",
    "allocation_candidates",
    "cell_uuid",
    "consume_from_request",
    "cpu_allocation_ratio",
    "cpu_info",
    "disk_allocation_ratio",
    "disk_mb_used",
    "failed_builds",
    "free_disk_mb",
    "free_ram_mb",
    "host",
    "host_ip",
    "hypervisor_hostname",
    "hypervisor_type",
    "hypervisor_version",
    "instances",
    "limits",
    "metrics",
    "nodename",
    "num_instances",
    "num_io_ops",
    "numa_topology",
    "pci_stats",
    "ram_allocation_ratio",
    "service",
    "stats",
    "supported_instances",
    "total_usable_disk_gb",
    "total_usable_ram_mb",
    "update",
    "updated",
    "uuid",
    "vcpus_total",
    "vcpus_used",
    "_lock_name",
    "_locked_consume_from_request",
    "_update_from_compute_node",
];

/// Whether a name is defined for every host.
#[must_use]
pub(crate) fn exists(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The attributes that change with claims on the host and with the load that its agent reports.
const AMOUNTS: [&str; 7] = [
    "disk_mb_used",
    "failed_builds",
    "free_disk_mb",
    "free_ram_mb",
    "num_instances",
    "num_io_ops",
    "vcpus_used",
];

/// Whether an attribute is an amount or a count that changes with claims or with the load.
#[must_use]
pub(crate) fn is_amount(name: &str) -> bool {
    AMOUNTS.contains(&name)
}

/// Whether an attribute depends on the platform alone, and is present for each of these platforms that has
/// hosts.
#[must_use]
pub(crate) fn all_platforms_have(groups: &[PlatformGroup], name: &str) -> bool {
    let mut occurring = groups.iter().filter(|group| !group.hosts.is_empty());
    occurring.all(|group| of_platform(group, name).is_some())
}

/// An attribute that the hosts of a platform have in common; `None` if the name is undefined or the
/// value absent.
#[must_use]
pub(crate) fn of_platform(group: &PlatformGroup, name: &str) -> Option<Value> {
    let platform = &group.platform;
    let value = match name {
        "cpu_info" => json!(platform.cpu_info),
        "hypervisor_type" => json!(platform.hypervisor_type),
        "hypervisor_version" => json!(platform.hypervisor_version),
        "supported_instances" => json!(platform.supported_instances),
        _ => Value::Null,
    };
    non_null(value)
}

/// An attribute of a host; `None` if the name is undefined or the value absent.
#[must_use]
pub(crate) fn of_host(hosts: &HostTable, slot: u32, name: &str) -> Option<Value> {
    let state = hosts.get(slot)?;
    let amounts = hosts.amounts(slot);
    let integer = |column: usize| {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "counts of instances, far below 2^53"
        )]
        let value = hosts.columns()[column].get(slot) as i64;
        json!(value)
    };
    non_null(match name {
        "host" => json!(state.names.service_host),
        "nodename" => json!(state.names.node),
        "uuid" => json!(state.uuid),
        "cell_uuid" => json!(state.names.cell),
        "host_ip" => json!(state.names.ip),
        "hypervisor_hostname" => json!(state.names.hypervisor_hostname),
        "total_usable_ram_mb" => json!(amounts.ram_total_mb),
        "free_ram_mb" => json!(amounts.ram_free_mb),
        "total_usable_disk_gb" => json!(amounts.disk_total_gb),
        "free_disk_mb" => json!(amounts.disk_free_mb),
        "disk_mb_used" => json!(amounts.disk_used_mb),
        "vcpus_total" => json!(amounts.vcpus_total),
        "vcpus_used" => json!(amounts.vcpus_used),
        "ram_allocation_ratio" => json!(amounts.ram_ratio),
        "cpu_allocation_ratio" => json!(amounts.cpu_ratio),
        "disk_allocation_ratio" => json!(amounts.disk_ratio),
        "num_instances" => integer(column::INSTANCES),
        "num_io_ops" => integer(column::IO_OPS),
        "failed_builds" => integer(column::FAILED_BUILDS),
        "limits" => Value::Object(Map::new()),
        "stats" => json!(state.stats),
        "service" => json!({
            "host": state.names.service_host,
            "disabled": state.disabled.is_some(),
            "disabled_reason": state.disabled,
            "forced_down": state.is_forced_down,
        }),
        _ => {
            let group = hosts.platforms().of_host(slot);
            return of_platform(group?, name);
        }
    })
}

fn non_null(value: Value) -> Option<Value> {
    (!value.is_null()).then_some(value)
}
