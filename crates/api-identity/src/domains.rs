//! Domains, of which there is one.

use placewright_conductor::accounts::DEFAULT_DOMAIN;
use placewright_http::{ApiResult, Reply};
use serde_json::{Value, json};

use crate::call::Call;
use crate::error;
use crate::sign_in_body::DEFAULT_DOMAIN_NAME;

/// The only domain as an object of the API.
pub(crate) fn to_json(call: &Call<'_>) -> Value {
    json!({
        "id": DEFAULT_DOMAIN,
        "name": DEFAULT_DOMAIN_NAME,
        "description": "The only domain",
        "enabled": true,
        "tags": [],
        "options": {},
        "links": {"self": call.link("/domains/default")},
    })
}

/// `GET /v3/domains`.
pub(crate) async fn list(call: &Call<'_>) -> ApiResult<Reply> {
    let passes = call.passes("name", DEFAULT_DOMAIN_NAME) && call.passes_enabled(true);
    let items = passes.then(|| to_json(call));
    call.list("domains", "/domains", items.into_iter().collect())
}

/// `GET /v3/domains/{domain_id}`.
pub(crate) async fn show(call: &Call<'_>) -> ApiResult<Reply> {
    match call.parameter("domain_id") {
        DEFAULT_DOMAIN => Reply::value(200, &json!({"domain": to_json(call)})),
        other => Err(error::missing("domain", other)),
    }
}
