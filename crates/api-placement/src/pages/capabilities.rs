//! `/placewright/v1/capabilities`: what the service can do. The document at `/` has the form of the reference, in which
//! there is no room for capabilities, so they have a path of their own.

use hyper::HeaderMap;
use placewright_http::{ApiResult, Query, Reply, static_document};
use serde_json::json;

use super::check_parameters;
use crate::microversion::Microversion;
use crate::options::PlacementOptions;

/// The document, which is the same for all callers. It does not depend on the rights of the caller.
pub(super) fn show(
    query: &Query<'_>,
    headers: &HeaderMap,
    (options, pages): (&PlacementOptions, &[&str]),
) -> ApiResult<Reply> {
    check_parameters(query, &[])?;
    let document = json!({
        "capabilities": {
            "release": env!("CARGO_PKG_VERSION"),
            "min_version": Microversion::MIN.to_string(),
            "max_version": Microversion::MAX.to_string(),
            "pages": pages,
            "limits": {
                "entries": options.entries_max,
                "groups": options.groups_max,
                "candidates": options.candidates.candidates_max,
                "followers": options.followers_max,
            },
        },
    });
    static_document(200, &document, headers)
}
