//! Version discovery: how clients find the API.

use placewright_http::{ApiResult, Reply};
use serde_json::{Value, json};

use crate::routed_request::RoutedRequest;
use crate::version::{NEWEST, OLDEST, Version};

/// The list of versions, at `/`.
pub(crate) fn list(origin: &str) -> Value {
    json!({"versions": [version(origin)]})
}

/// The only version, at `/v2.1`.
pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    Reply::value(200, &one(call.origin))
}

pub(crate) fn one(origin: &str) -> Value {
    let mut version = version(origin);
    version["media-types"] = json!([{
        "base": "application/json",
        "type": "application/vnd.openstack.compute+json;version=2.1",
    }]);
    json!({"version": version})
}

fn version(origin: &str) -> Value {
    json!({
        "id": "v2.1",
        "status": "CURRENT",
        "version": Version(NEWEST).to_string(),
        "min_version": Version(OLDEST).to_string(),
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": format!("{origin}/v2.1/")}],
    })
}
