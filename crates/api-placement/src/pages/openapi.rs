//! `/placewright/v1/openapi.json`: the OpenAPI 3.1 document of the Placement API, made from the
//! tables that requests are checked against.
//!
//! The API depends on the microversion, so the document describes a single one: the newest, or that
//! of `?microversion=1.N`.

use placewright_http::{ApiError, ApiResult, Query, Reply};
use serde_json::{Map, Value, json};

use super::check_parameters;
use crate::microversion::Microversion;
use crate::pattern::Pattern;
use crate::routes::{HeaderRequirements, Operation, Route, RouteEntry, TABLE};
use crate::schema::Schema;
use crate::schemas;

pub(super) fn show(query: &Query<'_>) -> ApiResult<Reply> {
    check_parameters(query, &["microversion"])?;
    let version = match query.get("microversion") {
        None | Some("latest") => Microversion::MAX,
        Some(text) => text
            .strip_prefix("1.")
            .and_then(|minor| minor.parse().ok())
            .and_then(Microversion::from_minor)
            .ok_or_else(|| {
                ApiError::bad_request(format!(
                    "'microversion' expects a version from {} to {}. Got: {text}",
                    Microversion::MIN,
                    Microversion::MAX
                ))
            })?,
    };
    Ok(Reply::text(
        200,
        "application/json",
        document(version).to_string(),
    ))
}

/// The whole document for one version.
pub(crate) fn document(version: Microversion) -> Value {
    let mut paths = Map::new();
    for entry in TABLE {
        let mut methods = Map::new();
        for operation in entry.operations {
            if (operation.since..=operation.until).contains(&version.minor()) {
                let object = operation_object(entry, operation, version);
                methods.insert(operation.method.to_lowercase(), object);
            }
        }
        if !methods.is_empty() {
            methods.insert("parameters".to_owned(), path_parameters(entry.path));
            paths.insert(entry.path.to_owned(), methods.into());
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Placement",
            "description": "The OpenStack Placement API as Placewright serves it.",
            "version": version.to_string(),
        },
        "paths": paths,
        "security": [{ "token": [] }],
        "components": {
            "securitySchemes": {
                "token": { "type": "apiKey", "in": "header", "name": "X-Auth-Token" },
            },
            "parameters": {
                "microversion": {
                    "name": "OpenStack-API-Version",
                    "in": "header",
                    "required": true,
                    "schema": { "type": "string", "const": format!("placement {version}") },
                },
            },
            "responses": {
                "error": {
                    "description": "The request was refused and changed nothing.",
                    "content": { "application/json": { "schema": error_schema(version) } },
                },
            },
        },
    })
}

fn error_schema(version: Microversion) -> Value {
    let mut properties = json!({
        "status": { "type": "integer" },
        "title": { "type": "string" },
        "detail": { "type": "string" },
        "request_id": { "type": "string" },
    });
    if version.since(23) {
        properties["code"] = json!({ "type": "string" });
    }
    let error = json!({
        "type": "object",
        "properties": properties,
        "required": ["status", "title", "detail"],
    });
    json!({
        "type": "object",
        "properties": { "errors": { "type": "array", "items": error } },
        "required": ["errors"],
    })
}

fn path_parameters(path: &str) -> Value {
    let mut parameters = vec![json!({ "$ref": "#/components/parameters/microversion" })];
    let names = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    for name in names {
        parameters.push(json!({
            "name": name,
            "in": "path",
            "required": true,
            "schema": parameter_schema(path, name),
        }));
    }
    parameters.into()
}

fn parameter_schema(path: &str, name: &str) -> Value {
    match name {
        "uuid" | "consumer_uuid" => json!({ "type": "string", "format": "uuid" }),
        _ if path.starts_with("/traits") => to_json(&schemas::names::CUSTOM_TRAIT),
        _ => json!({ "type": "string", "pattern": Pattern::Name.source(), "maxLength": 255 }),
    }
}

/// The OpenAPI object of an operation.
fn operation_object(entry: &RouteEntry, operation: &Operation, version: Microversion) -> Value {
    let mut object = json!({
        "summary": operation.summary,
        "operationId": operation_id(entry.path, operation.method),
        "responses": {
            "2XX": { "description": "It is done." },
            "4XX": { "$ref": "#/components/responses/error" },
            "503": { "$ref": "#/components/responses/error" },
        },
    });
    if let Some(rule) = operation.rule {
        object["description"] = format!("Policy rule: `{rule}`.").into();
    } else {
        object["security"] = json!([]);
    }
    if let Some(schema) = query_schema(entry.route, operation.method, version) {
        object["parameters"] = query_parameters(schema).into();
    }
    if operation.header_requirements == HeaderRequirements::JsonBody
        && let Some(schema) = body_schema(entry.route, operation.method, version)
    {
        object["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": to_json(schema) } },
        });
    }
    object
}

fn operation_id(path: &str, method: &str) -> String {
    let name: String = path
        .chars()
        .filter(|character| *character != '{' && *character != '}')
        .collect::<String>()
        .replace('/', "_");
    format!("{}{}", method.to_lowercase(), name.trim_end_matches('_'))
}

/// The schema of an operation's query; none if it has no parameters.
fn query_schema(route: Route, method: &str, version: Microversion) -> Option<&'static Schema> {
    match (route, method) {
        (Route::Providers, "GET") => Some(schemas::providers::list(version)),
        (Route::Candidates, "GET") => Some(schemas::candidates::list(version)),
        (Route::Traits, "GET") => Some(&schemas::names::LIST_TRAITS),
        (Route::Usages, "GET") => Some(schemas::usages::get(version)),
        _ => None,
    }
}

/// The schema of an operation's body; none if it has no body.
fn body_schema(route: Route, method: &str, version: Microversion) -> Option<&'static Schema> {
    match (route, method) {
        (Route::ResourceClasses, "POST") | (Route::ResourceClass, "PUT") => {
            Some(&schemas::names::RESOURCE_CLASS)
        }
        (Route::Providers, "POST") => Some(schemas::providers::create(version)),
        (Route::Provider, "PUT") => Some(schemas::providers::update(version)),
        (Route::Inventories, "POST") => Some(&schemas::inventories::CREATE),
        (Route::Inventories, "PUT") => Some(&schemas::inventories::SET),
        (Route::Inventory, "PUT") => Some(&schemas::inventories::UPDATE),
        (Route::Aggregates, "PUT") => Some(schemas::providers::aggregates(version)),
        (Route::ProviderTraits, "PUT") => Some(&schemas::names::SET_TRAITS),
        (Route::Allocations, "POST") => Some(schemas::allocations::post(version)),
        (Route::ConsumerAllocations, "PUT") => Some(schemas::allocations::put(version)),
        (Route::Reshaper, "POST") => Some(schemas::allocations::reshape(version)),
        _ => None,
    }
}

fn query_parameters(schema: &Schema) -> Vec<Value> {
    let parameter = |name: &str, schema: &Schema, note: &str| {
        json!({
            "name": name,
            "in": "query",
            "required": false,
            "description": note,
            "schema": to_json(schema),
        })
    };
    let mut parameters = Vec::new();
    for (name, property_schema) in schema.properties {
        let mut object = parameter(name, property_schema, "");
        object["required"] = schema.required.contains(name).into();
        parameters.push(object);
    }
    for (pattern, property_schema) in schema.pattern_properties {
        if let Pattern::Numbered(name, source) | Pattern::Suffixed(name, source) = pattern {
            let note = format!("Of the group without a suffix; others match `{source}`.");
            parameters.push(parameter(name, property_schema, &note));
        }
    }
    parameters
}

/// A schema as JSON Schema.
pub(crate) fn to_json(schema: &Schema) -> Value {
    let mut keywords = Map::new();
    let mut put_keyword = |key: &str, value: Value| {
        keywords.insert(key.to_owned(), value);
    };
    match schema.types {
        [] => {}
        [single] => put_keyword("type", single.name().into()),
        types => {
            let names: Vec<&str> = types.iter().map(|item| item.name()).collect();
            put_keyword("type", names.into());
        }
    }
    if let Some(pattern) = schema.pattern {
        put_keyword("pattern", pattern.source().into());
    }
    if schema.min_length > 0 {
        put_keyword("minLength", schema.min_length.into());
    }
    if schema.max_length < usize::MAX {
        put_keyword("maxLength", schema.max_length.into());
    }
    if schema.is_uuid {
        put_keyword("format", "uuid".into());
    }
    if !schema.choices.is_empty() {
        put_keyword("enum", schema.choices.to_vec().into());
    }
    if let Some(minimum) = schema.minimum {
        put_keyword("minimum", minimum.into());
    }
    if let Some(maximum) = schema.maximum {
        put_keyword("maximum", maximum.into());
    }
    if let Some(non_null) = schema.null_or {
        put_keyword("anyOf", json!([to_json(non_null), { "type": "null" }]));
    }
    put_collection_keywords(schema, &mut put_keyword);
    keywords.into()
}

/// Puts the keywords of arrays and objects.
fn put_collection_keywords(schema: &Schema, put_keyword: &mut impl FnMut(&str, Value)) {
    if let Some(items) = schema.items {
        put_keyword("items", to_json(items));
    }
    if schema.min_items > 0 {
        put_keyword("minItems", schema.min_items.into());
    }
    if schema.unique_items {
        put_keyword("uniqueItems", true.into());
    }
    if schema.min_properties > 0 {
        put_keyword("minProperties", schema.min_properties.into());
    }
    let property_schemas = schema
        .properties
        .iter()
        .map(|(name, property_schema)| (name.to_string(), to_json(property_schema)));
    let properties: Map<String, Value> = property_schemas.collect();
    if !properties.is_empty() {
        put_keyword("properties", properties.into());
    }
    let patterns = schema.pattern_properties.iter();
    let patterns: Map<String, Value> = patterns
        .map(|(pattern, pattern_schema)| (pattern.source().to_owned(), to_json(pattern_schema)))
        .collect();
    if !patterns.is_empty() {
        put_keyword("patternProperties", patterns.into());
    }
    if !schema.required.is_empty() {
        put_keyword("required", schema.required.to_vec().into());
    }
    if !schema.additional_properties {
        put_keyword("additionalProperties", false.into());
    }
}
