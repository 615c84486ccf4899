//! The attributes of images: which of them clients may set, and to which values.

use std::collections::BTreeSet;

use placewright_conductor::super_conductor::{Image, Visibility};
use placewright_http::{ApiError, ApiResult};
use serde_json::Value;

use crate::options::{NAME_CHARS_MAX, TAGS_MAX};
use crate::properties;

/// The formats of a container that the API knows.
const CONTAINER_FORMATS: [&str; 8] = [
    "ami",
    "ari",
    "aki",
    "bare",
    "ovf",
    "ova",
    "docker",
    "compressed",
];

/// The formats of a disk that the API knows.
const DISK_FORMATS: [&str; 11] = [
    "ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop",
];

/// The attributes that only the service sets.
pub(crate) const READ_ONLY: [&str; 15] = [
    "checksum",
    "created_at",
    "direct_url",
    "file",
    "id",
    "locations",
    "os_hash_algo",
    "os_hash_value",
    "schema",
    "self",
    "size",
    "status",
    "stores",
    "updated_at",
    "virtual_size",
];

/// The attributes that clients set. A name that is neither in this list nor in [`READ_ONLY`] is that of a property.
pub(crate) const BASE: [&str; 10] = [
    "name",
    "visibility",
    "protected",
    "os_hidden",
    "container_format",
    "disk_format",
    "min_disk",
    "min_ram",
    "tags",
    "owner",
];

/// Sets the attribute or property of this name to a value that the client sent.
///
/// # Errors
///
/// 403 for an attribute that only the service sets, and for a format once the image has its bytes; 400 for a value that
/// is not allowed; 413 for too many tags. The errors about a single attribute or property name it.
pub(crate) fn set(image: &mut Image, name: &str, value: &Value) -> ApiResult<()> {
    if READ_ONLY.contains(&name) {
        return Err(read_only(name));
    }
    match name {
        "name" => image.name = nullable_text(name, value)?.map(str::to_owned),
        "visibility" => image.visibility = visibility(value)?,
        "protected" => image.is_protected = boolean(name, value)?,
        "os_hidden" => image.is_hidden = boolean(name, value)?,
        "container_format" => {
            let format = format(name, value, &CONTAINER_FORMATS)?;
            check_queued(image, name)?;
            image.container_format = format;
        }
        "disk_format" => {
            let format = format(name, value, &DISK_FORMATS)?;
            check_queued(image, name)?;
            image.disk_format = format;
        }
        "min_disk" => image.min_disk_gb = integer(name, value)?,
        "min_ram" => image.min_ram_mb = integer(name, value)?,
        "tags" => image.tags = tags(value)?,
        "owner" => image.owner = text(name, value)?.to_owned(),
        property => {
            properties::check_name(property)?;
            let value = value
                .as_str()
                .ok_or_else(|| wrong_type(property, "a text", value))?;
            image
                .properties
                .insert(property.to_owned(), value.to_owned());
        }
    }
    Ok(())
}

/// The error for an attribute that only the service sets.
pub(crate) fn read_only(name: &str) -> ApiError {
    ApiError::forbidden(format!("{name}: it is set by the service, not by clients."))
        .with_field(name)
}

/// The visibility that a text names.
///
/// # Errors
///
/// 400 if the text names no visibility.
pub(crate) fn parse_visibility(text: &str) -> ApiResult<Visibility> {
    match text {
        "private" => Ok(Visibility::Private),
        "shared" => Ok(Visibility::Shared),
        "community" => Ok(Visibility::Community),
        "public" => Ok(Visibility::Public),
        other => Err(ApiError::field(
            "visibility",
            format!("it must be private, shared, community or public, not {other:?}"),
        )),
    }
}

/// Checks a tag.
///
/// # Errors
///
/// 400 if the tag is empty or too long.
pub(crate) fn check_tag(tag: &str) -> ApiResult<()> {
    if (1..=NAME_CHARS_MAX).contains(&tag.chars().count()) {
        return Ok(());
    }
    let message = format!("a tag must have 1 to {NAME_CHARS_MAX} characters");
    Err(ApiError::field("tags", message))
}

/// Checks how many tags an image would have.
///
/// # Errors
///
/// 413 if there are too many.
pub(crate) fn check_tag_count(tags: &BTreeSet<String>) -> ApiResult<()> {
    if tags.len() <= TAGS_MAX {
        return Ok(());
    }
    let count = tags.len();
    Err(ApiError::too_large(format!(
        "The image would have {count} tags; it may have {TAGS_MAX}."
    )))
}

/// Checks that an image has no bytes yet.
fn check_queued(image: &Image, name: &str) -> ApiResult<()> {
    if image.content.is_none() {
        return Ok(());
    }
    Err(ApiError::forbidden(format!(
        "{name}: it cannot change any more, because the image has its bytes."
    )))
}

fn visibility(value: &Value) -> ApiResult<Visibility> {
    parse_visibility(text("visibility", value)?)
}

fn tags(value: &Value) -> ApiResult<BTreeSet<String>> {
    let items = value
        .as_array()
        .ok_or_else(|| wrong_type("tags", "a list", value))?;
    let mut tags = BTreeSet::new();
    for item in items {
        let tag = item
            .as_str()
            .ok_or_else(|| wrong_type("tags", "a list of texts", value))?;
        check_tag(tag)?;
        tags.insert(tag.to_owned());
        check_tag_count(&tags)?;
    }
    Ok(tags)
}

fn text<'v>(name: &str, value: &'v Value) -> ApiResult<&'v str> {
    let text = value
        .as_str()
        .ok_or_else(|| wrong_type(name, "a text", value))?;
    if text.chars().count() > NAME_CHARS_MAX {
        let message = format!("it must have at most {NAME_CHARS_MAX} characters");
        return Err(ApiError::field(name, message));
    }
    Ok(text)
}

fn nullable_text<'v>(name: &str, value: &'v Value) -> ApiResult<Option<&'v str>> {
    match value {
        Value::Null => Ok(None),
        value => text(name, value).map(Some),
    }
}

fn format(name: &str, value: &Value, known: &[&str]) -> ApiResult<Option<String>> {
    match nullable_text(name, value)? {
        Some(format) if !known.contains(&format) => {
            let message = format!("it must be one of {}, not {format:?}", known.join(", "));
            Err(ApiError::field(name, message))
        }
        format => Ok(format.map(str::to_owned)),
    }
}

fn boolean(name: &str, value: &Value) -> ApiResult<bool> {
    value
        .as_bool()
        .ok_or_else(|| wrong_type(name, "true or false", value))
}

fn integer(name: &str, value: &Value) -> ApiResult<u32> {
    let number = value.as_u64().and_then(|number| i32::try_from(number).ok());
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| wrong_type(name, "a whole number from 0 to 2147483647", value))
}

/// A 400 for a value of the wrong type, with the beginning of the value.
pub(crate) fn wrong_type(name: &str, expected: &str, value: &Value) -> ApiError {
    let mut found = value.to_string();
    if let Some((end, _)) = found.char_indices().nth(80) {
        found.truncate(end);
        found.push('…');
    }
    ApiError::field(name, format!("it must be {expected}, not {found}"))
}
