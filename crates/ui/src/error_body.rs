//! The form of the errors of the page's own API.

use placewright_http::{ApiError, reason_phrase};
use serde_json::json;

/// The JSON body of an error.
pub(crate) fn error_body(error: &ApiError) -> Vec<u8> {
    let detail = match error.detail() {
        "" => reason_phrase(error.status()),
        detail => detail,
    };
    let body = json!({"error": {"code": error.status(), "message": detail}});
    body.to_string().into_bytes()
}
