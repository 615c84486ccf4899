//! Availability zones: defined by the metadata of aggregates.

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

/// The zone of hosts that are in no other.
pub(crate) const DEFAULT: &str = "nova";

/// The metadata key that makes an aggregate an availability zone.
pub(crate) const KEY: &str = "availability_zone";

/// The zone of a host.
pub(crate) fn of_host(control: &ControlState, host: HostId) -> &str {
    let aggregates = control.conductor.aggregates().values();
    let mut zones = aggregates.filter_map(|aggregate| {
        let zone = aggregate.metadata.get(KEY)?;
        aggregate.hosts.binary_search(&host).is_ok().then_some(zone)
    });
    zones.next().map_or(DEFAULT, String::as_str)
}

/// Whether a zone exists.
pub(crate) fn exists(control: &ControlState, zone: &str) -> bool {
    let mut aggregates = control.conductor.aggregates().values();
    zone == DEFAULT
        || aggregates.any(|row| row.metadata.get(KEY).is_some_and(|known| known == zone))
}

/// A host, reduced to what its zone shows.
struct Host {
    zone: String,
    is_disabled: bool,
    /// Its name and its service as JSON, in detailed listings.
    shown: Option<(String, Value)>,
}

/// A zone with at least one host, as it is collected for the response.
#[derive(Default)]
struct Zone {
    is_available: bool,
    hosts: Map<String, Value>,
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::ZonesList)?;
    zones(call, false).await
}

pub(crate) async fn detail(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::ZonesDetail)?;
    zones(call, true).await
}

async fn zones(call: &RoutedRequest<'_>, with_hosts: bool) -> ApiResult<Reply> {
    let hosts = call.gather(|control, views, after: Option<&String>| {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = control.conductor.host_names();
        let rows = names.range::<String, _>((after, Bound::Unbounded));
        SliceResult::look(rows.map(|(name, id)| (name.clone(), id)), |_, id| {
            let row = HostRow::find(control, views, *id)?;
            Some(Host {
                zone: of_host(control, row.id).to_owned(),
                is_disabled: row.is_disabled(),
                shown: with_hosts.then(|| (row.name.to_owned(), service(&row))),
            })
        })
    });
    let mut zones: BTreeMap<String, Zone> = BTreeMap::new();
    for host in hosts.await {
        let zone = zones.entry(host.zone).or_default();
        zone.is_available |= !host.is_disabled;
        zone.hosts.extend(host.shown);
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

fn service(row: &HostRow<'_>) -> Value {
    json!({"nova-compute": {
        "available": row.is_up(),
        "active": !row.is_disabled(),
        "updated_at": row.heard_at().map(time::micros),
    }})
}
