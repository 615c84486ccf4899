//! Fields that several requests about servers have in common.

use std::net::IpAddr;

use base64::Engine as _;
use placewright_http::{ApiError, ApiResult};
use placewright_secrets::Secret;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;

/// The most certificates that an image may be signed with.
///
/// Source: Nova's `parameter_types.trusted_certs`.
const CERTIFICATES_MAX: usize = 50;

/// The most characters of user data, in base 64.
const USER_DATA_MAX: usize = 65_535;

/// The certificates that the image has to be signed with; they are stored and passed on.
pub(crate) fn certificates(parsed: &mut ObjectParser<'_>) -> ApiResult<Option<Vec<String>>> {
    match parsed.take("trusted_image_certificates") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let path = parsed.path_of("trusted_image_certificates");
            let all = fields::list(&path, value, CERTIFICATES_MAX)?;
            let text = |one: &Value| {
                let text = one.as_str().filter(|text| text.chars().count() <= 255)?;
                Some(text.to_owned())
            };
            let texts: Option<Vec<String>> = all.iter().map(text).collect();
            let expected = "a list of texts of at most 255 characters";
            let texts = texts.ok_or_else(|| fields::wrong(&path, expected, value))?;
            Ok(Some(texts))
        }
    }
}

pub(crate) fn read_user_data(parsed: &mut ObjectParser<'_>) -> ApiResult<Option<Secret<String>>> {
    let data = parsed
        .nullable_text("user_data", 0..=USER_DATA_MAX)?
        .flatten();
    let Some(data) = data else { return Ok(None) };
    let compact = Zeroizing::new(data.split_whitespace().collect::<String>());
    let decoded = base64::engine::general_purpose::STANDARD.decode(compact.as_str());
    match decoded.map(Zeroizing::new) {
        Ok(_) => Ok(Some(Secret::new(data.to_owned()))),
        Err(_) => Err(parsed.wrong("user_data", "it must be in base 64")),
    }
}

/// An address under which the server is reached; an empty one means none.
pub(crate) fn access_address<'a>(
    parsed: &mut ObjectParser<'a>,
    key: &'a str,
) -> ApiResult<Option<Option<String>>> {
    let Some(text) = parsed.nullable_text(key, 0..=64)? else {
        return Ok(None);
    };
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(Some(None));
    };
    let is_right = match text.parse() {
        Ok(IpAddr::V4(_)) => key == "accessIPv4",
        Ok(IpAddr::V6(_)) => key == "accessIPv6",
        Err(_) => false,
    };
    if !is_right {
        return Err(parsed.wrong(key, format!("{text:?} is no such address")));
    }
    Ok(Some(Some(text.to_owned())))
}

pub(crate) fn disk_config(parsed: &mut ObjectParser<'_>) -> ApiResult<Option<&'static str>> {
    match parsed.text("OS-DCF:diskConfig", 0..=16)? {
        None => Ok(None),
        Some("AUTO") => Ok(Some("AUTO")),
        Some("MANUAL") => Ok(Some("MANUAL")),
        Some(other) => {
            let message = format!("it must be AUTO or MANUAL, not {other:?}");
            Err(parsed.wrong("OS-DCF:diskConfig", message))
        }
    }
}

/// Checks a host name for the guest; from version 2.94 on it may contain dots.
pub(crate) fn check_hostname(call: &RoutedRequest<'_>, path: &str, name: &str) -> ApiResult<()> {
    let is_label = |label: &str| {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-';
        (1..=63).contains(&label.len())
            && label.chars().all(is_fine)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_name = if call.version.since(94) {
        name.split('.').all(is_label)
    } else {
        is_label(name)
    };
    if is_name {
        return Ok(());
    }
    let message = format!("{name:?} is no host name: letters, digits and dashes, at most 63");
    Err(ApiError::field(path, message))
}
