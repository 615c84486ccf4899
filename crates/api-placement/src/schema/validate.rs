//! Validation of a value against a schema.
//!
//! Messages, and the choice of the error that is reported, follow the `jsonschema` library, because
//! clients and tests depend on them: the error nearest to the top, then the later sibling, then the
//! first one found.

use std::borrow::Cow;
use std::cmp::Ordering;

use placewright_http::json::repr_float;

use super::Schema;
use crate::json::Json;
use crate::{python, uuids};

/// Which form of `format: uuid` applies; the reference has two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Formats {
    /// In bodies: with or without dashes, in braces, with `urn:uuid:`.
    Body,
    /// In queries: with dashes only.
    Query,
}

/// The most relevant error of a value that does not match its schema.
///
/// # Errors
///
/// The message, in one line.
pub(crate) fn validate(value: &Json<'_>, schema: &Schema, formats: Formats) -> Result<(), String> {
    let mut check = Check::new(formats);
    check.descend(value, schema);
    check.best.map_or(Ok(()), |violation| Err(violation.text()))
}

/// A step of a path into a value: an index or a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step<'v> {
    Index(usize),
    Key(&'v str),
}

/// A violation of the schema.
struct Violation<'v> {
    rank: Rank<'v>,
    message: String,
    schema_path: Vec<&'static str>,
    instance: String,
}

/// The relevance of a violation; the greatest is reported.
struct Rank<'v> {
    path: Vec<Step<'v>>,
    keyword: &'static str,
    /// Whether the value has a type that the schema allows.
    matches_type: bool,
}

impl Rank<'_> {
    fn cmp(&self, other: &Rank<'_>) -> Ordering {
        (other.path.len().cmp(&self.path.len()))
            .then_with(|| self.path.cmp(&other.path))
            .then_with(|| (self.keyword != "anyOf").cmp(&(other.keyword != "anyOf")))
            .then_with(|| (!self.matches_type).cmp(&!other.matches_type))
    }
}

impl Violation<'_> {
    fn text(&self) -> String {
        let schema: String = self
            .schema_path
            .iter()
            .map(|step| format!("[{}]", python::repr_str(step)))
            .collect();
        let instance: String = (self.rank.path.iter())
            .map(|step| match step {
                Step::Index(index) => format!("[{index}]"),
                Step::Key(key) => format!("[{}]", python::repr_str(key)),
            })
            .collect();
        format!(
            "{}\n\nFailed validating '{}' in schema{schema}\n\nOn instance{instance}:\n    {}",
            self.message, self.rank.keyword, self.instance
        )
    }
}

/// A validation under way: the present path, and the violation to report.
struct Check<'v> {
    formats: Formats,
    path: Vec<Step<'v>>,
    schema_path: Vec<&'static str>,
    /// The most relevant violation so far. The others are dropped, because a large body can have
    /// very many.
    best: Option<Violation<'v>>,
}

impl<'v> Check<'v> {
    fn new(formats: Formats) -> Self {
        Self {
            formats,
            // As deep as the schemas are: most bodies are valid, and pay for nothing else.
            path: Vec::with_capacity(8),
            schema_path: Vec::with_capacity(16),
            best: None,
        }
    }

    fn fail(
        &mut self,
        value: &Json<'_>,
        schema: &Schema,
        keyword: &'static str,
        message: impl FnOnce() -> String,
    ) {
        if self
            .best
            .as_ref()
            .is_some_and(|best| best.rank.path.len() < self.path.len())
        {
            return;
        }
        let matches_type = schema.types.iter().any(|wanted| wanted.admits(value));
        let rank = Rank {
            path: self.path.clone(),
            keyword,
            matches_type,
        };
        if self
            .best
            .as_ref()
            .is_none_or(|best| rank.cmp(&best.rank) == Ordering::Greater)
        {
            self.best = Some(Violation {
                rank,
                message: message(),
                schema_path: self.schema_path.clone(),
                instance: python::repr(value),
            });
        }
    }

    fn descend(&mut self, value: &'v Json<'v>, schema: &Schema) {
        if !schema.types.is_empty() && !schema.types.iter().any(|wanted| wanted.admits(value)) {
            self.fail(value, schema, "type", || {
                let names = schema.types.iter().map(|wanted| wanted.name());
                format!("{} is not of type {}", python::repr(value), reprs(names))
            });
        }
        match value {
            Json::Text(text) => self.text(value, text, schema),
            Json::Int(_) | Json::Float(_) => self.number(value, schema),
            Json::Array(items) => self.array(value, items, schema),
            Json::Object(members) => self.object(value, members, schema),
            Json::Null | Json::Bool(_) => {}
        }
        let is_choice = || {
            schema
                .choices
                .iter()
                .any(|&choice| value.text() == Some(choice))
        };
        if !schema.choices.is_empty() && !is_choice() {
            self.fail(value, schema, "enum", || {
                let choices = reprs(schema.choices.iter().copied());
                format!("{} is not one of [{choices}]", python::repr(value))
            });
        }
        if let Some(inner) = schema.nullable
            && *value != Json::Null
        {
            self.any_of(value, schema, inner);
        }
    }

    /// Validates `anyOf` of a schema and `null` for a value that is not `null`.
    fn any_of(&mut self, value: &'v Json<'v>, schema: &Schema, inner: &Schema) {
        if inner.types.iter().any(|wanted| wanted.admits(value)) {
            // The branch with the right type is the one that the client meant.
            self.descend(value, inner);
        } else {
            self.fail(value, schema, "anyOf", || {
                format!(
                    "{} is not valid under any of the given schemas",
                    python::repr(value)
                )
            });
        }
    }

    fn text(&mut self, value: &Json<'_>, text: &str, schema: &Schema) {
        let shown = |what: &str| format!("{} {what}", python::repr_str(text));
        if let Some(pattern) = schema.pattern
            && !pattern.matches(text)
        {
            self.fail(value, schema, "pattern", || {
                shown(&format!(
                    "does not match {}",
                    python::repr_str(pattern.source())
                ))
            });
        }
        if schema.min_length > 0 || schema.max_length < text.len() {
            let length = text.chars().count();
            if length < schema.min_length {
                self.fail(value, schema, "minLength", || shown("should be non-empty"));
            }
            if length > schema.max_length {
                self.fail(value, schema, "maxLength", || shown("is too long"));
            }
        }
        let is_uuid = match self.formats {
            Formats::Body => uuids::is_uuid_like,
            Formats::Query => uuids::is_dashed_uuid,
        };
        if schema.uuid && !is_uuid(text) {
            self.fail(value, schema, "format", || shown("is not a 'uuid'"));
        }
    }

    fn number(&mut self, value: &Json<'_>, schema: &Schema) {
        let Some(number) = value.number() else { return };
        if let Some(maximum) = schema.maximum
            && number > maximum
        {
            self.fail(value, schema, "maximum", || {
                let limit = number_text(maximum);
                format!(
                    "{} is greater than the maximum of {limit}",
                    python::repr(value)
                )
            });
        }
        if let Some(minimum) = schema.minimum
            && number < minimum as f64
        {
            self.fail(value, schema, "minimum", || {
                format!(
                    "{} is less than the minimum of {minimum}",
                    python::repr(value)
                )
            });
        }
    }

    fn array(&mut self, value: &Json<'_>, items: &'v [Json<'v>], schema: &Schema) {
        if items.len() < schema.min_items {
            self.fail(value, schema, "minItems", || {
                format!("{} should be non-empty", python::repr(value))
            });
        }
        if let Some(item_schema) = schema.items {
            for (index, item) in items.iter().enumerate() {
                self.path.push(Step::Index(index));
                self.schema_path.push("items");
                self.descend(item, item_schema);
                self.schema_path.pop();
                self.path.pop();
            }
        }
        if schema.unique_items && !all_unique(items) {
            self.fail(value, schema, "uniqueItems", || {
                format!("{} has non-unique elements", python::repr(value))
            });
        }
    }

    fn object(
        &mut self,
        value: &Json<'_>,
        members: &'v [(Cow<'v, str>, Json<'v>)],
        schema: &Schema,
    ) {
        if members.len() < schema.min_properties {
            self.fail(value, schema, "minProperties", || {
                format!("{} should be non-empty", python::repr(value))
            });
        }
        let mut has_unknown = false;
        for (key, member) in members {
            let mut is_known = false;
            if let Some((name, inner)) = schema.properties.iter().find(|(name, _)| name == key) {
                self.member(key, member, inner, "properties", name);
                is_known = true;
            }
            for (pattern, inner) in schema.pattern_properties {
                if pattern.matches(key) {
                    self.member(key, member, inner, "patternProperties", pattern.source());
                    is_known = true;
                }
            }
            has_unknown |= !is_known;
        }
        for name in schema.required {
            if !members.iter().any(|(key, _)| key == name) {
                self.fail(value, schema, "required", || {
                    format!("{} is a required property", python::repr_str(name))
                });
            }
        }
        let is_known = |key: &str| {
            schema.properties.iter().any(|(name, _)| *name == key)
                || schema
                    .pattern_properties
                    .iter()
                    .any(|(pattern, _)| pattern.matches(key))
        };
        if !schema.additional_properties && has_unknown {
            self.fail(value, schema, "additionalProperties", || {
                let keys = members.iter().map(|(key, _)| key.as_ref());
                let mut extras: Vec<&str> = keys.filter(|key| !is_known(key)).collect();
                extras.sort_unstable();
                unexpected(&extras, schema)
            });
        }
    }

    fn member(
        &mut self,
        key: &'v str,
        value: &'v Json<'v>,
        schema: &Schema,
        group: &'static str,
        name: &'static str,
    ) {
        self.path.push(Step::Key(key));
        self.schema_path.push(group);
        self.schema_path.push(name);
        self.descend(value, schema);
        self.schema_path.truncate(self.schema_path.len() - 2);
        self.path.pop();
    }
}

/// The most unexpected keys that an error names.
const EXTRAS_SHOWN_MAX: usize = 20;

fn unexpected(extras: &[&str], schema: &Schema) -> String {
    let shown = &extras[..extras.len().min(EXTRAS_SHOWN_MAX)];
    let (listed, many) = (reprs(shown.iter().copied()), extras.len() > 1);
    if schema.pattern_properties.is_empty() {
        let verb = if many { "were" } else { "was" };
        return format!("Additional properties are not allowed ({listed} {verb} unexpected)");
    }
    let patterns = schema.pattern_properties.iter();
    let mut sources: Vec<_> = patterns.map(|(pattern, _)| pattern.source()).collect();
    sources.sort_unstable();
    let verb = if many { "do" } else { "does" };
    format!(
        "{listed} {verb} not match any of the regexes: {}",
        reprs(sources.into_iter())
    )
}

/// Strings in Python's notation, separated by commas.
fn reprs<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.map(python::repr_str).collect::<Vec<_>>().join(", ")
}

fn number_text(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        format!("{number:.0}")
    } else {
        repr_float(number)
    }
}

fn all_unique(items: &[Json<'_>]) -> bool {
    let mut texts: Vec<&str> = items.iter().filter_map(Json::text).collect();
    let count = texts.len();
    texts.sort_unstable();
    texts.dedup();
    // Items that are not strings are rejected because of their type anyway.
    texts.len() == count
}

#[cfg(test)]
mod tests {
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
                        uuid: true,
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
                "any",
                Schema {
                    types: &[Type::Integer, Type::Null],
                    ..ANY
                },
            ),
            (
                "parent",
                Schema {
                    nullable: Some(&Schema {
                        types: &[Type::Text],
                        uuid: true,
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
        match validate(&value, &SCHEMA, Formats::Body) {
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
            r#"{"name": "a", "count": 2.0, "any": null, "parent": null}"#,
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
            r#"{"name": "a", "any": 1.5}"#,
            "1.5 is not of type 'integer', 'null' | Failed validating 'type' in \
                 schema['properties']['any']",
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
        let twice = message(&format!(r#"{{"name": "a", "list": ["{UUID}", "{UUID}"]}}"#));
        assert!(twice.contains("has non-unique elements"), "{twice}");
        let odd = message(&format!(r#"{{"name": "a", "list": ["{UUID}", "é"]}}"#));
        assert!(odd.starts_with("'é' is not a 'uuid'"), "{odd}");
    }

    #[test]
    fn what_is_repeated_to_a_client_is_bounded() {
        let text = message(&format!(r#"{{"name": "{}"}}"#, "é".repeat(100_000)));
        assert!(text.contains("... is too long"), "{}", &text[..100]);
        assert!(text.len() < 10_000);
        let many = "{\"name\": \"\", ".to_owned()
            + &(0..100_000)
                .map(|key| format!("\"k{key}\": 0"))
                .collect::<Vec<_>>()
                .join(", ")
            + "}";
        assert!(message(&many).len() < 10_000);
    }
}
