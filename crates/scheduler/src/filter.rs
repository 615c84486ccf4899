//! Filters: each says which hosts may serve a request, independently of their resources.
//!
//! To add a filter, write a file in `filter/` and add a line to [`ALL`]. A filter is compiled once
//! for a request and returns a [`Verdict`] over all hosts.

use uuid::Uuid;

use crate::config::SchedulerConfig;
use crate::error::BadRequest;
use crate::host_table::HostTable;
use crate::request::RequestSpec;
use crate::select::rebuild::CHECK_HINT;
use crate::verdict::Verdict;

pub(crate) use server_group::members_by_host;

mod aggregate_image_properties;
mod aggregate_instance_extra_specs;
mod aggregate_multi_tenancy;
mod aggregate_type_affinity;
mod all_hosts;
mod capabilities;
mod compute;
mod different_host;
mod image_properties;
mod io_ops;
mod isolated_hosts;
mod json;
mod left_to_placement;
mod metrics;
mod num_instances;
mod server_group;
mod simple_cidr;

/// Every filter there is. Their order is irrelevant; that of `enabled_filters` is used.
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
];

/// The filters that are enabled by default, in order.
pub const ENABLED_BY_DEFAULT: [&str; 5] = [
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
];

/// A filter: its name in the configuration, when it applies, and how it is compiled.
#[derive(Debug)]
pub struct Filter {
    /// The name by which `enabled_filters` refers to it.
    pub name: &'static str,
    /// Whether its verdict is the same for every instance of a request.
    pub is_once_per_request: bool,
    /// Whether it applies to a rebuild in place; all others then pass.
    pub runs_on_rebuild: bool,
    /// Compiles the filter for a request.
    pub compile: Compile,
}

/// Compiles a request into a verdict over all hosts. An error means that the request has a value
/// that the filter cannot interpret.
pub type Compile = for<'a> fn(&Context<'a>) -> Result<Verdict<'a>, BadRequest>;

/// The input of filters and weighers.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The options of the configuration.
    pub config: &'a SchedulerConfig,
    /// The state of all hosts.
    pub hosts: &'a HostTable,
    /// The request that is scheduled.
    pub request: &'a RequestSpec,
    /// The instance of the request that is being scheduled.
    pub instance: Uuid,
}

impl<'a> Context<'a> {
    /// A hint that allows at most one value.
    pub(crate) fn single_hint(&self, name: &str) -> Result<Option<&'a str>, BadRequest> {
        match self.request.hints(name) {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            values => Err(BadRequest::malformed(
                hint_field(name),
                values.join(", "),
                "a single value",
            )),
        }
    }

    /// An image property, unless it is empty.
    pub(crate) fn image_word(&self, name: &str) -> Option<&'a str> {
        let value = self.request.image.as_ref()?.properties.get(name);
        value.filter(|value| !value.is_empty())
    }
}

/// The name of a hint in messages.
pub(crate) fn hint_field(name: &str) -> String {
    format!("scheduler_hints[{name:?}]")
}

/// Whether a request only checks that an instance may be rebuilt in place.
#[must_use]
pub fn is_rebuild(request: &RequestSpec) -> bool {
    request.hints(CHECK_HINT) == ["rebuild"]
}

/// A filter by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Filter> {
    ALL.iter().copied().find(|filter| filter.name == name)
}
