//! Tests of the messages of validation.

use super::*;
use crate::json;
use crate::pattern::Pattern;
use crate::schema::{ANY, Type};

const SCHEMA: Schema = Schema {
    types: &[Type::Object],
    properties: &[
        (
            "name",
            Schema {
                types: &[Type::Text],
                min_length: 1,
                max_length: 3,
                ..ANY
            },
        ),
        (
            "list",
            Schema {
                types: &[Type::Array],
                items: Some(&Schema {
                    types: &[Type::Text],
                    is_uuid: true,
                    ..ANY
                }),
                unique_items: true,
                ..ANY
            },
        ),
        (
            "count",
            Schema {
                types: &[Type::Integer],
                minimum: Some(1),
                maximum: Some(9.0),
                ..ANY
            },
        ),
        (
            "optional_count",
            Schema {
                types: &[Type::Integer, Type::Null],
                ..ANY
            },
        ),
        (
            "parent",
            Schema {
                null_or: Some(&Schema {
                    types: &[Type::Text],
                    is_uuid: true,
                    ..ANY
                }),
                ..ANY
            },
        ),
        (
            "resources",
            Schema {
                types: &[Type::Object],
                min_properties: 1,
                pattern_properties: &[(
                    Pattern::Name,
                    &Schema {
                        types: &[Type::Integer],
                        minimum: Some(1),
                        ..ANY
                    },
                )],
                additional_properties: false,
                ..ANY
            },
        ),
    ],
    required: &["name"],
    additional_properties: false,
    ..ANY
};

fn message(body: &str) -> String {
    let value = json::parse(body.as_bytes()).unwrap();
    match validate(&value, &SCHEMA, UuidForms::Body) {
        Ok(()) => String::new(),
        Err(text) => text
            .split("\n\nOn instance")
            .next()
            .unwrap()
            .replace("\n\n", " | "),
    }
}

/// Bodies with their error messages; an empty message means that the body is valid.
const MESSAGES: &[(&str, &str)] = &[
    (r#"{"name": "a"}"#, ""),
    (
        r#"{"name": "a", "count": 2.0, "optional_count": null, "parent": null}"#,
        "",
    ),
    (
        "[]",
        "[] is not of type 'object' | Failed validating 'type' in schema",
    ),
    (
        "{}",
        "'name' is a required property | Failed validating 'required' in schema",
    ),
    (
        r#"{"name": 1, "x": 2, "y": 1}"#,
        "Additional properties are not allowed ('x', 'y' were unexpected) | Failed \
             validating 'additionalProperties' in schema",
    ),
    (
        r#"{"name": ""}"#,
        "'' should be non-empty | Failed validating 'minLength' in \
             schema['properties']['name']",
    ),
    (
        r#"{"name": "abcd"}"#,
        "'abcd' is too long | Failed validating 'maxLength' in \
             schema['properties']['name']",
    ),
    (
        r#"{"name": "a", "count": true}"#,
        "True is not of type 'integer' | Failed validating 'type' in \
             schema['properties']['count']",
    ),
    (
        r#"{"name": "a", "count": 10}"#,
        "10 is greater than the maximum of 9 | Failed validating 'maximum' in \
             schema['properties']['count']",
    ),
    (
        r#"{"name": "a", "count": 0, "name2": 0}"#,
        "Additional properties are not allowed ('name2' was unexpected) | Failed \
             validating 'additionalProperties' in schema",
    ),
    (
        r#"{"name": "a", "optional_count": 1.5}"#,
        "1.5 is not of type 'integer', 'null' | Failed validating 'type' in \
             schema['properties']['optional_count']",
    ),
    (
        r#"{"name": "a", "parent": "x"}"#,
        "'x' is not a 'uuid' | Failed validating 'format' in \
             schema['properties']['parent']",
    ),
    (
        r#"{"name": "a", "parent": 1}"#,
        "1 is not valid under any of the given schemas | Failed validating 'anyOf' in \
             schema['properties']['parent']",
    ),
    (
        r#"{"name": "a", "resources": {}}"#,
        "{} should be non-empty | Failed validating 'minProperties' in \
             schema['properties']['resources']",
    ),
    (
        r#"{"name": "a", "resources": {"vcpu": 1}}"#,
        "'vcpu' does not match any of the regexes: '^[A-Z0-9_]+$' | Failed validating \
             'additionalProperties' in schema['properties']['resources']",
    ),
    (
        r#"{"name": "a", "resources": {"VCPU": 0}}"#,
        "0 is less than the minimum of 1 | Failed validating 'minimum' in \
             schema['properties']['resources']['patternProperties']['^[A-Z0-9_]+$']",
    ),
];

#[test]
fn messages_are_those_of_jsonschema() {
    const UUID: &str = "11111111-1111-1111-1111-111111111111";
    for (body, expected) in MESSAGES {
        assert_eq!(message(body), *expected, "{body}");
    }
    let repeated = message(&format!(r#"{{"name": "a", "list": ["{UUID}", "{UUID}"]}}"#));
    assert!(repeated.contains("has non-unique elements"), "{repeated}");
    let invalid = message(&format!(r#"{{"name": "a", "list": ["{UUID}", "é"]}}"#));
    assert!(invalid.starts_with("'é' is not a 'uuid'"), "{invalid}");
}

#[test]
fn messages_repeat_values_only_up_to_a_bound() {
    let text = message(&format!(r#"{{"name": "{}"}}"#, "é".repeat(100_000)));
    assert!(text.contains("... is too long"), "{}", &text[..100]);
    assert!(text.len() < 10_000);
    let body = "{\"name\": \"\", ".to_owned()
        + &(0..100_000)
            .map(|key| format!("\"k{key}\": 0"))
            .collect::<Vec<_>>()
            .join(", ")
        + "}";
    assert!(message(&body).len() < 10_000);
}
