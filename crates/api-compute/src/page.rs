//! Pagination of lists: limit, marker, and the link to the next page.

use placewright_http::{ApiError, ApiResult};
use serde_json::{Value, json};

use crate::routed_request::RoutedRequest;

/// The maximum number of items on a page, which is also the default.
pub(crate) const LIMIT_MAX: usize = 1000;

/// The maximum number of items on the requested page.
pub(crate) fn limit(request: &RoutedRequest<'_>) -> ApiResult<usize> {
    Ok(request
        .query
        .number("limit")?
        .unwrap_or(LIMIT_MAX)
        .min(LIMIT_MAX))
}

/// The requested page of a list: the items after the marker, up to the limit.
///
/// # Errors
///
/// 400 when no item has the marker.
pub(crate) fn paginate<T>(
    request: &RoutedRequest<'_>,
    mut items: Vec<T>,
    is_marker: impl Fn(&T, &str) -> bool,
) -> ApiResult<Vec<T>> {
    if let Some(marker) = request.query.get("marker") {
        let position = items.iter().position(|item| is_marker(item, marker));
        let position = position.ok_or_else(|| unknown_marker(marker))?;
        items.drain(..=position);
    }
    items.truncate(limit(request)?);
    Ok(items)
}

/// A 400 about a marker that no item has.
pub(crate) fn unknown_marker(marker: &str) -> ApiError {
    ApiError::field("marker", format!("nothing in the list has it: {marker}"))
}

/// The link to the next page, if this one is full. `last_id` is the marker in the link.
pub(crate) fn next_link(
    request: &RoutedRequest<'_>,
    path: &str,
    shown_count: usize,
    last_id: &str,
) -> ApiResult<Option<Value>> {
    if shown_count == 0 || shown_count < limit(request)? {
        return Ok(None);
    }
    Ok(Some(link_after(request, path, last_id)))
}

/// The link to the page that begins after the item `last_id`.
pub(crate) fn link_after(request: &RoutedRequest<'_>, path: &str, last_id: &str) -> Value {
    let query = request.query.with_parameter("marker", last_id);
    let href = format!("{}?{query}", request.link(path));
    json!([{"rel": "next", "href": href}])
}
