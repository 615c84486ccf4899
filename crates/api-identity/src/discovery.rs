//! Version discovery: how clients find the API.

use placewright_conductor::accounts::DEFAULT_DOMAIN;
use serde_json::{Value, json};

use crate::sign_in_body::METHODS;

/// The body at `/`: the list of versions, and the capabilities of the installation, which are the same for all
/// callers.
pub(crate) fn version_list(origin: &str) -> Value {
    json!({
        "versions": {"values": [version_entry(origin)]},
        "capabilities": {
            "release": env!("CARGO_PKG_VERSION"),
            "methods": METHODS,
            "scopes": ["project", "domain", "system", "unscoped"],
            "domains": [DEFAULT_DOMAIN],
            "federation": false,
            "multi_factor": false,
            "trusts": false,
        },
    })
}

/// The body at `/v3`: the only version.
pub(crate) fn version_details(origin: &str) -> Value {
    json!({"version": version_entry(origin)})
}

fn version_entry(origin: &str) -> Value {
    json!({
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": format!("{origin}/v3/")}],
        "media-types": [{
            "base": "application/json",
            "type": "application/vnd.openstack.identity-v3+json",
        }],
    })
}
