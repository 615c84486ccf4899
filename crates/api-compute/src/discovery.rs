//! Version discovery: how clients find the API.

use placewright_http::{ApiResult, Reply};
use serde_json::{Value, json};

use crate::admin::server_groups;
use crate::options::ComputeOptions;
use crate::routed_request::RoutedRequest;
use crate::servers::actions;
use crate::version::{NEWEST, OLDEST, Version};

/// The body at `/`: the list of versions, and the capabilities of the installation.
pub(crate) fn version_list(origin: &str, options: &ComputeOptions) -> Value {
    json!({"versions": [version_entry(origin)], "capabilities": capabilities(options)})
}

/// What the installation can do, with the limits of single requests. It is the same for all callers. A caller finds its
/// quotas at `/limits`, and its rights by trying.
fn capabilities(options: &ComputeOptions) -> Value {
    let limits = &options.limits;
    json!({
        "release": env!("CARGO_PKG_VERSION"),
        "actions": actions::OFFERED,
        // Actions that appear among the server's instance actions, so that a client can see there when they end.
        "followed_actions": actions::RECORDED,
        "server_group_policies": server_groups::POLICIES,
        "topology_rules": true,
        // Whether servers are created from control's own images, and from no others.
        "own_images": options.serves_images,
        // Whether a server can ask for networks. If control serves the Network API, it does so only to answer that
        // there are no networks, and a server cannot ask for one. If not, the drivers may provide networks.
        "networks": !options.serves_network_api,
        "limits": {
            "server_body_bytes": limits.server_body_bytes_max,
            "body_bytes": limits.body_bytes_max,
            "hint_bytes": limits.hint_bytes_max,
            // Of a query string.
            "parameters": limits.parameters_max,
            // Of a page of a list.
            "page_bytes": limits.page_bytes_max,
        },
    })
}

/// Answers at `/v2.1/{project}/` with the only version, as `/v2.1` does.
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
