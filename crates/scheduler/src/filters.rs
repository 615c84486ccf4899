//! Filters: each decides which hosts may serve a request, apart from their free resources.
//!
//! To add a filter, write a file in `filters/` and add a line to [`ALL`]. A filter is compiled once
//! for a request and returns a [`Verdict`](crate::hosts::verdict::Verdict) over all hosts.

pub use filter::{Compile, Filter};
pub(crate) use server_group::members_by_host;

mod aggregate_image_properties;
mod aggregate_instance_extra_specs;
mod aggregate_multi_tenancy;
mod aggregate_type_affinity;
mod all_hosts;
mod capabilities;
mod compute;
mod different_host;
mod extra_spec_ops;
mod filter;
mod host_attributes;
mod image_properties;
mod io_ops;
mod isolated_hosts;
mod json;
mod left_to_placement;
mod metrics;
mod num_instances;
mod server_group;
mod simple_cidr;
mod version;

/// All filters. Their order has no meaning; `enabled_filters` determines the order of use.
pub static ALL: &[&Filter] = &[
    &compute::FILTER,
    &capabilities::FILTER,
    &image_properties::FILTER,
    &server_group::ANTI_AFFINITY,
    &server_group::AFFINITY,
    &all_hosts::FILTER,
    &aggregate_image_properties::FILTER,
    &aggregate_instance_extra_specs::FILTER,
    &io_ops::AGGREGATE,
    &io_ops::FILTER,
    &aggregate_multi_tenancy::FILTER,
    &num_instances::AGGREGATE,
    &num_instances::FILTER,
    &aggregate_type_affinity::FILTER,
    &different_host::DIFFERENT,
    &different_host::SAME,
    &simple_cidr::FILTER,
    &isolated_hosts::FILTER,
    &json::FILTER,
    &metrics::FILTER,
    &left_to_placement::NUMA_TOPOLOGY,
    &left_to_placement::PCI_PASSTHROUGH,
    &left_to_placement::CORE,
    &left_to_placement::RAM,
    &left_to_placement::DISK,
];

/// The name of the filter that excludes hosts which are down or disabled.
pub(crate) const COMPUTE_FILTER: &str = compute::FILTER.name;

/// The name of the filter that reads the metrics of hosts.
pub(crate) const METRICS_FILTER: &str = metrics::FILTER.name;

/// The names of all filters, for error messages.
#[must_use]
pub fn names() -> String {
    let names: Vec<&str> = ALL.iter().map(|filter| filter.name).collect();
    names.join(", ")
}

/// A filter by its name; `None` if there is no such filter.
#[must_use]
pub fn find(name: &str) -> Option<&'static Filter> {
    ALL.iter().copied().find(|filter| filter.name == name)
}
