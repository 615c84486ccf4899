//! The form of errors, for the services whose errors are JSON.

use hyper::Method;
use hyper::http::request::Parts;
use serde_json::{Value, json};

use crate::error::{ApiError, reason_phrase};
use crate::request_context::RequestContext;

/// The body of an error of a service whose errors are JSON, and its content type. `value` makes the JSON.
pub fn json_error_body<V: Copy>(
    parts: &Parts,
    error: &ApiError,
    context: &RequestContext<V>,
    value: impl FnOnce(&ApiError) -> Value,
) -> (Vec<u8>, Option<&'static str>) {
    // The pages that every service has, such as `/metrics`, have errors in plain text.
    if context.is_page() {
        return (error.detail().as_bytes().to_vec(), None);
    }
    let body = if parts.method == Method::HEAD {
        Vec::new()
    } else {
        value(error).to_string().into_bytes()
    };
    (body, Some("application/json"))
}

/// An error in the form of Keystone and of its middleware, to which OpenStack's services leave authentication. Clients
/// of all services expect a 401 in this form.
#[must_use]
pub fn keystone_error(error: &ApiError) -> Value {
    let status = error.status();
    json!({"error": {
        "code": status, "title": reason_phrase(status), "message": error.message(),
    }})
}
