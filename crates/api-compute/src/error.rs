//! Error responses in the form of the compute API, and the conversion of other errors to them.

use std::borrow::Cow;
use std::time::Duration;

use placewright_conductor::super_conductor;
use placewright_http::{ApiError, keystone_error};
use placewright_link::LinkError;
use serde_json::{Value, json};

/// The time after which a client may try again when a store or a cell did not answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A 404 for an object that does not exist, or that the caller may not see.
pub(crate) fn missing(what: &str, id: &str) -> ApiError {
    ApiError::not_found(format!("There is no {what} {id}."))
}

/// A 404 for a path that does not exist in the requested version.
pub(crate) fn path_not_found() -> ApiError {
    ApiError::not_found("The resource could not be found.")
}

/// A 503 after which the client may try again.
pub(crate) fn unavailable(message: impl Into<Cow<'static, str>>) -> ApiError {
    ApiError::unavailable(message).with_retry_after(RETRY_AFTER)
}

/// The JSON body of an error response.
pub(crate) fn body(error: &ApiError) -> Value {
    let status = error.status();
    if status == 401 {
        return keystone_error(error);
    }
    let mut body = serde_json::Map::new();
    let value = json!({"code": status, "message": error.message()});
    body.insert(error_key(status).to_owned(), value);
    Value::Object(body)
}

/// The key of the error object for a status.
///
/// Source: Compute API guide, "Faults".
fn error_key(status: u16) -> &'static str {
    match status {
        400 => "badRequest",
        403 => "forbidden",
        404 => "itemNotFound",
        405 => "badMethod",
        409 => "conflictingRequest",
        413 | 429 => "overLimit",
        415 => "badMediaType",
        501 => "notImplemented",
        503 => "serviceUnavailable",
        _ => "computeFault",
    }
}

/// The response to a refusal of the conductor for which no handler has its own message.
pub(crate) fn from_refusal(refusal: super_conductor::Refusal) -> ApiError {
    use super_conductor::Refusal;
    match refusal {
        Refusal::NotFound { what, id } => missing(what, &id),
        Refusal::TooManyBytes { most } => ApiError::forbidden(format!(
            "The records of the project's servers would have more than {most} bytes; \
             compute.project_bytes_max allows no more."
        )),
        // The message is Nova's, because clients parse it.
        Refusal::OverQuota(exceeded) => ApiError::forbidden(exceeded.to_string()),
        Refusal::TooMany { .. } | Refusal::TooManyImageBytes { .. } => {
            ApiError::forbidden(to_sentence(&refusal.to_string()))
        }
        Refusal::Exists { .. }
        | Refusal::InUse { .. }
        | Refusal::WrongState { .. }
        | Refusal::BelowUse { .. }
        | Refusal::Changed
        | Refusal::Placement(_) => ApiError::conflict(to_sentence(&refusal.to_string())),
    }
}

/// The response when a cell cannot be reached, or refuses an operation.
pub(crate) fn from_link_error(error: &LinkError) -> ApiError {
    match error {
        LinkError::Refused { why, .. } => ApiError::conflict(to_sentence(why)),
        LinkError::Unreachable { .. }
        | LinkError::TimedOut { .. }
        | LinkError::Unavailable { .. }
        | LinkError::NotLeading { .. } => unavailable(to_sentence(&error.to_string())),
    }
}

/// Makes a sentence of a text: with a capital letter at its beginning and a full stop.
pub(crate) fn to_sentence(text: &str) -> String {
    let mut chars = text.chars();
    let Some(first_letter) = chars.next() else {
        return String::new();
    };
    let mut sentence: String = first_letter.to_uppercase().chain(chars).collect();
    if !sentence.ends_with('.') {
        sentence.push('.');
    }
    sentence
}
