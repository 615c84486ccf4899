//! `GET /` and `GET /v1`: the versions of the API, and its capabilities. The responses are the same for all callers.

use hyper::HeaderMap;
use placewright_http::{ApiResult, Reply, static_document};
use serde_json::{Value, json};

use crate::capacity::SIMULATED_MAX;
use crate::destinations::{ALTERNATES_MAX, EXPLAIN_HOSTS_MAX, INSTANCES_MAX};
use crate::path::Route;

pub(crate) fn show(route: Route, headers: &HeaderMap) -> ApiResult<Reply> {
    let version = json!({
        "id": "v1",
        "status": "CURRENT",
        "links": [{"rel": "self", "href": Route::Version.path()}],
    });
    let document = match route {
        Route::Versions => json!({"versions": [version], "capabilities": capabilities()}),
        _ => json!({"version": version, "capabilities": capabilities()}),
    };
    static_document(200, &document, headers)
}

/// The capabilities of the API, with the limits of single requests.
fn capabilities() -> Value {
    let resources: Vec<&str> = Route::RESOURCES.iter().map(|route| route.path()).collect();
    json!({
        "release": env!("CARGO_PKG_VERSION"),
        "resources": resources,
        "requests_without_flavor": true,
        "group_policies": ["none", "isolate"],
        "brief_alternates": true,
        "topology_relations": ["same", "different", "spread", "near", "far"],
        "limits": {
            "instances": INSTANCES_MAX,
            "alternates": ALTERNATES_MAX,
            "explain_hosts": EXPLAIN_HOSTS_MAX,
            "capacity": SIMULATED_MAX,
        },
    })
}
