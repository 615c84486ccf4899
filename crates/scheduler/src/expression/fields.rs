//! The variables `host` and `request` of expressions.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::ExecutionError;
use cel::common::traits::{Container, Indexer, Sizer};
use cel::common::types::{CelBool, CelDouble, CelInt, CelList, CelString, MAP_TYPE, Type};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use placewright_placement::Timestamp;
use uuid::Uuid;

use crate::config::SchedulerConfig;
use crate::hosts::aggregate::{Aggregate, Combination};
use crate::hosts::amounts::Amounts;
use crate::hosts::column;
use crate::hosts::state::{HostReport, HostState, HostUpdate, Metric};
use crate::hosts::table::HostTable;
use crate::image::ImageProperties;
use crate::request::RequestSpec;

/// The assumed maximum length of a text of a host or a request, or of all texts of a list together, in characters.
pub(super) const TEXT_LENGTH_MAX: u64 = 1024;
/// The maximum length of a list of a request; to expressions, longer lists are absent.
pub(super) const LIST_LENGTH_MAX: u64 = 64;

/// The fields of `host`.
pub(super) const HOST_FIELDS: &[&str] = &[
    "cell",
    "cpu_allocation_ratio",
    "cpus_free",
    "devices_free",
    "disk_free_mb",
    "disk_total_gb",
    "failed_builds",
    "hypervisor_hostname",
    "hypervisor_type",
    "hypervisor_version",
    "instances",
    "io_ops",
    "ip",
    "is_enabled",
    "is_up",
    "metadata",
    "metrics",
    "name",
    "node",
    "ram_free_mb",
    "ram_total_mb",
    "running_builds",
    "stats",
    "uuid",
    "vcpus_total",
    "vcpus_used",
    "zone",
];

/// The fields of `request`.
pub(super) const REQUEST_FIELDS: &[&str] = &[
    "availability_zone",
    "ephemeral_gb",
    "extra_specs",
    "flavor",
    "hints",
    "image_id",
    "image_properties",
    "memory_mb",
    "project_id",
    "root_gb",
    "swap_mb",
    "user_id",
    "vcpus",
];

/// The values of `host` and `request`: one host and the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variables<'a> {
    hosts: &'a HostTable,
    slot: u32,
    request: &'a RequestSpec,
}

impl<'a> Variables<'a> {
    pub(super) fn new(hosts: &'a HostTable, slot: u32, request: &'a RequestSpec) -> Self {
        Self {
            hosts,
            slot,
            request,
        }
    }

    /// The value of a field of `host`; `None` if there is no such field.
    fn host_field(&self, state: &'a HostState, field: &str) -> Option<CowVal<'a, 'a>> {
        let names = &state.names;
        let platform = &state.platform;
        let optional_text = |value: &'a Option<String>| text(value.as_deref().unwrap_or_default());
        Some(match field {
            "name" => text(&names.service_host),
            "node" => text(&names.node),
            "uuid" => owned_text(state.uuid.to_string()),
            "cell" => owned_text(names.cell.to_string()),
            "zone" => text(self.hosts.aggregates().zone(self.slot).unwrap_or_default()),
            "ip" => optional_text(&names.ip),
            "hypervisor_hostname" => optional_text(&names.hypervisor_hostname),
            "hypervisor_type" => optional_text(&platform.hypervisor_type),
            "hypervisor_version" => int(i64::from(platform.hypervisor_version.unwrap_or(0))),
            "is_enabled" => bool(state.disabled.is_none()),
            "is_up" => bool(self.hosts.up().contains(self.slot)),
            "running_builds" => int(i64::from(state.load.running_builds)),
            "failed_builds" => int(i64::from(state.load.failed_builds)),
            "stats" => map(FieldMap::Texts(&state.stats)),
            "metrics" => map(FieldMap::Metrics(&state.metrics)),
            "metadata" => {
                let combination = self.hosts.aggregates().combination_of(self.slot);
                map(FieldMap::Metadata(combination))
            }
            _ => return self.amount(field),
        })
    }

    /// The value of a field that is an amount or a count of the host; `None` if there is no such field.
    fn amount(&self, field: &str) -> Option<CowVal<'a, 'a>> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "counts of instances, far below 2^53"
        )]
        let count = |column: usize| int(self.hosts.columns()[column].get(self.slot) as i64);
        let amounts = self.hosts.amounts(self.slot);
        Some(match field {
            "io_ops" => count(column::IO_OPS),
            "instances" => count(column::INSTANCES),
            "cpu_allocation_ratio" => double(amounts.cpu_ratio),
            "cpus_free" => double(amounts.cpus_free()),
            "devices_free" => int(amounts.devices_free),
            "disk_free_mb" => int(amounts.disk_free_mb),
            "disk_total_gb" => int(amounts.disk_total_gb),
            "ram_free_mb" => int(amounts.ram_free_mb),
            "ram_total_mb" => int(amounts.ram_total_mb),
            "vcpus_total" => int(amounts.vcpus_total),
            "vcpus_used" => int(amounts.vcpus_used),
            _ => return None,
        })
    }

    /// The value of a field of `request`; `None` if there is no such field.
    fn request_field(&self, field: &str) -> Option<CowVal<'a, 'a>> {
        let request = self.request;
        let flavor = &request.flavor;
        let image = request.image.as_ref();
        Some(match field {
            "flavor" => text(&flavor.name),
            "vcpus" => int(i64::from(flavor.vcpus)),
            "memory_mb" => int(i64::from(flavor.memory_mb)),
            "root_gb" => int(i64::from(flavor.root_gb)),
            "ephemeral_gb" => int(i64::from(flavor.ephemeral_gb)),
            "swap_mb" => int(i64::from(flavor.swap_mb)),
            "extra_specs" => map(FieldMap::Texts(&flavor.extra_specs)),
            "image_id" => text(
                image
                    .and_then(|image| image.id.as_deref())
                    .unwrap_or_default(),
            ),
            "image_properties" => map(FieldMap::Properties(image.map(|image| &image.properties))),
            "project_id" => text(&request.project_id),
            "user_id" => text(&request.user_id),
            "availability_zone" => text(request.availability_zone.as_deref().unwrap_or_default()),
            "hints" => map(FieldMap::Lists(&request.scheduler_hints)),
            _ => return None,
        })
    }
}

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        match variable.split_once('.')? {
            ("host", field) => self.host_field(self.hosts.get(self.slot)?, field),
            ("request", field) => self.request_field(field),
            _ => None,
        }
    }
}

fn text(text: &str) -> CowVal<'_, '_> {
    CowVal::owned(CelString::from(text))
}

fn owned_text<'a>(text: String) -> CowVal<'a, 'a> {
    CowVal::owned(CelString::from(text))
}

fn int<'a>(number: i64) -> CowVal<'a, 'a> {
    CowVal::owned(CelInt::from(number))
}

fn double<'a>(number: f64) -> CowVal<'a, 'a> {
    CowVal::owned(CelDouble::from(number))
}

fn bool<'a>(value: bool) -> CowVal<'a, 'a> {
    CowVal::owned(CelBool::from(value))
}

fn map(map: FieldMap<'_>) -> CowVal<'_, '_> {
    CowVal::owned(map)
}

/// A field that is a map with texts as keys. It supports look-up but not iteration, because it has
/// no order.
#[derive(Clone, Copy, Debug)]
enum FieldMap<'a> {
    Texts(&'a BTreeMap<String, String>),
    Lists(&'a BTreeMap<String, Vec<String>>),
    Metrics(&'a [Metric]),
    Properties(Option<&'a ImageProperties>),
    /// The metadata of a host's aggregates; of several values for a key, the first.
    Metadata(&'a Combination),
}

impl<'a> FieldMap<'a> {
    /// The value of a key; `None` if the map lacks the key, or if the value is a list that is too long.
    fn find(&self, key: &str) -> Option<CowVal<'a, 'a>> {
        match self {
            Self::Texts(texts) => texts.get(key).map(|value| text(value)),
            Self::Lists(lists) => {
                let values = lists.get(key)?;
                let is_short = values.len() as u64 <= LIST_LENGTH_MAX;
                let to_value = |value: &'a String| Box::new(CelString::from(value.as_str())) as _;
                let texts: Vec<Box<dyn Val + 'a>> = values.iter().map(to_value).collect();
                is_short.then(|| CowVal::owned(CelList::from(texts)))
            }
            Self::Metrics(metrics) => {
                let value = metrics.iter().rfind(|metric| metric.name == key);
                value.map(|metric| double(metric.value))
            }
            Self::Properties(properties) => properties
                .and_then(|properties| properties.raw(key))
                .map(text),
            Self::Metadata(combination) => combination.values(key).first().map(|value| text(value)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Lists(lists) => lists.len(),
            Self::Metrics(metrics) => metrics.len(),
            Self::Properties(properties) => {
                properties.map_or(0, |properties| properties.iter().count())
            }
            Self::Metadata(combination) => combination.metadata().count(),
        }
    }
}

/// The text of a key. Fails for a key of another type, because all maps here have texts as keys.
fn key_text(key: &dyn Val) -> Result<&str, ExecutionError> {
    let text = key.downcast_ref::<CelString<'_>>();
    text.map(CelString::inner)
        .ok_or_else(|| ExecutionError::UnexpectedType {
            got: key.get_type().name().to_owned(),
            want: "string".to_owned(),
        })
}

impl Val for FieldMap<'_> {
    fn get_type(&self) -> &Type {
        &MAP_TYPE
    }

    fn cel_type() -> &'static Type {
        &MAP_TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'w>(&'b self) -> Option<&'b (dyn Indexer + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn clone_as_boxed<'w>(&self) -> Box<dyn Val + 'w>
    where
        Self: 'w,
    {
        Box::new(*self)
    }
}

impl Container for FieldMap<'_> {
    fn contains(&self, key: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(self.find(key_text(key)?).is_some())
    }
}

impl Indexer for FieldMap<'_> {
    fn get<'b, 'w>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'w>, ExecutionError>
    where
        Self: 'w,
    {
        let key = key_text(key)?;
        let missing = || ExecutionError::NoSuchKey(Arc::new(key.to_owned()));
        let value = self.find(key).ok_or_else(missing)?;
        Ok(value)
    }

    fn steal<'w>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'w>, ExecutionError>
    where
        Self: 'w,
    {
        self.get(key).map(CowVal::into_owned)
    }
}

impl Sizer for FieldMap<'_> {
    fn size(&self) -> CelInt {
        CelInt::from(i64::try_from(self.len()).unwrap_or(i64::MAX))
    }
}

/// A table with one host that has a value for every field, for checking expressions.
pub(super) fn sample_hosts() -> HostTable {
    let mut hosts = HostTable::new(&SchedulerConfig::default());
    let uuid = Uuid::from_u128(1);
    let report = Box::new(HostReport::default());
    hosts.apply(uuid, Timestamp::default(), &HostUpdate::Full(report));
    hosts.bind_to_slot(uuid, 0);
    hosts.set_amounts(0, Amounts::default());
    let aggregate = Aggregate::default();
    hosts.aggregates_mut().put([(uuid, aggregate)]);
    hosts
}

/// A request for checking expressions.
pub(super) fn sample_request() -> RequestSpec {
    RequestSpec::default()
}
