//! The JSON representation of a server.

use std::collections::BTreeMap;

use placewright_auth::Rule;
use placewright_http::{ApiResult, Reply};
use placewright_secrets::Secret;
use placewright_types::flavor::Flavor;
use placewright_types::server::{
    BlockDevice, Networks, NetworksKeyword, ScalarValue, ServerBody, ServerFields,
};
use serde_json::{Value, json};

use super::devices;
use super::fault;
use super::find;
use super::secrets;
use super::server_view::ServerView;
use super::status::Status;
use crate::routed_request::RoutedRequest;
use crate::time;

/// Which parts of servers the caller may see.
#[derive(Clone, Copy)]
pub(crate) struct Visibility {
    /// Whether the fields `OS-EXT-SRV-ATTR:…` are shown.
    sees_extended_attributes: bool,
    /// Whether the field `host_status` is shown.
    sees_host_status: bool,
    /// Whether faults are shown with their details.
    sees_fault_details: bool,
}

impl Visibility {
    pub(crate) fn of_caller(request: &RoutedRequest<'_>) -> Self {
        Self {
            sees_extended_attributes: request.is_allowed(Rule::ServersExtendedAttributes),
            sees_host_status: request.version.since(16)
                && request.is_allowed(Rule::ServersHostStatus),
            sees_fault_details: request.sees_all_projects(),
        }
    }
}

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let visibility = Visibility::of_caller(request);
    let reading = request.try_read(|control, views| {
        let server = find(request, control, views, Rule::ServersShow)?;
        Ok(full_json(request, &server, visibility))
    });
    Reply::value(200, &json!({"server": reading.await?}))
}

/// The JSON of a single server, with fields that listings do not have.
pub(crate) fn full_json(
    request: &RoutedRequest<'_>,
    server: &ServerView<'_>,
    visibility: Visibility,
) -> Value {
    let body = server.body();
    let mut value = if is_minimal(request, server) {
        let mut value = minimal_json(request, server);
        value["user_id"] = json!(server.mapping.user);
        value["image"] = image_json(request, &body);
        value["flavor"] = flavor_json(request, &body);
        let zone = body.request.availability_zone.as_deref();
        value["OS-EXT-AZ:availability_zone"] = json!(zone.unwrap_or("UNKNOWN"));
        value["OS-EXT-STS:power_state"] = json!(0);
        value
    } else {
        detailed_json(request, server, visibility)
    };
    if request.version.since(71) {
        value["server_groups"] = json!(server.stored_spec.group.iter().collect::<Vec<_>>());
    }
    value
}

/// The JSON of a server in a listing without details.
pub(crate) fn brief_json(request: &RoutedRequest<'_>, server: &ServerView<'_>) -> Value {
    let path = format!("/servers/{}", server.id);
    if is_minimal(request, server) {
        return json!({"id": server.id, "status": "UNKNOWN", "links": request.links(&path)});
    }
    json!({"id": server.id, "name": server.name(), "links": request.links(&path)})
}

/// Whether only a few fields of a server are shown, because its cell is down (from version 2.69 on).
fn is_minimal(request: &RoutedRequest<'_>, server: &ServerView<'_>) -> bool {
    request.version.since(69) && server.status() == Status::UNKNOWN
}

fn minimal_json(request: &RoutedRequest<'_>, server: &ServerView<'_>) -> Value {
    json!({
        "id": server.id,
        "status": "UNKNOWN",
        "tenant_id": server.mapping.project,
        "created": time::format_seconds(server.mapping.created_at),
        "links": request.links(&format!("/servers/{}", server.id)),
    })
}

/// The addresses of a server, by network. Control knows no addresses, so the object is normally empty. Clients that let
/// the cloud choose the networks (openstacksdk's `create_server(wait=True)`) take an empty object for a failure. So if
/// this process serves the Network API, which has no networks, the object has the placeholder `no-network` with an
/// empty list, unless the request asked for `none`.
pub(super) fn addresses_json(request: &RoutedRequest<'_>, server: &ServerFields) -> Value {
    let wants_none = server.networks == Some(Networks::Keyword(NetworksKeyword::None));
    match request.api_state.options.serves_network_api && !wants_none {
        true => json!({"no-network": []}),
        false => json!({}),
    }
}

/// The JSON of a server in a listing with details.
pub(crate) fn detailed_json(
    request: &RoutedRequest<'_>,
    server: &ServerView<'_>,
    visibility: Visibility,
) -> Value {
    if is_minimal(request, server) {
        return minimal_json(request, server);
    }
    let body = server.body();
    let server_fields = &body.server;
    let status = server.status();
    let labels = server.labels;
    let metadata: &BTreeMap<String, String> =
        labels.map_or(&server_fields.metadata, |labels| &labels.metadata);
    let host = server.host().map(|(_, name)| name);
    let security_groups = server_fields
        .security_groups
        .iter()
        .map(|name| json!({"name": name}));
    let mut value = json!({
        "id": server.id,
        "name": server.name(),
        "status": status.name,
        "tenant_id": server.mapping.project,
        "user_id": server.mapping.user,
        "metadata": metadata,
        "hostId": host.map_or_else(String::new, |host| host_id(&server.mapping.project, host)),
        "image": image_json(request, &body),
        "flavor": flavor_json(request, &body),
        "created": time::format_seconds(server.mapping.created_at),
        "updated": time::format_seconds(server.updated_at()),
        "addresses": addresses_json(request, server_fields),
        "accessIPv4": server_fields.access_ip_v4.as_deref().unwrap_or(""),
        "accessIPv6": server_fields.access_ip_v6.as_deref().unwrap_or(""),
        "links": request.links(&format!("/servers/{}", server.id)),
        "OS-DCF:diskConfig": server_fields.disk_config,
        "OS-EXT-AZ:availability_zone": server.zone().unwrap_or(""),
        "config_drive": if server_fields.config_drive { "True" } else { "" },
        "key_name": server_fields.key_name,
        "OS-SRV-USG:launched_at": null,
        "OS-SRV-USG:terminated_at": null,
        "OS-EXT-STS:task_state": status.task_state,
        "OS-EXT-STS:vm_state": status.vm_state,
        "OS-EXT-STS:power_state": status.power_state,
        "os-extended-volumes:volumes_attached": volumes_json(request, &server_fields.block_device_mapping_v2),
    });
    if matches!(
        status.name,
        "ACTIVE" | "BUILD" | "REBUILD" | "RESIZE" | "VERIFY_RESIZE" | "MIGRATING" | "REVERT_RESIZE"
    ) {
        value["progress"] = json!(0);
    }
    // Until a server has a host, it has only the requested security groups, and without any the field is left out.
    if status != Status::SCHEDULING || !server_fields.security_groups.is_empty() {
        value["security_groups"] = json!(security_groups.collect::<Vec<_>>());
    }
    if status.name == "ERROR"
        && let Some(fault) = server.fault()
    {
        value["fault"] = json!({
            "code": fault.code,
            "created": time::format_seconds(fault.at),
            "message": if visibility.sees_fault_details { fault.message.clone() } else { fault::for_owner(fault) },
        });
        if visibility.sees_fault_details && !fault.details.is_empty() {
            value["fault"]["details"] = json!(fault.details);
        }
    }
    add_versioned_fields(request, server, &body, &mut value);
    if visibility.sees_extended_attributes {
        add_extended_attributes(request, server, &body, &mut value);
    }
    if visibility.sees_host_status {
        value["host_status"] = json!(host_status(server));
    }
    value
}

/// Adds the fields that only some versions have.
fn add_versioned_fields(
    request: &RoutedRequest<'_>,
    server: &ServerView<'_>,
    body: &ServerBody,
    value: &mut Value,
) {
    let (server_fields, labels, version) = (&body.server, server.labels, request.version);
    let lock = labels.and_then(|labels| labels.lock.as_ref());
    if version.since(9) {
        value["locked"] = json!(lock.is_some());
    }
    if version.since(19) {
        value["description"] = match labels {
            Some(labels) => json!(labels.description),
            None => json!(server_fields.description),
        };
    }
    if version.since(26) {
        value["tags"] = json!(labels.map_or(&server_fields.tags, |labels| &labels.tags));
    }
    if version.since(63) {
        value["trusted_image_certificates"] = json!(server_fields.trusted_image_certificates);
    }
    if version.since(73) {
        value["locked_reason"] = json!(lock.and_then(|lock| lock.reason.as_ref()));
    }
    if version.since(90) {
        value["OS-EXT-SRV-ATTR:hostname"] = json!(hostname(server, body));
    }
    if version.since(96) {
        value["pinned_availability_zone"] = json!(body.request.availability_zone);
    }
}

fn hostname<'v>(server: &'v ServerView<'_>, body: &'v ServerBody) -> &'v str {
    server.labels.map_or(body.own.hostname.as_str(), |labels| {
        labels.hostname.as_str()
    })
}

/// Adds the extended attributes, which operators see.
fn add_extended_attributes(
    request: &RoutedRequest<'_>,
    server: &ServerView<'_>,
    body: &ServerBody,
    value: &mut Value,
) {
    let host = server.host().map(|(_, name)| name);
    value["OS-EXT-SRV-ATTR:host"] = json!(host);
    value["OS-EXT-SRV-ATTR:hypervisor_hostname"] = json!(host);
    value["OS-EXT-SRV-ATTR:instance_name"] = json!(format!("instance-{}", server.id));
    if request.version.since(3) {
        let server_fields = &body.server;
        value["OS-EXT-SRV-ATTR:hostname"] = json!(hostname(server, body));
        value["OS-EXT-SRV-ATTR:reservation_id"] = json!(server_fields.reservation_id);
        value["OS-EXT-SRV-ATTR:launch_index"] = json!(body.own.launch_index);
        value["OS-EXT-SRV-ATTR:kernel_id"] = json!("");
        value["OS-EXT-SRV-ATTR:ramdisk_id"] = json!("");
        value["OS-EXT-SRV-ATTR:root_device_name"] = json!(null);
        let user_data = secrets::user_data(request, server);
        value["OS-EXT-SRV-ATTR:user_data"] = json!(user_data.as_ref().map(Secret::expose));
    }
}

/// The status of a server's host, as Nova shows it: settings of operators take precedence over what the agent reports.
/// Empty if the server has no host.
fn host_status(server: &ServerView<'_>) -> &'static str {
    let Some((host, _)) = server.host() else {
        return "";
    };
    if server.is_out_of_reach {
        return "UNKNOWN";
    }
    let conductor = &server.control.conductor;
    let service = conductor.services().get(&host);
    let cell = server.mapping.cell;
    let view = cell.and_then(|cell| server.views.host(cell, host));
    match service {
        Some(service) if service.forced_down => "DOWN",
        Some(service) if service.disabled => "MAINTENANCE",
        _ if view.is_some_and(|view| view.is_up) => "UP",
        _ => "UNKNOWN",
    }
}

/// A hash of project and host. It shows which servers of a project share a host, without revealing
/// the host.
pub(crate) fn host_id(project: &str, host: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(project.as_bytes());
    hasher.update(host.as_bytes());
    let mut text = hasher.finalize().to_hex().to_string();
    // As long as Nova's ids, which are SHA-224 hashes in hexadecimal digits.
    text.truncate(56);
    text
}

fn image_json(request: &RoutedRequest<'_>, body: &ServerBody) -> Value {
    match &body.server.image {
        None => json!(""),
        Some(id) => json!({
            "id": id,
            "links": [{"rel": "bookmark", "href": request.bookmark(&format!("/images/{id}"))}],
        }),
    }
}

/// The flavor as it was when the server was created or resized; before version 2.47 only a link to it.
fn flavor_json(request: &RoutedRequest<'_>, body: &ServerBody) -> Value {
    let Flavor {
        name,
        vcpus,
        memory_mb,
        root_gb,
        ephemeral_gb,
        swap_mb,
        extra_specs,
    } = &body.request.flavor;
    if !request.version.since(47) {
        let id = &body.server.flavor_id;
        return json!({
            "id": id,
            "links": [{"rel": "bookmark", "href": request.bookmark(&format!("/flavors/{id}"))}],
        });
    }
    json!({
        "original_name": name,
        "vcpus": vcpus,
        "ram": memory_mb,
        "disk": root_gb,
        "ephemeral": ephemeral_gb,
        "swap": swap_mb,
        "extra_specs": extra_specs,
    })
}

/// The volumes with which the server was created.
pub(crate) fn volumes_json(request: &RoutedRequest<'_>, devices: &[BlockDevice]) -> Value {
    let is_volume = |device: &&BlockDevice| devices::text(device, "source_type") == Some("volume");
    let volumes = devices.iter().filter(is_volume);
    let values = volumes.map(|device| {
        let mut value = json!({"id": device.get("uuid")});
        if request.version.since(3) {
            let is_deleted_with_server =
                device.get("delete_on_termination") == Some(&ScalarValue::Boolean(true));
            value["delete_on_termination"] = json!(is_deleted_with_server);
        }
        value
    });
    Value::Array(values.collect())
}
