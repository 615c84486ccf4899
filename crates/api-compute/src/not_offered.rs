//! Paths of the Compute API that clients know and that are not served: consoles, diagnostics, passwords, usage over
//! time, and ports and volumes that are attached later. They are answered with 501 and the reason, so that a client can
//! tell them from an object that is not there.

use placewright_auth::Rule;
use placewright_http::{ApiError, ApiResult, Reply};

use crate::routed_request::RoutedRequest;
use crate::servers;

/// Rejects a request for a resource of one server, such as its console, that is not offered.
///
/// # Errors
///
/// Always: 404 if the caller sees no such server, 403 if the caller may not show servers, 501 otherwise.
pub(crate) async fn with_server(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let reading = request.read(|control, views| {
        servers::find(request, control, views, Rule::ServersShow).map(|_| ())
    });
    reading.await?;
    Err(ApiError::not_implemented(
        "This is not offered: servers are placed, moved and shown here, no more.",
    ))
}

/// Rejects a request whose path names no server, such as one for the usage of projects over time.
///
/// # Errors
///
/// Always: 501.
pub(crate) async fn without_server(_: &RoutedRequest<'_>) -> ApiResult<Reply> {
    Err(ApiError::not_implemented(
        "This is not offered. docs/compute-api.md lists what is.",
    ))
}
