//! The JSON representation of a server.

use std::collections::BTreeMap;

use placewright_auth::Rule;
use placewright_http::{ApiResult, Reply};
use placewright_secrets::Secret;
use placewright_types::flavor::Flavor;
use placewright_types::server::{BlockDevice, PlainValue, ServerBody};
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
    extended: bool,
    host_status: bool,
    /// Whether faults are shown with all their details.
    faults: bool,
}

impl Visibility {
    pub(crate) fn of(call: &RoutedRequest<'_>) -> Self {
        Self {
            extended: call.is_allowed(Rule::ServersExtendedAttributes),
            host_status: call.version.since(16) && call.is_allowed(Rule::ServersHostStatus),
            faults: call.sees_all_projects(),
        }
    }
}

pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let sight = Visibility::of(call);
    let server = call.try_read(|control, views| {
        let seen = find(call, control, views, Rule::ServersShow)?;
        Ok(whole(call, &seen, sight))
    });
    Reply::value(200, &json!({"server": server.await?}))
}

/// A single server, with fields that listings do not have.
pub(crate) fn whole(call: &RoutedRequest<'_>, seen: &ServerView<'_>, sight: Visibility) -> Value {
    let shown = seen.shown();
    let mut value = if is_minimal(call, seen) {
        let mut value = minimal(call, seen);
        value["user_id"] = json!(seen.mapping.user);
        value["image"] = image(call, &shown);
        value["flavor"] = flavor(call, &shown);
        let zone = shown.request.availability_zone.as_deref();
        value["OS-EXT-AZ:availability_zone"] = json!(zone.unwrap_or("UNKNOWN"));
        value["OS-EXT-STS:power_state"] = json!(0);
        value
    } else {
        detailed(call, seen, sight)
    };
    if call.version.since(71) {
        value["server_groups"] = json!(seen.stored.group.iter().collect::<Vec<_>>());
    }
    value
}

/// A server in a listing without details.
pub(crate) fn brief(call: &RoutedRequest<'_>, seen: &ServerView<'_>) -> Value {
    let path = format!("/servers/{}", seen.id);
    if is_minimal(call, seen) {
        return json!({"id": seen.id, "status": "UNKNOWN", "links": call.links(&path)});
    }
    json!({"id": seen.id, "name": seen.name(), "links": call.links(&path)})
}

/// From version 2.69 on, little is shown of a server whose cell is down.
fn is_minimal(call: &RoutedRequest<'_>, seen: &ServerView<'_>) -> bool {
    call.version.since(69) && seen.status() == Status::UNKNOWN
}

fn minimal(call: &RoutedRequest<'_>, seen: &ServerView<'_>) -> Value {
    json!({
        "id": seen.id,
        "status": "UNKNOWN",
        "tenant_id": seen.mapping.project,
        "created": time::seconds(seen.mapping.created_at),
        "links": call.links(&format!("/servers/{}", seen.id)),
    })
}

/// A server in a listing with details.
pub(crate) fn detailed(
    call: &RoutedRequest<'_>,
    seen: &ServerView<'_>,
    sight: Visibility,
) -> Value {
    if is_minimal(call, seen) {
        return minimal(call, seen);
    }
    let shown = seen.shown();
    let server = &shown.server;
    let status = seen.status();
    let labels = seen.labels;
    let metadata: &BTreeMap<String, String> =
        labels.map_or(&server.metadata, |labels| &labels.metadata);
    let host = seen.host().map(|(_, name)| name);
    let groups = server
        .security_groups
        .iter()
        .map(|name| json!({"name": name}));
    let mut value = json!({
        "id": seen.id,
        "name": seen.name(),
        "status": status.status,
        "tenant_id": seen.mapping.project,
        "user_id": seen.mapping.user,
        "metadata": metadata,
        "hostId": host.map_or_else(String::new, |host| host_id(&seen.mapping.project, host)),
        "image": image(call, &shown),
        "flavor": flavor(call, &shown),
        "created": time::seconds(seen.mapping.created_at),
        "updated": time::seconds(seen.updated_at()),
        "addresses": {},
        "accessIPv4": server.access_ip_v4.as_deref().unwrap_or(""),
        "accessIPv6": server.access_ip_v6.as_deref().unwrap_or(""),
        "links": call.links(&format!("/servers/{}", seen.id)),
        "OS-DCF:diskConfig": server.disk_config,
        "OS-EXT-AZ:availability_zone": seen.zone().unwrap_or(""),
        "config_drive": if server.config_drive { "True" } else { "" },
        "key_name": server.key_name,
        "OS-SRV-USG:launched_at": null,
        "OS-SRV-USG:terminated_at": null,
        "OS-EXT-STS:task_state": status.task,
        "OS-EXT-STS:vm_state": status.vm_state,
        "OS-EXT-STS:power_state": status.power,
        "os-extended-volumes:volumes_attached": volumes(call, &server.block_device_mapping_v2),
    });
    if matches!(
        status.status,
        "ACTIVE" | "BUILD" | "REBUILD" | "RESIZE" | "VERIFY_RESIZE" | "MIGRATING" | "REVERT_RESIZE"
    ) {
        value["progress"] = json!(0);
    }
    // While it is being scheduled it has no security groups yet.
    if status != Status::SCHEDULING || !server.security_groups.is_empty() {
        value["security_groups"] = json!(groups.collect::<Vec<_>>());
    }
    if status.status == "ERROR"
        && let Some(fault) = seen.fault()
    {
        value["fault"] = json!({
            "code": fault.code,
            "created": time::seconds(fault.at),
            "message": if sight.faults { fault.message.clone() } else { fault::for_owner(fault) },
        });
        if sight.faults && !fault.details.is_empty() {
            value["fault"]["details"] = json!(fault.details);
        }
    }
    versioned(call, seen, &shown, &mut value);
    if sight.extended {
        extended(call, seen, &shown, &mut value);
    }
    if sight.host_status {
        value["host_status"] = json!(host_status(seen));
    }
    value
}

/// Adds the fields of the request's version.
fn versioned(
    call: &RoutedRequest<'_>,
    seen: &ServerView<'_>,
    shown: &ServerBody,
    value: &mut Value,
) {
    let (server, labels, version) = (&shown.server, seen.labels, call.version);
    let lock = labels.and_then(|labels| labels.lock.as_ref());
    if version.since(9) {
        value["locked"] = json!(lock.is_some());
    }
    if version.since(19) {
        value["description"] = match labels {
            Some(labels) => json!(labels.description),
            None => json!(server.description),
        };
    }
    if version.since(26) {
        value["tags"] = json!(labels.map_or(&server.tags, |labels| &labels.tags));
    }
    if version.since(63) {
        value["trusted_image_certificates"] = json!(server.trusted_image_certificates);
    }
    if version.since(73) {
        value["locked_reason"] = json!(lock.and_then(|lock| lock.reason.as_ref()));
    }
    if version.since(90) {
        value["OS-EXT-SRV-ATTR:hostname"] = json!(hostname(seen, shown));
    }
    if version.since(96) {
        value["pinned_availability_zone"] = json!(shown.request.availability_zone);
    }
}

fn hostname<'v>(seen: &'v ServerView<'_>, shown: &'v ServerBody) -> &'v str {
    seen.labels.map_or(shown.own.hostname.as_str(), |labels| {
        labels.hostname.as_str()
    })
}

/// Adds the fields for operators.
fn extended(
    call: &RoutedRequest<'_>,
    seen: &ServerView<'_>,
    shown: &ServerBody,
    value: &mut Value,
) {
    let host = seen.host().map(|(_, name)| name);
    value["OS-EXT-SRV-ATTR:host"] = json!(host);
    value["OS-EXT-SRV-ATTR:hypervisor_hostname"] = json!(host);
    value["OS-EXT-SRV-ATTR:instance_name"] = json!(format!("instance-{}", seen.id));
    if call.version.since(3) {
        let server = &shown.server;
        value["OS-EXT-SRV-ATTR:hostname"] = json!(hostname(seen, shown));
        value["OS-EXT-SRV-ATTR:reservation_id"] = json!(server.reservation_id);
        value["OS-EXT-SRV-ATTR:launch_index"] = json!(shown.own.launch_index);
        value["OS-EXT-SRV-ATTR:kernel_id"] = json!("");
        value["OS-EXT-SRV-ATTR:ramdisk_id"] = json!("");
        value["OS-EXT-SRV-ATTR:root_device_name"] = json!(null);
        let data = secrets::user_data(call, seen);
        value["OS-EXT-SRV-ATTR:user_data"] = json!(data.as_ref().map(Secret::expose));
    }
}

fn host_status(seen: &ServerView<'_>) -> &'static str {
    let Some((host, _)) = seen.host() else {
        return "";
    };
    if seen.is_out_of_reach {
        return "UNKNOWN";
    }
    let conductor = &seen.control.conductor;
    let service = conductor.services().get(&host);
    let cell = seen.mapping.cell;
    let view = cell.and_then(|cell| seen.views.host(cell, host));
    let is_down =
        service.is_some_and(|service| service.forced_down) || view.is_none_or(|view| !view.is_up);
    match service {
        _ if is_down => "DOWN",
        Some(service) if service.disabled => "MAINTENANCE",
        _ => "UP",
    }
}

/// A hash that tells a project's servers on one host from those on others, without revealing the
/// host.
pub(crate) fn host_id(project: &str, host: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(project.as_bytes());
    hasher.update(host.as_bytes());
    let mut text = hasher.finalize().to_hex().to_string();
    text.truncate(56);
    text
}

fn image(call: &RoutedRequest<'_>, shown: &ServerBody) -> Value {
    match &shown.server.image {
        None => json!(""),
        Some(id) => json!({
            "id": id,
            "links": [{"rel": "bookmark", "href": call.bookmark(&format!("/images/{id}"))}],
        }),
    }
}

/// The flavor as it was when the server was created or resized: embedded from version 2.47 on.
fn flavor(call: &RoutedRequest<'_>, shown: &ServerBody) -> Value {
    let Flavor {
        name,
        vcpus,
        memory_mb,
        root_gb,
        ephemeral_gb,
        swap_mb,
        extra_specs,
    } = &shown.request.flavor;
    if !call.version.since(47) {
        let id = &shown.server.flavor_id;
        return json!({
            "id": id,
            "links": [{"rel": "bookmark", "href": call.bookmark(&format!("/flavors/{id}"))}],
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

/// The volumes that the server was created with. They are references; nothing is attached here.
pub(crate) fn volumes(call: &RoutedRequest<'_>, devices: &[BlockDevice]) -> Value {
    let is_volume = |one: &&BlockDevice| devices::text(one, "source_type") == Some("volume");
    let of_volumes = devices.iter().filter(is_volume);
    let shown = of_volumes.map(|one| {
        let mut value = json!({"id": one.get("uuid")});
        if call.version.since(3) {
            let gone_with_it = one.get("delete_on_termination") == Some(&PlainValue::Flag(true));
            value["delete_on_termination"] = json!(gone_with_it);
        }
        value
    });
    Value::Array(shown.collect())
}
