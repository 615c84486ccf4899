//! Hypervisors: hosts with their capacity and usage from placement.

use std::collections::HashMap;

use placewright_auth::Rule;
use placewright_conductor::{ControlState, HostId, InstanceId};
use placewright_control::Views;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};
use uuid::Uuid;

use super::hosts::HostRow;
use super::legacy_id;
use crate::error;
use crate::page;
use crate::routed_request::RoutedRequest;

/// The resource classes that hypervisors show, summed over a host's tree of providers.
#[derive(Clone, Copy, Default)]
struct Amounts {
    vcpus: i64,
    vcpus_used: i64,
    memory_mb: i64,
    memory_mb_used: i64,
    disk_gb: i64,
    disk_gb_used: i64,
}

impl Amounts {
    fn of(control: &ControlState, host: HostId) -> Self {
        let placement = &control.placement;
        let mut amounts = Self::default();
        let Some(top) = placement.provider_id(host.0) else {
            return amounts;
        };
        for part in placement.subtree(top) {
            let Some(provider) = placement.provider(part) else {
                continue;
            };
            for record in &provider.inventories {
                let total = i64::from(record.inventory.total);
                let (all, used) = match placement.class_name(record.class) {
                    "VCPU" | "PCPU" => (&mut amounts.vcpus, &mut amounts.vcpus_used),
                    "MEMORY_MB" => (&mut amounts.memory_mb, &mut amounts.memory_mb_used),
                    "DISK_GB" => (&mut amounts.disk_gb, &mut amounts.disk_gb_used),
                    _ => continue,
                };
                *all += total;
                *used += record.used;
            }
        }
        amounts
    }

    fn add(&mut self, other: Self) {
        self.vcpus += other.vcpus;
        self.vcpus_used += other.vcpus_used;
        self.memory_mb += other.memory_mb;
        self.memory_mb_used += other.memory_mb_used;
        self.disk_gb += other.disk_gb;
        self.disk_gb_used += other.disk_gb_used;
    }

    /// Adds the fields of versions before 2.88.
    fn put(self, value: &mut Value) {
        value["vcpus"] = json!(self.vcpus);
        value["vcpus_used"] = json!(self.vcpus_used);
        value["memory_mb"] = json!(self.memory_mb);
        value["memory_mb_used"] = json!(self.memory_mb_used);
        value["local_gb"] = json!(self.disk_gb);
        value["local_gb_used"] = json!(self.disk_gb_used);
        value["free_ram_mb"] = json!(self.memory_mb - self.memory_mb_used);
        value["free_disk_gb"] = json!(self.disk_gb - self.disk_gb_used);
        value["disk_available_least"] = json!(self.disk_gb - self.disk_gb_used);
        value["current_workload"] = json!(0);
    }
}

/// The servers on each host.
type Guests = HashMap<HostId, Vec<InstanceId>>;

fn guests(views: &Views) -> Guests {
    let mut guests = Guests::new();
    for (id, view) in views.cells.values().flat_map(|cell| &cell.instances) {
        if let Some(guest) = view.guest {
            guests.entry(guest.host).or_default().push(*id);
        }
    }
    guests
}

fn brief(call: &RoutedRequest<'_>, row: &HostRow<'_>) -> Value {
    let id = if call.version.since(53) {
        json!(row.id)
    } else {
        json!(legacy_id(row.id.0))
    };
    json!({
        "id": id,
        "hypervisor_hostname": row.name,
        "state": row.state(),
        "status": row.status(),
    })
}

fn detailed(
    call: &RoutedRequest<'_>,
    control: &ControlState,
    row: &HostRow<'_>,
    guests: usize,
) -> Value {
    let mut value = brief(call, row);
    let id = value["id"].clone();
    value["host_ip"] = json!("127.0.0.1");
    value["hypervisor_type"] = json!("placewright");
    value["hypervisor_version"] = json!(1);
    let reason = row
        .service
        .and_then(|service| service.disabled_reason.as_ref());
    value["service"] = json!({"id": id, "host": row.name, "disabled_reason": reason});
    if call.version.since(88) {
        value["uptime"] = json!(null);
        return value;
    }
    Amounts::of(control, row.id).put(&mut value);
    value["running_vms"] = json!(guests);
    value["cpu_info"] = if call.version.since(28) {
        json!({})
    } else {
        json!("")
    };
    value
}

fn with_servers(
    call: &RoutedRequest<'_>,
    value: &mut Value,
    control: &ControlState,
    ids: Option<&Vec<InstanceId>>,
) {
    let ids = ids.map_or(&[][..], Vec::as_slice);
    if ids.is_empty() && !call.version.since(75) {
        return;
    }
    let servers = ids.iter().filter_map(|id| {
        let spec = control.conductor.specs().get(id)?;
        let labels = control.conductor.labels().get(id);
        let name = labels.map_or(&spec.name, |labels| &labels.name);
        Some(json!({"uuid": id, "name": name}))
    });
    value["servers"] = json!(servers.collect::<Vec<_>>());
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::HypervisorsList)?;
    listed(call, "/os-hypervisors", false).await
}

pub(crate) async fn detail(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::HypervisorsDetail)?;
    listed(call, "/os-hypervisors/detail", true).await
}

async fn listed(call: &RoutedRequest<'_>, path: &str, is_detailed: bool) -> ApiResult<Reply> {
    let query = &call.query;
    let pattern = query
        .get("hypervisor_hostname_pattern")
        .filter(|_| call.version.since(53));
    let wants_servers = match call.version.since(53) {
        true => query.boolean("with_servers")?.unwrap_or(false),
        false => false,
    };
    if pattern.is_some() && (query.get("limit").is_some() || query.get("marker").is_some()) {
        let message = "it cannot come together with limit or marker";
        return Err(ApiError::field("hypervisor_hostname_pattern", message));
    }
    let rows = call.read(|control, views| {
        let rows = HostRow::all(control, views).into_iter();
        let rows = rows.filter(|row| pattern.is_none_or(|pattern| row.name.contains(pattern)));
        let rows = rows.map(|row| (row.id, row.name.to_owned()));
        rows.collect::<Vec<_>>()
    });
    let mut rows = rows.await;
    if rows.is_empty()
        && let Some(pattern) = pattern
    {
        return Err(error::missing("hypervisor whose name contains", pattern));
    }
    rows.sort_by_key(|(id, _)| *id);
    if call.version.since(33) {
        rows = page::cut(call, rows, |(id, _), marker| {
            id.to_string() == marker || legacy_id(id.0).to_string() == marker
        })?;
    }
    let ids: Vec<HostId> = rows.iter().map(|(id, _)| *id).collect();
    let values = call.read(|control, views| {
        let guests = if is_detailed || wants_servers {
            guests(views)
        } else {
            Guests::new()
        };
        let rows = ids
            .iter()
            .filter_map(|id| HostRow::find(control, views, *id));
        let values = rows.map(|row| {
            let own = guests.get(&row.id);
            let mut value = match is_detailed {
                true => detailed(call, control, &row, own.map_or(0, Vec::len)),
                false => brief(call, &row),
            };
            if wants_servers {
                with_servers(call, &mut value, control, own);
            }
            value
        });
        values.collect::<Vec<_>>()
    });
    let mut body = json!({"hypervisors": values.await});
    if call.version.since(33) {
        let last = ids.last().map(|id| match call.version.since(53) {
            true => id.to_string(),
            false => legacy_id(id.0).to_string(),
        });
        let next = page::next(call, path, ids.len(), &last.unwrap_or_default())?;
        if let Some(links) = next {
            body["hypervisors_links"] = links;
        }
    }
    Reply::value(200, &body)
}

/// Finds the hypervisor of the path.
fn find<'s>(
    call: &RoutedRequest<'_>,
    control: &'s ControlState,
    views: &'s Views,
) -> ApiResult<HostRow<'s>> {
    let text = call.parameter("hypervisor_id");
    let found = if call.version.since(53) {
        let id = Uuid::try_parse(text).map_err(|_| {
            ApiError::field("hypervisor_id", format!("it must be a UUID, not {text:?}"))
        })?;
        HostRow::find(control, views, HostId(id))
    } else {
        let mut rows = HostRow::all(control, views).into_iter();
        rows.find(|row| legacy_id(row.id.0).to_string() == text)
    };
    found.ok_or_else(|| error::missing("hypervisor", text))
}

pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::HypervisorsShow)?;
    let wants_servers = match call.version.since(53) {
        true => call.query.boolean("with_servers")?.unwrap_or(false),
        false => false,
    };
    let value = call.try_read(|control, views| {
        let row = find(call, control, views)?;
        let guests = guests(views);
        let own = guests.get(&row.id);
        let mut value = detailed(call, control, &row, own.map_or(0, Vec::len));
        if wants_servers {
            with_servers(call, &mut value, control, own);
        }
        Ok(value)
    });
    Reply::value(200, &json!({"hypervisor": value.await?}))
}

pub(crate) async fn statistics(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::HypervisorsStatistics)?;
    let value = call.read(|control, views| {
        let guests = guests(views);
        let mut sum = Amounts::default();
        let (mut count, mut running) = (0, 0);
        // As in OpenStack, disabled hosts are not counted.
        for row in HostRow::all(control, views) {
            if row.is_disabled() {
                continue;
            }
            count += 1;
            running += guests.get(&row.id).map_or(0, Vec::len);
            sum.add(Amounts::of(control, row.id));
        }
        let mut value = json!({"count": count, "running_vms": running});
        sum.put(&mut value);
        value
    });
    Reply::value(200, &json!({"hypervisor_statistics": value.await}))
}

/// Hosts whose name contains the text in the path, before version 2.53.
pub(crate) async fn search(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::HypervisorsSearch)?;
    matching(call, false).await
}

/// The same with the servers of each host.
pub(crate) async fn servers(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::HypervisorsServers)?;
    matching(call, true).await
}

async fn matching(call: &RoutedRequest<'_>, wants_servers: bool) -> ApiResult<Reply> {
    let pattern = call.parameter("hypervisor_id");
    let values = call.read(|control, views| {
        let guests = if wants_servers {
            guests(views)
        } else {
            Guests::new()
        };
        let rows = HostRow::all(control, views).into_iter();
        let rows = rows.filter(|row| row.name.contains(pattern));
        let values = rows.map(|row| {
            let mut value = brief(call, &row);
            if wants_servers {
                with_servers(call, &mut value, control, guests.get(&row.id));
            }
            value
        });
        values.collect::<Vec<_>>()
    });
    let values = values.await;
    if values.is_empty() {
        return Err(error::missing("hypervisor whose name contains", pattern));
    }
    Reply::value(200, &json!({"hypervisors": values}))
}

/// A host's uptime is not known, but old clients ask for it.
pub(crate) async fn uptime(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::HypervisorsUptime)?;
    let value = call.read(|control, views| {
        let row = find(call, control, views)?;
        if !row.is_up() {
            let message = format!("Hypervisor {} is down.", row.name);
            return Err(ApiError::bad_request(message));
        }
        let mut value = brief(call, &row);
        value["uptime"] = json!("");
        Ok(value)
    });
    Reply::value(200, &json!({"hypervisor": value.await?}))
}
