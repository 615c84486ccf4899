//! Version discovery: how clients find the API.

use placewright_http::{ApiResult, Reply};
use serde_json::{Value, json};

use crate::routed_request::RoutedRequest;
use crate::version::{NEWEST, OLDEST, Version};

/// The body at `/`: the list of versions.
pub(crate) fn version_list(origin: &str) -> Value {
    json!({"versions": [version_entry(origin)]})
}

/// Answers with the only version, as `/v2.1` does.
pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    Reply::value(200, &version_details(request.origin))
}

/// The body at `/v2.1`: the only version.
pub(crate) fn version_details(origin: &str) -> Value {
    let mut version = version_entry(origin);
    version["media-types"] = json!([{
        "base": "application/json",
        "type": "application/vnd.openstack.compute+json;version=2.1",
    }]);
    json!({"version": version})
}

fn version_entry(origin: &str) -> Value {
    json!({
        "id": "v2.1",
        "status": "CURRENT",
        "version": Version(NEWEST).to_string(),
        "min_version": Version(OLDEST).to_string(),
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": format!("{origin}/v2.1/")}],
    })
}
