//! Lists: their form, and the filters that all of them have.

use placewright_conductor::accounts::DEFAULT_DOMAIN;
use placewright_http::{ApiResult, Reply};
use serde_json::{Map, Value, json};

use crate::call::Call;

impl Call<'_> {
    /// The response with a list: the items, and the links of a list that has one page.
    pub(crate) fn list(&self, key: &str, path: &str, items: Vec<Value>) -> ApiResult<Reply> {
        let mut body = Map::new();
        body.insert(key.to_owned(), Value::Array(items));
        let link = self.link(path);
        body.insert(
            "links".to_owned(),
            json!({"self": link, "next": null, "previous": null}),
        );
        Reply::value(200, &Value::Object(body))
    }

    /// Whether a text passes the filter of the query with this key.
    pub(crate) fn passes(&self, key: &str, value: &str) -> bool {
        self.query.get(key).is_none_or(|wanted| wanted == value)
    }

    /// Whether an object passes the query's filter for enabled or disabled objects.
    pub(crate) fn passes_enabled(&self, is_enabled: bool) -> bool {
        let Some(wanted) = self.query.get("enabled") else {
            return true;
        };
        let wants_disabled = matches!(wanted.to_ascii_lowercase().as_str(), "false" | "0" | "no");
        wants_disabled != is_enabled
    }

    /// Whether the installation's only domain passes the query's filter for domains.
    pub(crate) fn passes_domain(&self) -> bool {
        self.passes("domain_id", DEFAULT_DOMAIN)
    }
}
