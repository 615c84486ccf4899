//! The extra specs of a flavor.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::Flavor;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use super::{catalog, find, replace};
use crate::error;
use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;

/// The most extra specs of a flavor.
const SPECS_MAX: usize = 1000;

/// Parses extra specs; numbers are converted to texts.
fn read(call: &RoutedRequest<'_>, path: &str, value: &Value) -> ApiResult<Vec<(String, String)>> {
    let mut value = value.clone();
    if let Value::Object(map) = &mut value {
        for one in map.values_mut() {
            if let Value::Number(number) = one {
                *one = Value::String(number.to_string());
            }
        }
    }
    let specs = fields::texts(path, &value, fields::is_key, 255)?;
    if call.version.since(86) {
        catalog::check_extra_specs(path, &specs)?;
    }
    Ok(specs)
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::FlavorExtraSpecsIndex)?;
    let id = call.parameter("flavor_id");
    let specs = call.try_read(|control, _| Ok(find(call, control, id)?.extra_specs.clone()));
    Reply::value(200, &json!({"extra_specs": specs.await?}))
}

pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::FlavorExtraSpecsShow)?;
    let (id, key) = (call.parameter("flavor_id"), call.parameter("key"));
    let value = call.read(|control, _| {
        let flavor = find(call, control, id)?;
        let value = flavor.extra_specs.get(key).cloned();
        value.ok_or_else(|| error::missing("extra spec", key))
    });
    Reply::value(200, &pair(key, value.await?))
}

fn pair(key: &str, value: String) -> Value {
    let mut map = serde_json::Map::new();
    map.insert(key.to_owned(), Value::String(value));
    Value::Object(map)
}

pub(crate) async fn create(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::FlavorExtraSpecsCreate)?;
    let body = call.json()?;
    let mut fields = ObjectParser::of_body(&body)?;
    let specs = read(call, "extra_specs", fields.need("extra_specs")?)?;
    fields.finish()?;
    replace(call, |flavor| add(flavor, &specs)).await?;
    Reply::value(200, &body)
}

fn add(flavor: &mut Flavor, specs: &[(String, String)]) -> ApiResult<()> {
    flavor.extra_specs.extend(specs.iter().cloned());
    if flavor.extra_specs.len() > SPECS_MAX {
        let message = format!("A flavor has at most {SPECS_MAX} extra specs.");
        return Err(ApiError::bad_request(message));
    }
    Ok(())
}

pub(crate) async fn update(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::FlavorExtraSpecsUpdate)?;
    let key = call.parameter("key");
    let body = call.json()?;
    let specs = read(call, "", &body)?;
    match specs.as_slice() {
        [(name, _)] if name == key => {}
        _ => {
            let message = format!("It must be an object with the one key {key:?} of the path.");
            return Err(ApiError::bad_request(message));
        }
    }
    replace(call, |flavor| add(flavor, &specs)).await?;
    Reply::value(200, &body)
}

pub(crate) async fn delete(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::FlavorExtraSpecsDelete)?;
    let key = call.parameter("key");
    replace(call, |flavor| match flavor.extra_specs.remove(key) {
        Some(_) => Ok(()),
        None => Err(error::missing("extra spec", key)),
    })
    .await?;
    Ok(Reply::empty(200))
}
