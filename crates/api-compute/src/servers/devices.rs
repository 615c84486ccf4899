//! The networks and block devices of a new server: references that are stored and passed on.

use std::net::IpAddr;

use placewright_http::{ApiError, ApiResult};
use placewright_types::server::{BlockDevice, PlainValue, ServerFields};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;

/// The most networks, block devices or security groups of a server.
pub(super) const PARTS_MAX: usize = 128;

/// The most fields of a block device.
const DEVICE_FIELDS_MAX: usize = 32;

/// Parses networks and block devices, which are stored as they are.
pub(super) fn read_boot(
    call: &RoutedRequest<'_>,
    parsed: &mut ObjectParser<'_>,
    server: &mut ServerFields,
) -> ApiResult<()> {
    match parsed.take("networks") {
        None if call.version.since(37) => {
            let message = "it is missing: a list, or auto or none";
            return Err(parsed.wrong("networks", message));
        }
        None => {}
        Some(value) => {
            check_networks(call, &parsed.path_of("networks"), value)?;
            let networks = serde_json::from_value(value.clone());
            server.networks = Some(networks.map_err(|error| parsed.wrong("networks", error))?);
        }
    }
    let mappings = parsed.take("block_device_mapping_v2");
    let old = parsed.take("block_device_mapping");
    for (key, value) in [
        ("block_device_mapping_v2", mappings),
        ("block_device_mapping", old),
    ] {
        let Some(value) = value else { continue };
        let path = parsed.path_of(key);
        let all = fields::list(&path, value, PARTS_MAX)?;
        for (place, one) in all.iter().enumerate() {
            check_device(&format!("{path}[{place}]"), one)?;
        }
        if mappings.is_some() && old.is_some() {
            let message = "it cannot come together with block_device_mapping_v2";
            return Err(parsed.wrong("block_device_mapping", message));
        }
        let devices = if key == "block_device_mapping" {
            from_old_mappings(all)
        } else {
            value.clone()
        };
        let devices = serde_json::from_value(devices);
        server.block_device_mapping_v2 = devices.map_err(|error| parsed.wrong(key, error))?;
    }
    Ok(())
}

/// Checks a block device: it has few fields, each with a simple value.
///
/// Source: Nova's `schemas/block_device_mapping*.py`: all texts have 255 characters at most.
fn check_device(path: &str, device: &Value) -> ApiResult<()> {
    let map = device
        .as_object()
        .ok_or_else(|| fields::wrong(path, "an object", device))?;
    if map.len() > DEVICE_FIELDS_MAX {
        let message = format!("it must have at most {DEVICE_FIELDS_MAX} fields");
        return Err(ApiError::field(path, message));
    }
    for (key, value) in map {
        let is_fine = match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
            Value::String(text) => text.chars().count() <= 255,
            Value::Array(_) | Value::Object(_) => false,
        };
        if key.len() > 64 {
            return Err(ApiError::field(path, "no field has so long a name"));
        }
        if !is_fine {
            let expected = "a number, true, false, null or a text of at most 255 characters";
            return Err(fields::wrong(&format!("{path}.{key}"), expected, value));
        }
    }
    Ok(())
}

/// Converts the older form of block devices, in which the first is the boot device.
fn from_old_mappings(all: &[Value]) -> Value {
    let newer = all.iter().enumerate().map(|(place, one)| {
        let is_snapshot = one.get("snapshot_id").is_some_and(|id| !id.is_null());
        json!({
            "source_type": if is_snapshot { "snapshot" } else { "volume" },
            "destination_type": "volume",
            "uuid": if is_snapshot { &one["snapshot_id"] } else { &one["volume_id"] },
            "device_name": one["device_name"],
            "delete_on_termination": one["delete_on_termination"],
            "boot_index": if place == 0 { 0 } else { -1 },
        })
    });
    Value::Array(newer.collect())
}

pub(super) fn is_first(device: &BlockDevice) -> bool {
    match device.get("boot_index") {
        Some(PlainValue::Whole(number)) => *number == 0,
        Some(PlainValue::Text(text)) => text == "0",
        _ => false,
    }
}

pub(super) fn boots_from_volume(devices: &[BlockDevice]) -> bool {
    let mut first = devices.iter().filter(|one| is_first(one));
    first.any(|one| match text(one, "destination_type") {
        Some(to) => to == "volume",
        None => matches!(text(one, "source_type"), Some("volume" | "snapshot")),
    })
}

/// A field of a block device that is a text.
pub(super) fn text<'d>(device: &'d BlockDevice, name: &str) -> Option<&'d str> {
    device.get(name).and_then(PlainValue::text)
}

fn check_networks(call: &RoutedRequest<'_>, path: &str, value: &Value) -> ApiResult<()> {
    let all = match value {
        Value::Array(_) => fields::list(path, value, PARTS_MAX)?,
        Value::String(word)
            if call.version.since(37) && matches!(word.as_str(), "auto" | "none") =>
        {
            return Ok(());
        }
        other => return Err(fields::wrong(path, "a list", other)),
    };
    for (place, one) in all.iter().enumerate() {
        let path = format!("{path}[{place}]");
        let mut network = ObjectParser::new(path.as_str(), one)?;
        for key in ["uuid", "port"] {
            let text = network.nullable_text(key, 0..=255)?.flatten();
            if let Some(text) = text
                && Uuid::try_parse(text).is_err()
            {
                return Err(network.wrong(key, format!("it must be a UUID, not {text:?}")));
            }
        }
        let address = network.nullable_text("fixed_ip", 0..=64)?.flatten();
        if address.is_some_and(|address| address.parse::<IpAddr>().is_err()) {
            return Err(network.wrong("fixed_ip", "it must be an IP address"));
        }
        if call.version.since(32) {
            network.nullable_text("tag", 1..=60)?;
        }
        network.finish()?;
    }
    Ok(())
}
