//! Parsing of fields that several requests for servers have.

use std::net::IpAddr;

use base64::Engine as _;
use placewright_http::{ApiError, ApiResult};
use placewright_secrets::Secret;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;

/// The maximum number of certificates that may be required for an image.
///
/// Source: Nova's `parameter_types.trusted_certs`.
const CERTIFICATES_MAX: usize = 50;

/// The maximum length of user data, in characters of base 64.
const USER_DATA_CHARS_MAX: usize = 65_535;

/// Parses the ids of the certificates with which the image has to be signed. The ids are only stored and
/// passed on.
pub(crate) fn parse_certificates(parser: &mut ObjectParser<'_>) -> ApiResult<Option<Vec<String>>> {
    match parser.take("trusted_image_certificates") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let path = parser.path_of("trusted_image_certificates");
            let items = fields::parse_list(&path, value, CERTIFICATES_MAX)?;
            let text = |item: &Value| {
                let text = item.as_str().filter(|text| text.chars().count() <= 255)?;
                Some(text.to_owned())
            };
            let texts: Option<Vec<String>> = items.iter().map(text).collect();
            let expected = "a list of texts of at most 255 characters";
            let texts = texts.ok_or_else(|| fields::type_error(&path, expected, value))?;
            Ok(Some(texts))
        }
    }
}

/// Parses user data, which is checked to be base 64 and kept encoded. `None` if the field is missing or null.
pub(crate) fn parse_user_data(parser: &mut ObjectParser<'_>) -> ApiResult<Option<Secret<String>>> {
    let data = parser
        .nullable_text("user_data", 0..=USER_DATA_CHARS_MAX)?
        .flatten();
    let Some(data) = data else { return Ok(None) };
    let without_blanks = Zeroizing::new(data.split_whitespace().collect::<String>());
    let decoded = base64::engine::general_purpose::STANDARD.decode(without_blanks.as_str());
    match decoded.map(Zeroizing::new) {
        Ok(_) => Ok(Some(Secret::new(data.to_owned()))),
        Err(_) => Err(parser.field_error("user_data", "it must be in base 64")),
    }
}

/// Parses an address under which the server is reached. A field that is null or an empty text removes the address:
/// `Some(None)`. A missing field is `None`.
pub(crate) fn parse_address<'a>(
    parser: &mut ObjectParser<'a>,
    key: &'a str,
) -> ApiResult<Option<Option<String>>> {
    let Some(text) = parser.nullable_text(key, 0..=64)? else {
        return Ok(None);
    };
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(Some(None));
    };
    let is_of_family = match text.parse() {
        Ok(IpAddr::V4(_)) => key == "accessIPv4",
        Ok(IpAddr::V6(_)) => key == "accessIPv6",
        Err(_) => false,
    };
    if !is_of_family {
        return Err(parser.field_error(key, format!("{text:?} is no such address")));
    }
    Ok(Some(Some(text.to_owned())))
}

pub(crate) fn parse_disk_config(parser: &mut ObjectParser<'_>) -> ApiResult<Option<&'static str>> {
    match parser.text("OS-DCF:diskConfig", 0..=16)? {
        None => Ok(None),
        Some("AUTO") => Ok(Some("AUTO")),
        Some("MANUAL") => Ok(Some("MANUAL")),
        Some(other) => {
            let message = format!("it must be AUTO or MANUAL, not {other:?}");
            Err(parser.field_error("OS-DCF:diskConfig", message))
        }
    }
}

/// Checks the host name of a guest. From version 2.94 on the name may contain dots.
pub(crate) fn check_hostname(request: &RoutedRequest<'_>, path: &str, name: &str) -> ApiResult<()> {
    let is_label = |label: &str| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
        (1..=63).contains(&label.len())
            && label.chars().all(is_allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_valid = if request.version.since(94) {
        name.split('.').all(is_label)
    } else {
        is_label(name)
    };
    if is_valid {
        return Ok(());
    }
    let message = format!("{name:?} is no host name: letters, digits and dashes, at most 63");
    Err(ApiError::field(path, message))
}
