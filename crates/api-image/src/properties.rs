//! The properties of images: their limits, and the values of those that the scheduler reads.

use std::collections::BTreeMap;

use placewright_http::{ApiError, ApiResult};
use placewright_types::image::ImageProperties;

use crate::options::{NAME_CHARS_MAX, PROPERTIES_BYTES_MAX, PROPERTIES_MAX};

/// Checks all properties of an image together.
///
/// # Errors
///
/// 413 when there are too many or they are too long, 400 for a property with which no server could be built.
pub(crate) fn check(properties: &BTreeMap<String, String>) -> ApiResult<()> {
    if properties.len() > PROPERTIES_MAX {
        return Err(ApiError::too_large(format!(
            "The image would have {} properties; it may have {PROPERTIES_MAX}.",
            properties.len()
        )));
    }
    let bytes: usize = properties
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if bytes > PROPERTIES_BYTES_MAX {
        return Err(ApiError::too_large(format!(
            "The properties of the image would have {bytes} bytes; they may have \
             {PROPERTIES_BYTES_MAX}."
        )));
    }
    let all = properties
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()));
    match ImageProperties::new(all) {
        Ok(_) => Ok(()),
        Err(error) => Err(ApiError::bad_request(format!("{error}.")).with_field(error.field())),
    }
}

/// Checks the name of a property.
///
/// # Errors
///
/// 400 if the name is empty, too long, or has control characters.
pub(crate) fn check_name(name: &str) -> ApiResult<()> {
    let length = name.chars().count();
    if (1..=NAME_CHARS_MAX).contains(&length) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let message = format!("the name of a property must have 1 to {NAME_CHARS_MAX} characters");
    Err(ApiError::field("properties", message))
}
