//! The media types of bodies.

use hyper::header::{self, HeaderMap};

use crate::error::{ApiError, ApiResult};

const JSON: &str = "application/json";

/// The content type of a request; empty if the request names none.
#[must_use]
pub fn content_type(headers: &HeaderMap) -> &str {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("")
}

/// Checks that a request declares its body as JSON.
///
/// # Errors
///
/// 415.
pub fn require_json(headers: &HeaderMap) -> ApiResult<()> {
    match content_type(headers).split(';').next().unwrap_or("") {
        JSON => Ok(()),
        other => {
            let other = if other.is_empty() { "None" } else { other };
            Err(ApiError::new(
                415,
                format!("The media type {other} is not supported, use {JSON}"),
            ))
        }
    }
}
