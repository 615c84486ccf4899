//! The networks and block devices of a new server: references that are stored and passed on.

use std::net::IpAddr;

use placewright_auth::Rule;
use placewright_http::{ApiError, ApiResult};
use placewright_scheduler::request::{self, PortResourceRequest, RequestedNetwork};
use placewright_scheduler::translate::port;
use placewright_types::server::{BlockDevice, ScalarValue, ServerFields};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;

/// The maximum number of networks, of block devices and of security groups of a server.
pub(super) const LIST_ITEMS_MAX: usize = 128;

/// The maximum number of request groups of all ports of a server.
const PORT_GROUPS_MAX: usize = 64;

/// The maximum number of fields of a block device.
const DEVICE_FIELDS_MAX: usize = 32;

/// Parses networks and block devices. They are stored as the request has them, except that block devices in the older
/// form, `block_device_mapping`, are converted to the newer one. Returns the ports that come with a resource request.
pub(super) fn parse_devices(
    request: &RoutedRequest<'_>,
    parser: &mut ObjectParser<'_>,
    server: &mut ServerFields,
) -> ApiResult<Vec<RequestedNetwork>> {
    let mut port_requests = Vec::new();
    match parser.take("networks") {
        None if request.version.since(37) => {
            let message = "it is missing: a list, or auto or none";
            return Err(parser.field_error("networks", message));
        }
        None => {}
        Some(value) => {
            port_requests = check_networks(request, &parser.path_of("networks"), value)?;
            check_networks_available(request, parser, value, port_requests.len())?;
            let networks = serde_json::from_value(value.clone());
            server.networks =
                Some(networks.map_err(|error| parser.field_error("networks", error))?);
        }
    }
    let mappings = parser.take("block_device_mapping_v2");
    let old_mappings = parser.take("block_device_mapping");
    for (key, value) in [
        ("block_device_mapping_v2", mappings),
        ("block_device_mapping", old_mappings),
    ] {
        let Some(value) = value else { continue };
        let path = parser.path_of(key);
        let items = fields::parse_list(&path, value, LIST_ITEMS_MAX)?;
        for (index, item) in items.iter().enumerate() {
            check_device(&format!("{path}[{index}]"), item)?;
        }
        if mappings.is_some() && old_mappings.is_some() {
            let message = "it cannot come together with block_device_mapping_v2";
            return Err(parser.field_error("block_device_mapping", message));
        }
        let devices = if key == "block_device_mapping" {
            convert_old_mappings(items)
        } else {
            value.clone()
        };
        let devices = serde_json::from_value(devices);
        server.block_device_mapping_v2 = devices.map_err(|error| parser.field_error(key, error))?;
    }
    Ok(port_requests)
}

/// Checks that a block device has few fields, each with a simple value.
///
/// Source: Nova's `schemas/block_device_mapping*.py`: all texts have 255 characters at most.
fn check_device(path: &str, device: &Value) -> ApiResult<()> {
    let map = device
        .as_object()
        .ok_or_else(|| fields::type_error(path, "an object", device))?;
    if map.len() > DEVICE_FIELDS_MAX {
        let message = format!("it must have at most {DEVICE_FIELDS_MAX} fields");
        return Err(ApiError::field(path, message));
    }
    for (key, value) in map {
        let is_simple = match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
            Value::String(text) => text.chars().count() <= 255,
            Value::Array(_) | Value::Object(_) => false,
        };
        if key.len() > 64 {
            return Err(ApiError::field(path, "no field has so long a name"));
        }
        if !is_simple {
            let expected = "a number, true, false, null or a text of at most 255 characters";
            return Err(fields::type_error(
                &format!("{path}.{key}"),
                expected,
                value,
            ));
        }
    }
    Ok(())
}

/// Converts block devices in the older form, of which the first is the boot device.
fn convert_old_mappings(items: &[Value]) -> Value {
    let devices = items.iter().enumerate().map(|(index, item)| {
        let is_snapshot = item.get("snapshot_id").is_some_and(|id| !id.is_null());
        json!({
            "source_type": if is_snapshot { "snapshot" } else { "volume" },
            "destination_type": "volume",
            "uuid": if is_snapshot { &item["snapshot_id"] } else { &item["volume_id"] },
            "device_name": item["device_name"],
            "delete_on_termination": item["delete_on_termination"],
            "boot_index": if index == 0 { 0 } else { -1 },
        })
    });
    Value::Array(devices.collect())
}

pub(super) fn is_boot_device(device: &BlockDevice) -> bool {
    match device.get("boot_index") {
        Some(ScalarValue::Integer(number)) => *number == 0,
        Some(ScalarValue::Text(text)) => text == "0",
        _ => false,
    }
}

pub(super) fn boots_from_volume(devices: &[BlockDevice]) -> bool {
    let mut boot_devices = devices.iter().filter(|device| is_boot_device(device));
    boot_devices.any(|device| match text(device, "destination_type") {
        Some(destination) => destination == "volume",
        None => matches!(text(device, "source_type"), Some("volume" | "snapshot")),
    })
}

/// The value of a block device's field, if it is a text.
pub(super) fn text<'d>(device: &'d BlockDevice, name: &str) -> Option<&'d str> {
    device.get(name).and_then(ScalarValue::text)
}

/// Refuses networks, and ports without a resource request, if control itself serves the Network API: such an
/// installation has no networks. `port_request_count` is the number of ports with a resource request.
fn check_networks_available(
    request: &RoutedRequest<'_>,
    parser: &ObjectParser<'_>,
    networks: &Value,
    port_request_count: usize,
) -> ApiResult<()> {
    let asks_for_network = networks
        .as_array()
        .is_some_and(|list| list.len() > port_request_count);
    if request.api_state.options.serves_network_api && asks_for_network {
        let message = "this installation has no networks: it must be empty, auto or none";
        return Err(parser.field_error("networks", message));
    }
    Ok(())
}

/// Checks the networks of a request. Returns those that are ports with a resource request.
fn check_networks(
    request: &RoutedRequest<'_>,
    path: &str,
    value: &Value,
) -> ApiResult<Vec<RequestedNetwork>> {
    let mut port_requests: Vec<RequestedNetwork> = Vec::new();
    let items = match value {
        Value::Array(_) => fields::parse_list(path, value, LIST_ITEMS_MAX)?,
        Value::String(word)
            if request.version.since(37) && matches!(word.as_str(), "auto" | "none") =>
        {
            return Ok(port_requests);
        }
        other => return Err(fields::type_error(path, "a list", other)),
    };
    for (index, item) in items.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let mut network = ObjectParser::new(path.as_str(), item)?;
        for key in ["uuid", "port"] {
            let text = network.nullable_text(key, 0..=255)?.flatten();
            if let Some(text) = text
                && Uuid::try_parse(text).is_err()
            {
                return Err(network.field_error(key, format!("it must be a UUID, not {text:?}")));
            }
        }
        let address = network.nullable_text("fixed_ip", 0..=64)?.flatten();
        if address.is_some_and(|address| address.parse::<IpAddr>().is_err()) {
            return Err(network.field_error("fixed_ip", "it must be an IP address"));
        }
        if request.version.since(32) {
            network.nullable_text("tag", 1..=60)?;
        }
        let resource_request = network.take("resource_request");
        if let Some(value) = resource_request.filter(|value| !value.is_null()) {
            request.authorize(Rule::ServersCreatePortRequest)?;
            port_requests.push(port_request(&path, item, value)?);
        }
        network.finish()?;
    }
    if port_requests.iter().map(group_count).sum::<usize>() > PORT_GROUPS_MAX {
        let message =
            format!("all ports together must have at most {PORT_GROUPS_MAX} request groups");
        return Err(ApiError::field(path, message));
    }
    Ok(port_requests)
}

fn group_count(network: &RequestedNetwork) -> usize {
    let resource_request = network.resource_request.as_ref();
    let groups = resource_request.and_then(|request| request.request_groups.as_ref());
    groups.map_or(1, Vec::len)
}

/// Parses the resource request of a port, as the Network API shows it (extension `port-resource-request-groups`).
fn port_request(path: &str, item: &Value, value: &Value) -> ApiResult<RequestedNetwork> {
    let port = item.get("port").and_then(Value::as_str);
    let Some(port_id) = port.and_then(|port| Uuid::try_parse(port).ok()) else {
        let message = "it is missing: the resource request is that of a port";
        return Err(ApiError::field(&format!("{path}.port"), message));
    };
    let request_path = format!("{path}.resource_request");
    let resource_request: PortResourceRequest = request::read(value).map_err(|error| {
        let path = match error.field.as_str() {
            // The error is about the whole resource request.
            "." => request_path.clone(),
            field => format!("{request_path}.{field}"),
        };
        ApiError::field(&path, error.message)
    })?;
    port::check(&resource_request, path)
        .map_err(|error| ApiError::bad_request(format!("{error}.")))?;
    let groups = resource_request.request_groups.as_deref().unwrap_or(&[]);
    if let Some(index) = groups.iter().position(|group| group.id.is_empty()) {
        let path = format!("{request_path}.request_groups[{index}].id");
        return Err(ApiError::field(&path, "it must not be empty"));
    }
    Ok(RequestedNetwork {
        port_id: Some(port_id),
        resource_request: Some(resource_request),
        ..RequestedNetwork::default()
    })
}
