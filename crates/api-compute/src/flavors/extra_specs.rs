//! The extra specs of a flavor.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::Flavor;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use super::{catalog, change_flavor, find};
use crate::error;
use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;
use crate::topology::flavor_rules;

/// The maximum number of extra specs of a flavor.
const SPECS_MAX: usize = 1000;

/// Parses extra specs; numbers are converted to texts.
fn parse_specs(
    request: &RoutedRequest<'_>,
    path: &str,
    value: &Value,
) -> ApiResult<Vec<(String, String)>> {
    let mut value = value.clone();
    if let Value::Object(map) = &mut value {
        for entry in map.values_mut() {
            if let Value::Number(number) = entry {
                *entry = Value::String(number.to_string());
            }
        }
    }
    let specs = fields::parse_texts(path, &value, fields::is_key, 255)?;
    if request.version.since(86) {
        catalog::check_spec_forms(path, &specs)?;
    }
    Ok(specs)
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::FlavorExtraSpecsIndex)?;
    let id = request.parameter("flavor_id");
    let specs = request.try_read(|control, _| Ok(find(request, control, id)?.extra_specs.clone()));
    Reply::value(200, &json!({"extra_specs": specs.await?}))
}

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::FlavorExtraSpecsShow)?;
    let (id, key) = (request.parameter("flavor_id"), request.parameter("key"));
    let value = request.read(|control, _| {
        let flavor = find(request, control, id)?;
        let value = flavor.extra_specs.get(key).cloned();
        value.ok_or_else(|| error::missing("extra spec", key))
    });
    Reply::value(200, &spec_json(key, value.await?))
}

fn spec_json(key: &str, value: String) -> Value {
    let mut map = serde_json::Map::new();
    map.insert(key.to_owned(), Value::String(value));
    Value::Object(map)
}

pub(crate) async fn create(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::FlavorExtraSpecsCreate)?;
    let body = request.json()?;
    let mut parser = ObjectParser::of_body(&body)?;
    let specs = parse_specs(request, "extra_specs", parser.take_required("extra_specs")?)?;
    parser.finish()?;
    flavor_rules::check_spec_rules(request, "extra_specs", &specs).await?;
    change_flavor(request, |flavor| add_specs(flavor, &specs)).await?;
    Reply::value(200, &body)
}

fn add_specs(flavor: &mut Flavor, specs: &[(String, String)]) -> ApiResult<()> {
    flavor.extra_specs.extend(specs.iter().cloned());
    if flavor.extra_specs.len() > SPECS_MAX {
        let message = format!("A flavor has at most {SPECS_MAX} extra specs.");
        return Err(ApiError::bad_request(message));
    }
    Ok(())
}

pub(crate) async fn update(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::FlavorExtraSpecsUpdate)?;
    let key = request.parameter("key");
    let body = request.json()?;
    let specs = parse_specs(request, "", &body)?;
    match specs.as_slice() {
        [(name, _)] if name == key => {}
        _ => {
            let message = format!("It must be an object with the one key {key:?} of the path.");
            return Err(ApiError::bad_request(message));
        }
    }
    flavor_rules::check_spec_rules(request, "", &specs).await?;
    change_flavor(request, |flavor| add_specs(flavor, &specs)).await?;
    Reply::value(200, &body)
}

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::FlavorExtraSpecsDelete)?;
    let key = request.parameter("key");
    change_flavor(request, |flavor| match flavor.extra_specs.remove(key) {
        Some(_) => Ok(()),
        None => Err(error::missing("extra spec", key)),
    })
    .await?;
    Ok(Reply::empty(200))
}
