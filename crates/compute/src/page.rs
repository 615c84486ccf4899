//! Lists in pages: how long one is, where it begins, where the next is.

use serde_json::{Value, json};

use crate::call::Call;
use crate::error::{ApiError, ApiResult};

/// No page is longer.
pub(crate) const LIMIT_MAX: usize = 1000;

/// How many to show.
pub(crate) fn limit(call: &Call<'_>) -> ApiResult<usize> {
    Ok(call
        .query
        .number("limit")?
        .unwrap_or(LIMIT_MAX)
        .min(LIMIT_MAX))
}

/// The rest after the marker, cut to the limit.
///
/// # Errors
/// 400 when nothing has the marker.
pub(crate) fn cut<T>(
    call: &Call<'_>,
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
    call: &Call<'_>,
    path: &str,
    shown: usize,
    last: &str,
) -> ApiResult<Option<Value>> {
    if shown == 0 || shown < limit(call)? {
        return Ok(None);
    }
    Ok(Some(link(call, path, last)))
}

/// The link to what comes behind the last that is shown.
pub(crate) fn link(call: &Call<'_>, path: &str, last: &str) -> Value {
    let query = call.query.with("marker", last);
    let href = format!("{}?{query}", call.link(path));
    json!([{"rel": "next", "href": href}])
}
