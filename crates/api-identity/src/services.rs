//! The catalog as objects: services, endpoints and the region. They come from the configuration, and requests cannot
//! change them.

use placewright_http::{ApiResult, Reply};
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::error;

/// `GET /v3/services`.
pub(crate) async fn list(call: &Call<'_>) -> ApiResult<Reply> {
    let mut items = call.api_state.catalog.services(&call.head.origin);
    items.retain(|item| passes(call, item, "type") && passes(call, item, "name"));
    call.list("services", "/services", items)
}

/// `GET /v3/services/{service_id}`.
pub(crate) async fn show(call: &Call<'_>) -> ApiResult<Reply> {
    let items = call.api_state.catalog.services(&call.head.origin);
    one("service", call.parameter("service_id"), items)
}

/// `GET /v3/endpoints`.
pub(crate) async fn endpoints(call: &Call<'_>) -> ApiResult<Reply> {
    let mut items = all_endpoints(call);
    let keys = ["service_id", "interface", "region", "region_id"];
    items.retain(|item| keys.iter().all(|key| passes(call, item, key)));
    call.list("endpoints", "/endpoints", items)
}

/// `GET /v3/endpoints/{endpoint_id}`.
pub(crate) async fn endpoint(call: &Call<'_>) -> ApiResult<Reply> {
    one(
        "endpoint",
        call.parameter("endpoint_id"),
        all_endpoints(call),
    )
}

/// `GET /v3/regions`.
pub(crate) async fn regions(call: &Call<'_>) -> ApiResult<Reply> {
    let region = call.api_state.catalog.region(&call.head.origin);
    call.list("regions", "/regions", vec![region])
}

/// `GET /v3/regions/{region_id}`.
pub(crate) async fn region(call: &Call<'_>) -> ApiResult<Reply> {
    let region = call.api_state.catalog.region(&call.head.origin);
    one("region", call.parameter("region_id"), vec![region])
}

fn all_endpoints(call: &Call<'_>) -> Vec<Value> {
    let head = call.head;
    call.api_state.catalog.endpoints(&head.origin, &head.host)
}

fn passes(call: &Call<'_>, item: &Value, key: &str) -> bool {
    item.get(key)
        .and_then(Value::as_str)
        .is_some_and(|value| call.passes(key, value))
}

/// The response with the object of a list that has this id.
fn one(what: &str, id: &str, items: Vec<Value>) -> ApiResult<Reply> {
    let found = items.into_iter().find(|item| item["id"] == id);
    let found = found.ok_or_else(|| error::missing(what, id))?;
    let mut body = Map::new();
    body.insert(what.to_owned(), found);
    Reply::value(200, &json!(body))
}
