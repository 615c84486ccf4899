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

/// The capacity and usage that a hypervisor shows, summed over its host's tree of providers.
#[derive(Clone, Copy, Default)]
struct HostCapacity {
    vcpus: i64,
    vcpus_used: i64,
    memory_mb: i64,
    memory_mb_used: i64,
    disk_gb: i64,
    disk_gb_used: i64,
}

impl HostCapacity {
    fn of_host(control: &ControlState, host: HostId) -> Self {
        let placement = &control.placement;
        let mut capacity = Self::default();
        let Some(root) = placement.provider_id(host.0) else {
            return capacity;
        };
        for provider_id in placement.subtree(root) {
            let Some(provider) = placement.provider(provider_id) else {
                continue;
            };
            for row in &provider.inventories {
                let total = i64::from(row.inventory.total);
                // CPUs that are dedicated to instances count like shared ones.
                let (capacity_sum, used_sum) = match placement.class_name(row.class) {
                    "VCPU" | "PCPU" => (&mut capacity.vcpus, &mut capacity.vcpus_used),
                    "MEMORY_MB" => (&mut capacity.memory_mb, &mut capacity.memory_mb_used),
                    "DISK_GB" => (&mut capacity.disk_gb, &mut capacity.disk_gb_used),
                    _ => continue,
                };
                *capacity_sum += total;
                *used_sum += row.used;
            }
        }
        capacity
    }

    fn add(&mut self, other: Self) {
        self.vcpus += other.vcpus;
        self.vcpus_used += other.vcpus_used;
        self.memory_mb += other.memory_mb;
        self.memory_mb_used += other.memory_mb_used;
        self.disk_gb += other.disk_gb;
        self.disk_gb_used += other.disk_gb_used;
    }

    /// Adds these amounts to the JSON of a hypervisor or of the statistics. Only versions before 2.88 show them.
    fn add_fields(self, value: &mut Value) {
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

/// The servers on each host, according to the latest reports of the cells.
type ServersByHost = HashMap<HostId, Vec<InstanceId>>;

fn servers_by_host(views: &Views) -> ServersByHost {
    let mut servers_by_host = ServersByHost::new();
    for (id, view) in views.cells.values().flat_map(|cell| &cell.instances) {
        if let Some(guest) = view.guest {
            servers_by_host.entry(guest.host).or_default().push(*id);
        }
    }
    servers_by_host
}

fn brief_json(request: &RoutedRequest<'_>, row: &HostRow<'_>) -> Value {
    let id = if request.version.since(53) {
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

fn detailed_json(
    request: &RoutedRequest<'_>,
    control: &ControlState,
    row: &HostRow<'_>,
    server_count: usize,
) -> Value {
    let mut value = brief_json(request, row);
    let id = value["id"].clone();
    // Clients expect these fields. Agents report the address and the hypervisor in their host state, but the view of a
    // host that this API reads does not contain them, so these values are fixed.
    value["host_ip"] = json!("127.0.0.1");
    value["hypervisor_type"] = json!("placewright");
    value["hypervisor_version"] = json!(1);
    let reason = row
        .service
        .and_then(|service| service.disabled_reason.as_ref());
    value["service"] = json!({"id": id, "host": row.name, "disabled_reason": reason});
    if request.version.since(88) {
        value["uptime"] = json!(null);
        return value;
    }
    HostCapacity::of_host(control, row.id).add_fields(&mut value);
    value["running_vms"] = json!(server_count);
    value["cpu_info"] = if request.version.since(28) {
        json!({})
    } else {
        json!("")
    };
    value
}

/// Adds the servers of a hypervisor to its JSON. Before version 2.75 an empty list is left out.
fn add_servers(
    request: &RoutedRequest<'_>,
    value: &mut Value,
    control: &ControlState,
    ids: Option<&Vec<InstanceId>>,
) {
    let ids = ids.map_or(&[][..], Vec::as_slice);
    if ids.is_empty() && !request.version.since(75) {
        return;
    }
    let values = ids.iter().filter_map(|id| {
        let spec = control.conductor.specs().get(id)?;
        let labels = control.conductor.labels().get(id);
        let name = labels.map_or(&spec.name, |labels| &labels.name);
        Some(json!({"uuid": id, "name": name}))
    });
    value["servers"] = json!(values.collect::<Vec<_>>());
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::HypervisorsList)?;
    let is_detailed = false;
    list_response(request, "/os-hypervisors", is_detailed).await
}

pub(crate) async fn detail(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::HypervisorsDetail)?;
    let is_detailed = true;
    list_response(request, "/os-hypervisors/detail", is_detailed).await
}

/// Whether the query asks for the servers of each hypervisor, from version 2.53 on.
fn wants_servers(request: &RoutedRequest<'_>) -> ApiResult<bool> {
    match request.version.since(53) {
        true => Ok(request.query.boolean("with_servers")?.unwrap_or(false)),
        false => Ok(false),
    }
}

async fn list_response(
    request: &RoutedRequest<'_>,
    path: &str,
    is_detailed: bool,
) -> ApiResult<Reply> {
    let query = &request.query;
    let pattern = query
        .get("hypervisor_hostname_pattern")
        .filter(|_| request.version.since(53));
    let wants_servers = wants_servers(request)?;
    if pattern.is_some() && (query.get("limit").is_some() || query.get("marker").is_some()) {
        let message = "it cannot come together with limit or marker";
        return Err(ApiError::field("hypervisor_hostname_pattern", message));
    }
    let rows = request.read(|control, views| {
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
    if request.version.since(33) {
        rows = page::paginate(request, rows, |(id, _), marker| {
            id.to_string() == marker || legacy_id(id.0).to_string() == marker
        })?;
    }
    let ids: Vec<HostId> = rows.iter().map(|(id, _)| *id).collect();
    let values = request.read(|control, views| {
        let servers_by_host = if is_detailed || wants_servers {
            servers_by_host(views)
        } else {
            ServersByHost::new()
        };
        let rows = ids
            .iter()
            .filter_map(|id| HostRow::find(control, views, *id));
        let values = rows.map(|row| {
            let servers = servers_by_host.get(&row.id);
            let mut value = match is_detailed {
                true => detailed_json(request, control, &row, servers.map_or(0, Vec::len)),
                false => brief_json(request, &row),
            };
            if wants_servers {
                add_servers(request, &mut value, control, servers);
            }
            value
        });
        values.collect::<Vec<_>>()
    });
    let mut body = json!({"hypervisors": values.await});
    if request.version.since(33) {
        let last_id = ids.last().map(|id| match request.version.since(53) {
            true => id.to_string(),
            false => legacy_id(id.0).to_string(),
        });
        let links = page::next_link(request, path, ids.len(), &last_id.unwrap_or_default())?;
        if let Some(links) = links {
            body["hypervisors_links"] = links;
        }
    }
    Reply::value(200, &body)
}

/// Finds the hypervisor of the path.
fn find<'s>(
    request: &RoutedRequest<'_>,
    control: &'s ControlState,
    views: &'s Views,
) -> ApiResult<HostRow<'s>> {
    let text = request.parameter("hypervisor_id");
    let host = if request.version.since(53) {
        let id = Uuid::try_parse(text).map_err(|_| {
            ApiError::field("hypervisor_id", format!("it must be a UUID, not {text:?}"))
        })?;
        HostRow::find(control, views, HostId(id))
    } else {
        let mut rows = HostRow::all(control, views).into_iter();
        rows.find(|row| legacy_id(row.id.0).to_string() == text)
    };
    host.ok_or_else(|| error::missing("hypervisor", text))
}

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::HypervisorsShow)?;
    let wants_servers = wants_servers(request)?;
    let value = request.try_read(|control, views| {
        let row = find(request, control, views)?;
        let servers_by_host = servers_by_host(views);
        let servers = servers_by_host.get(&row.id);
        let mut value = detailed_json(request, control, &row, servers.map_or(0, Vec::len));
        if wants_servers {
            add_servers(request, &mut value, control, servers);
        }
        Ok(value)
    });
    Reply::value(200, &json!({"hypervisor": value.await?}))
}

pub(crate) async fn statistics(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::HypervisorsStatistics)?;
    let value = request.read(|control, views| {
        let servers_by_host = servers_by_host(views);
        let mut total = HostCapacity::default();
        let (mut count, mut servers_sum) = (0, 0);
        // As in OpenStack, disabled hosts are not counted.
        for row in HostRow::all(control, views) {
            if row.is_disabled() {
                continue;
            }
            count += 1;
            servers_sum += servers_by_host.get(&row.id).map_or(0, Vec::len);
            total.add(HostCapacity::of_host(control, row.id));
        }
        let mut value = json!({"count": count, "running_vms": servers_sum});
        total.add_fields(&mut value);
        value
    });
    Reply::value(200, &json!({"hypervisor_statistics": value.await}))
}

/// Lists the hypervisors whose name contains the text in the path, before version 2.53.
pub(crate) async fn search(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::HypervisorsSearch)?;
    let with_servers = false;
    matching_response(request, with_servers).await
}

/// Lists the hypervisors whose name contains the text in the path, with the servers of each, before version
/// 2.53.
pub(crate) async fn servers(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::HypervisorsServers)?;
    let with_servers = true;
    matching_response(request, with_servers).await
}

/// Lists the hypervisors whose name contains the text in the path. The table of routes calls that parameter
/// `hypervisor_id`, because all routes with a parameter in that position have to use one name.
async fn matching_response(request: &RoutedRequest<'_>, with_servers: bool) -> ApiResult<Reply> {
    let name_part = request.parameter("hypervisor_id");
    let values = request.read(|control, views| {
        let servers_by_host = if with_servers {
            servers_by_host(views)
        } else {
            ServersByHost::new()
        };
        let rows = HostRow::all(control, views).into_iter();
        let rows = rows.filter(|row| row.name.contains(name_part));
        let values = rows.map(|row| {
            let mut value = brief_json(request, &row);
            if with_servers {
                add_servers(request, &mut value, control, servers_by_host.get(&row.id));
            }
            value
        });
        values.collect::<Vec<_>>()
    });
    let values = values.await;
    if values.is_empty() {
        return Err(error::missing("hypervisor whose name contains", name_part));
    }
    Reply::value(200, &json!({"hypervisors": values}))
}

/// Shows the uptime of a hypervisor to old clients. It is always empty, because agents do not report uptimes.
pub(crate) async fn uptime(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::HypervisorsUptime)?;
    let value = request.read(|control, views| {
        let row = find(request, control, views)?;
        if !row.is_up() {
            let message = format!("Hypervisor {} is down.", row.name);
            return Err(ApiError::bad_request(message));
        }
        let mut value = brief_json(request, &row);
        value["uptime"] = json!("");
        Ok(value)
    });
    Reply::value(200, &json!({"hypervisor": value.await?}))
}
