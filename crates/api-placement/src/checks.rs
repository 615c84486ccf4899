//! Checks of a request's head, in the order of the reference.

use hyper::header::{self, HeaderMap};
use hyper::http::request::Parts;
use placewright_http::{ApiError, ApiResult, content_type, require_json};

use crate::accept::Accept;
use crate::microversion::{self, Microversion, VersionError};
use crate::routes::{HeaderRequirements, Operation, Route, RouteEntry};

const JSON: &str = "application/json";

/// The microversion that the headers ask for.
///
/// # Errors
///
/// 400 for a malformed version, 406 for an unsupported one.
pub(crate) fn negotiate_version(headers: &HeaderMap) -> ApiResult<Microversion> {
    microversion::negotiate(headers).map_err(|error| {
        let status = match error {
            VersionError::Malformed { .. } => 400,
            VersionError::Unacceptable(_) => 406,
        };
        ApiError::new(status, format!("Invalid microversion: {error}")).without_vary()
    })
}

/// Rejects a body without a content type, even for a handler that ignores bodies.
pub(crate) fn check_content_type_of_body(headers: &HeaderMap) -> ApiResult<()> {
    let length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    let has_body = length.is_some_and(|length| length.trim().parse::<u64>() != Ok(0));
    if has_body && content_type(headers).is_empty() {
        return Err(
            ApiError::bad_request("content-type header required when content-length > 0")
                .without_vary(),
        );
    }
    Ok(())
}

/// The operation of a method in a version.
///
/// # Errors
///
/// 405 for a method that no version of the route has. For a method that only other versions have: 404, or the status
/// that the reference returns as an exception.
pub(crate) fn choose_operation(
    entry: &'static RouteEntry,
    parts: &Parts,
    version: Microversion,
) -> ApiResult<&'static Operation> {
    let method = parts.method.as_str();
    let (operation, method_exists) = entry.operation(method, version);
    if let Some(operation) = operation {
        return Ok(operation);
    }
    if !method_exists {
        let detail = "The method specified is not allowed for this resource.";
        return Err(ApiError::new(405, detail).with_allow(entry.allow));
    }
    if entry.route == Route::Aggregates {
        // For this route the reference checks the headers before the version.
        let operation = entry
            .operations
            .iter()
            .find(|operation| operation.method == method);
        check_header_requirements(
            operation.map_or(HeaderRequirements::Nothing, |operation| {
                operation.header_requirements
            }),
            &parts.headers,
        )?;
    }
    // A method that the version lacks gets 404. As in the reference, there is one exception.
    let status = match (entry.route, method) {
        (Route::Inventories, "DELETE") => 405,
        _ => 404,
    };
    Err(ApiError::new(status, ""))
}

/// Checks that the headers meet the requirements of an operation.
///
/// # Errors
///
/// 406 if the response may not be JSON, 415 if the body is not JSON.
pub(crate) fn check_header_requirements(
    requirements: HeaderRequirements,
    headers: &HeaderMap,
) -> ApiResult<()> {
    match requirements {
        HeaderRequirements::Nothing => Ok(()),
        HeaderRequirements::AcceptJson => {
            if Accept::parse(Some(&accept_text(headers))).accepts(JSON) {
                return Ok(());
            }
            Err(ApiError::new(406, "Only application/json is provided"))
        }
        HeaderRequirements::JsonBody => require_json(headers),
    }
}

/// The `Accept` headers as one text; a missing or empty one, and `*/*`, stand for JSON. A value that is not
/// ASCII becomes `?`, which is no media range, so that the header is not valid.
pub(crate) fn accept_text(headers: &HeaderMap) -> String {
    let mut values = headers
        .get_all(header::ACCEPT)
        .iter()
        .map(|value| value.to_str());
    let text = match (values.next(), values.next()) {
        (None, _) => return JSON.to_owned(),
        (Some(value), None) => value.unwrap_or("?").to_owned(),
        (Some(first), Some(second)) => {
            let all_values = [first, second].into_iter().chain(values);
            all_values
                .map(|value| value.unwrap_or("?"))
                .collect::<Vec<_>>()
                .join(",")
        }
    };
    if text.is_empty() || text == "*/*" {
        JSON.to_owned()
    } else {
        text
    }
}
