//! Filters: each says which hosts may serve a request, whatever placement says of their resources.
//!
//! A filter of your own is one file in `filter/` and one line in [`ALL`]. It gets the request once
//! and answers with a [`Verdict`] over all hosts.

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

/// Every filter there is. The order says nothing; that of `enabled_filters` does.
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

/// The filters that are enabled where nothing is said, in order.
pub const ENABLED_BY_DEFAULT: [&str; 5] = [
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
];

/// A filter.
#[derive(Debug)]
pub struct Filter {
    /// Its name in `enabled_filters`.
    pub name: &'static str,
    /// Whether its answer is the same for every instance of a request.
    pub is_once_per_request: bool,
    /// Whether it is asked when an instance is rebuilt where it is; all others let it pass.
    pub runs_on_rebuild: bool,
    /// Which hosts pass.
    pub compile: Compile,
}

/// Turns a request into a verdict over all hosts. An error means that nobody can tell, because the
/// request says something that the filter cannot read.
pub type Compile = for<'a> fn(&Context<'a>) -> Result<Verdict<'a>, BadRequest>;

/// What filters and weighers look at.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The options.
    pub config: &'a SchedulerConfig,
    /// The hosts.
    pub hosts: &'a HostTable,
    /// What is asked for.
    pub request: &'a RequestSpec,
    /// The instance whose turn it is.
    pub instance: Uuid,
}

impl<'a> Context<'a> {
    /// A hint with one value or with none.
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

    /// The image property of a name, unless it is empty.
    pub(crate) fn image_word(&self, name: &str) -> Option<&'a str> {
        let value = self.request.image.as_ref()?.properties.get(name);
        value.filter(|value| !value.is_empty())
    }
}

/// How a hint is called in messages.
pub(crate) fn hint_field(name: &str) -> String {
    format!("scheduler_hints[{name:?}]")
}

/// Whether a request asks if an instance may be rebuilt where it is.
#[must_use]
pub fn is_rebuild(request: &RequestSpec) -> bool {
    request.hints(CHECK_HINT) == ["rebuild"]
}

/// A filter by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Filter> {
    ALL.iter().copied().find(|filter| filter.name == name)
}
