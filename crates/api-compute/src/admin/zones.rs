//! Availability zones, which the metadata of aggregates define.

use std::collections::BTreeMap;
use std::ops::Bound;

use placewright_auth::Rule;
use placewright_conductor::{ControlState, HostId};
use placewright_http::{ApiResult, Reply};
use serde_json::{Map, Value, json};

use super::hosts::HostRow;
use crate::routed_request::RoutedRequest;
use crate::slices::SliceResult;
use crate::time;

/// The zone of hosts for which no aggregate defines one.
pub(crate) const DEFAULT_ZONE: &str = "nova";

/// The metadata key that makes an aggregate an availability zone.
pub(crate) const METADATA_KEY: &str = "availability_zone";

/// The zone of a host.
pub(crate) fn zone_of_host(control: &ControlState, host: HostId) -> &str {
    let aggregates = control.conductor.aggregates().values();
    let mut zones = aggregates.filter_map(|aggregate| {
        let zone = aggregate.metadata.get(METADATA_KEY)?;
        aggregate.hosts.binary_search(&host).is_ok().then_some(zone)
    });
    zones.next().map_or(DEFAULT_ZONE, String::as_str)
}

/// Whether a zone exists.
pub(crate) fn exists(control: &ControlState, zone: &str) -> bool {
    let mut aggregates = control.conductor.aggregates().values();
    zone == DEFAULT_ZONE
        || aggregates.any(|aggregate| {
            aggregate
                .metadata
                .get(METADATA_KEY)
                .is_some_and(|defined_zone| defined_zone == zone)
        })
}

/// The data of a host that a zone shows.
struct ZoneHost {
    zone: String,
    is_disabled: bool,
    /// The host's name and its service as JSON, in detailed listings.
    details: Option<(String, Value)>,
}

/// A zone with at least one host, in the response.
#[derive(Default)]
struct Zone {
    is_available: bool,
    hosts: Map<String, Value>,
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ZonesList)?;
    let with_hosts = false;
    list_zones(request, with_hosts).await
}

pub(crate) async fn detail(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ZonesDetail)?;
    let with_hosts = true;
    list_zones(request, with_hosts).await
}

async fn list_zones(request: &RoutedRequest<'_>, with_hosts: bool) -> ApiResult<Reply> {
    let hosts = request.collect_slices(|control, views, after: Option<&String>| {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = control.conductor.host_names();
        let rows = names.range::<String, _>((after, Bound::Unbounded));
        SliceResult::collect(rows.map(|(name, id)| (name.clone(), id)), |_, id| {
            let row = HostRow::find(control, views, *id)?;
            Some(ZoneHost {
                zone: zone_of_host(control, row.id).to_owned(),
                is_disabled: row.is_disabled(),
                details: with_hosts.then(|| (row.name.to_owned(), service_json(&row))),
            })
        })
    });
    let mut zones: BTreeMap<String, Zone> = BTreeMap::new();
    for host in hosts.await {
        let zone = zones.entry(host.zone).or_default();
        zone.is_available |= !host.is_disabled;
        zone.hosts.extend(host.details);
    }
    let zones = zones.into_iter().map(|(name, zone)| {
        json!({
            "zoneName": name,
            "zoneState": {"available": zone.is_available},
            "hosts": if with_hosts { Value::Object(zone.hosts) } else { Value::Null },
        })
    });
    Reply::value(
        200,
        &json!({"availabilityZoneInfo": zones.collect::<Vec<_>>()}),
    )
}

fn service_json(row: &HostRow<'_>) -> Value {
    json!({"nova-compute": {
        "available": row.is_up(),
        "active": !row.is_disabled(),
        "updated_at": row.last_report_at().map(time::format_micros),
    }})
}
