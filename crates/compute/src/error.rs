//! Error responses, in the form of the compute API.

use std::borrow::Cow;

use placewright_conductor::super_conductor;
use placewright_link::LinkError;
use placewright_server::Denied;
use serde_json::{Value, json};

/// An error response. The request has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    pub(crate) message: Cow<'static, str>,
    pub(crate) challenge: Option<String>,
    pub(crate) retry_after_s: Option<u64>,
}

/// The result of a handler, or the error response.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(status: u16, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            message: message.into(),
            challenge: None,
            retry_after_s: None,
        }
    }

    pub(crate) fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, message)
    }

    /// A 400 that names the wrong field of a body or query.
    pub(crate) fn field(field: &str, message: impl std::fmt::Display) -> Self {
        Self::new(400, format!("{field}: {message}"))
    }

    pub(crate) fn forbidden(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(403, message)
    }

    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        Self::new(404, format!("There is no {what} {id}."))
    }

    /// A 404 for a path that does not exist in the requested version.
    pub(crate) fn nothing_here() -> Self {
        Self::new(404, "The resource could not be found.")
    }

    pub(crate) fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(409, message)
    }

    pub(crate) fn too_large(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(413, message)
    }

    pub(crate) fn not_implemented(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(501, message)
    }

    pub(crate) fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            retry_after_s: Some(1),
            ..Self::new(503, message)
        }
    }

    /// The JSON body of the response.
    pub(crate) fn body(&self) -> Value {
        if self.status == 401 {
            // In other clouds a proxy in front of the API answers these, in this form.
            return json!({"error": {
                "code": 401, "title": "Unauthorized", "message": self.message,
            }});
        }
        let mut body = serde_json::Map::new();
        let value = json!({"code": self.status, "message": self.message});
        body.insert(kind(self.status).to_owned(), value);
        Value::Object(body)
    }
}

/// The key of the error object for a status.
///
/// Source: Compute API guide, "Faults".
fn kind(status: u16) -> &'static str {
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

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        Self {
            status: denied.status,
            message: denied.message.into(),
            challenge: denied.challenge,
            retry_after_s: denied.retry_after_s,
        }
    }
}

/// The response to a refusal of the conductor for which no handler has its own message.
impl From<super_conductor::Refusal> for ApiError {
    fn from(refusal: super_conductor::Refusal) -> Self {
        use super_conductor::Refusal;
        match refusal {
            Refusal::NotFound { what, id } => Self::not_found(what, &id),
            Refusal::TooManyBytes { most } => Self::forbidden(format!(
                "The records of the project's servers would have more than {most} bytes; \
                 compute.project_bytes_max allows no more."
            )),
            Refusal::TooMany { .. } => Self::forbidden(sentence(&refusal.to_string())),
            Refusal::Exists { .. }
            | Refusal::InUse { .. }
            | Refusal::WrongState { .. }
            | Refusal::Changed
            | Refusal::Placement(_) => Self::conflict(sentence(&refusal.to_string())),
        }
    }
}

impl From<LinkError> for ApiError {
    fn from(error: LinkError) -> Self {
        match &error {
            LinkError::Refused { why, .. } => Self::conflict(sentence(why)),
            LinkError::Unreachable { .. }
            | LinkError::TimedOut { .. }
            | LinkError::Unavailable { .. } => Self::unavailable(sentence(&error.to_string())),
        }
    }
}

/// Makes a text a sentence: with a capital letter and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let Some(first) = letters.next() else {
        return String::new();
    };
    let mut sentence: String = first.to_uppercase().chain(letters).collect();
    if !sentence.ends_with('.') {
        sentence.push('.');
    }
    sentence
}
