//! Availability zones: what aggregates say in their metadata.

use std::collections::BTreeMap;

use placewright_auth::Rule;
use placewright_conductor::{Control, HostId};
use serde_json::{Value, json};

use super::hosts::HostRow;
use crate::call::{Call, Reply};
use crate::error::ApiResult;
use crate::time;

/// The zone of hosts that are in no other.
pub(crate) const DEFAULT: &str = "nova";

/// The key by which an aggregate is a zone.
pub(crate) const KEY: &str = "availability_zone";

/// The zone of a host.
pub(crate) fn of_host(control: &Control, host: HostId) -> &str {
    let aggregates = control.conductor.aggregates().values();
    let mut zones = aggregates.filter_map(|aggregate| {
        let zone = aggregate.metadata.get(KEY)?;
        aggregate.hosts.binary_search(&host).is_ok().then_some(zone)
    });
    zones.next().map_or(DEFAULT, String::as_str)
}

/// Whether there is such a zone.
pub(crate) fn exists(control: &Control, zone: &str) -> bool {
    let mut aggregates = control.conductor.aggregates().values();
    zone == DEFAULT
        || aggregates.any(|row| row.metadata.get(KEY).is_some_and(|known| known == zone))
}

/// The hosts of all zones; a zone without hosts is one too.
fn by_zone<'s>(
    control: &'s Control,
    rows: Vec<HostRow<'s>>,
) -> BTreeMap<&'s str, Vec<HostRow<'s>>> {
    let mut zones: BTreeMap<&str, Vec<HostRow<'_>>> = BTreeMap::new();
    for row in rows {
        zones.entry(of_host(control, row.id)).or_default().push(row);
    }
    zones
}

pub(crate) async fn list(call: &Call<'_>) -> ApiResult<Reply> {
    call.allow(Rule::ZonesList)?;
    zones(call, false).await
}

pub(crate) async fn detail(call: &Call<'_>) -> ApiResult<Reply> {
    call.allow(Rule::ZonesDetail)?;
    zones(call, true).await
}

async fn zones(call: &Call<'_>, with_hosts: bool) -> ApiResult<Reply> {
    let zones = call.read(|control, views| {
        let zones = by_zone(control, HostRow::all(control, views));
        let zones = zones.into_iter().map(|(zone, rows)| {
            let is_available = rows.iter().any(|row| !row.is_disabled());
            let hosts = if with_hosts {
                hosts(&rows)
            } else {
                Value::Null
            };
            json!({
                "zoneName": zone,
                "zoneState": {"available": is_available},
                "hosts": hosts,
            })
        });
        zones.collect::<Vec<_>>()
    });
    Reply::json(200, &json!({"availabilityZoneInfo": zones.await}))
}

fn hosts(rows: &[HostRow<'_>]) -> Value {
    let hosts = rows.iter().map(|row| {
        let service = json!({"nova-compute": {
            "available": row.is_up(),
            "active": !row.is_disabled(),
            "updated_at": row.heard_at().map(time::micros),
        }});
        (row.name.to_owned(), service)
    });
    Value::Object(hosts.collect())
}
