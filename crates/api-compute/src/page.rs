//! Pagination of lists: limit, marker, and the link to the next page.

use placewright_http::{ApiError, ApiResult};
use serde_json::{Value, json};

use crate::routed_request::RoutedRequest;

/// The most items of a page, and the default limit.
pub(crate) const LIMIT_MAX: usize = 1000;

/// The number of items that a request wants on a page.
pub(crate) fn limit(call: &RoutedRequest<'_>) -> ApiResult<usize> {
    Ok(call
        .query
        .number("limit")?
        .unwrap_or(LIMIT_MAX)
        .min(LIMIT_MAX))
}

/// The items after the marker, up to the limit.
///
/// # Errors
///
/// 400 when no item has the marker.
pub(crate) fn cut<T>(
    call: &RoutedRequest<'_>,
    mut all: Vec<T>,
    is_marker: impl Fn(&T, &str) -> bool,
) -> ApiResult<Vec<T>> {
    if let Some(marker) = call.query.get("marker") {
        let found = all.iter().position(|one| is_marker(one, marker));
        let found = found.ok_or_else(|| no_marker(marker))?;
        all.drain(..=found);
    }
    all.truncate(limit(call)?);
    Ok(all)
}

pub(crate) fn no_marker(marker: &str) -> ApiError {
    ApiError::field("marker", format!("nothing in the list has it: {marker}"))
}

/// The link to the next page, if this one is full.
pub(crate) fn next(
    call: &RoutedRequest<'_>,
    path: &str,
    shown: usize,
    last: &str,
) -> ApiResult<Option<Value>> {
    if shown == 0 || shown < limit(call)? {
        return Ok(None);
    }
    Ok(Some(link(call, path, last)))
}

/// The link to the page that begins after the item `last`.
pub(crate) fn link(call: &RoutedRequest<'_>, path: &str, last: &str) -> Value {
    let query = call.query.with("marker", last);
    let href = format!("{}?{query}", call.link(path));
    json!([{"rel": "next", "href": href}])
}
