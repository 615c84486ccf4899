//! The documents in which the service describes itself: its versions, import methods and limits.

use placewright_auth::Rule;
use placewright_http::{ApiResult, Reply};
use serde_json::{Value, json};

use crate::options::{self, ImageOptions};
use crate::request::RoutedRequest;

/// The minor number of the newest version that is offered: the last one without stores, which this service does not
/// have.
const NEWEST: u8 = 7;

/// The list of versions, and the capabilities of the installation, which are the same for all callers.
pub(crate) fn versions(origin: &str, options: &ImageOptions) -> Value {
    let version = |number: u8| {
        json!({
            "id": format!("v2.{number}"),
            "status": if number == NEWEST { "CURRENT" } else { "SUPPORTED" },
            "links": [{"rel": "self", "href": format!("{origin}/v2/")}],
        })
    };
    let versions: Vec<Value> = (0..=NEWEST).rev().map(version).collect();
    json!({"versions": versions, "capabilities": capabilities(options)})
}

/// The capabilities of the service, with the limits of single images. The limits and the usage of the caller's
/// project are at `/v2/info/usage`.
fn capabilities(options: &ImageOptions) -> Value {
    json!({
        "release": env!("CARGO_PKG_VERSION"),
        "import_methods": [],
        "sharing": true,
        "tasks": false,
        "limits": {
            "image_bytes": options.limits.image_bytes_max,
            "body_bytes": options::BODY_BYTES_MAX,
            "properties": options::PROPERTIES_MAX,
            "tags": options::TAGS_MAX,
            "members": options::MEMBERS_MAX,
        },
    })
}

/// `GET /v2/info/import`: images are uploaded, never fetched from elsewhere.
pub(crate) fn imports() -> Value {
    json!({"import-methods": {
        "description": "Import methods available.",
        "type": "array",
        "value": [],
    }})
}

/// `GET /v2/info/usage`: the usage and the limits of the caller's project, in images and MiB.
pub(crate) async fn usage(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ImagesIndex, request.project())?;
    let project = request.project();
    let used = request.read(|state| state.conductor.listing().image_usage(project));
    let (used, limits) = (used.await, &request.api_state.options.limits);
    Reply::value(
        200,
        &json!({"usage": {
            "image_count_total": {"limit": limits.images_max, "usage": used.count},
            "image_size_total": {
                "limit": limits.project_bytes_max >> 20,
                "usage": used.bytes.div_ceil(1 << 20),
            },
        }}),
    )
}
