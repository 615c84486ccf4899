//! Validation of a value against a schema.
//!
//! Messages, and the choice of the violation that is reported, follow the `jsonschema` library, because clients and
//! tests depend on them. The violation with the greatest [`Rank`] is reported, which is one with the shortest path into
//! the value. Of several violations with the same rank, the first one is reported.

use std::borrow::Cow;
use std::cmp::Ordering;

use placewright_http::json::repr_float;

use super::Schema;
use crate::json::Json;
use crate::{python, uuids};

/// Which forms of a UUID `format: uuid` accepts; the reference has two meanings of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UuidForms {
    /// In bodies: with or without dashes, in braces, with `urn:uuid:`.
    Body,
    /// In queries: with dashes only.
    Query,
}

/// Checks a value against a schema.
///
/// # Errors
///
/// The message about the most relevant violation.
pub(crate) fn validate(
    value: &Json<'_>,
    schema: &Schema,
    uuid_forms: UuidForms,
) -> Result<(), String> {
    let mut validator = Validator::new(uuid_forms);
    validator.check_value(value, schema);
    validator
        .reported
        .map_or(Ok(()), |violation| Err(violation.message_text()))
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
    /// The value that violates the schema (JSON Schema's word is instance), in Python's notation.
    instance: String,
}

/// The relevance of a violation; the violation with the greatest one is reported.
struct Rank<'v> {
    path: Vec<Step<'v>>,
    keyword: &'static str,
    /// Whether the value has a type that the schema allows.
    matches_type: bool,
}

impl Rank<'_> {
    /// Compares as the library's function `relevance` does. More relevant is, in this order: the shorter path; of paths
    /// of the same length the one that sorts later; a keyword other than `anyOf`; a value whose type the schema does
    /// not allow.
    fn cmp(&self, other: &Rank<'_>) -> Ordering {
        (other.path.len().cmp(&self.path.len()))
            .then_with(|| self.path.cmp(&other.path))
            .then_with(|| (self.keyword != "anyOf").cmp(&(other.keyword != "anyOf")))
            .then_with(|| (!self.matches_type).cmp(&!other.matches_type))
    }
}

impl Violation<'_> {
    fn message_text(&self) -> String {
        let schema_path: String = self
            .schema_path
            .iter()
            .map(|step| format!("[{}]", python::repr_str(step)))
            .collect();
        let instance_path: String = (self.rank.path.iter())
            .map(|step| match step {
                Step::Index(index) => format!("[{index}]"),
                Step::Key(key) => format!("[{}]", python::repr_str(key)),
            })
            .collect();
        format!(
            "{}\n\nFailed validating '{}' in schema{schema_path}\n\n\
             On instance{instance_path}:\n    {}",
            self.message, self.rank.keyword, self.instance
        )
    }
}

/// A validation in progress: the path to the present part, and the violation to report.
struct Validator<'v> {
    uuid_forms: UuidForms,
    path: Vec<Step<'v>>,
    schema_path: Vec<&'static str>,
    /// The most relevant violation so far. Only one is stored, because a large body can have very many.
    reported: Option<Violation<'v>>,
}

impl<'v> Validator<'v> {
    fn new(uuid_forms: UuidForms) -> Self {
        Self {
            uuid_forms,
            // The capacities suffice for the depth of the schemas, so that the validation of a valid body allocates
            // nothing more.
            path: Vec::with_capacity(8),
            schema_path: Vec::with_capacity(16),
            reported: None,
        }
    }

    /// Keeps a violation of the keyword at the present path, if it is more relevant than the one that is kept.
    fn record_violation(
        &mut self,
        value: &Json<'_>,
        schema: &Schema,
        keyword: &'static str,
        message: impl FnOnce() -> String,
    ) {
        if self
            .reported
            .as_ref()
            .is_some_and(|reported| reported.rank.path.len() < self.path.len())
        {
            // A shorter path is more relevant, so nothing has to be copied for a comparison.
            return;
        }
        let matches_type = schema.types.iter().any(|kind| kind.matches(value));
        let rank = Rank {
            path: self.path.clone(),
            keyword,
            matches_type,
        };
        if self
            .reported
            .as_ref()
            .is_none_or(|reported| rank.cmp(&reported.rank) == Ordering::Greater)
        {
            self.reported = Some(Violation {
                rank,
                message: message(),
                schema_path: self.schema_path.clone(),
                instance: python::repr(value),
            });
        }
    }

    fn check_value(&mut self, value: &'v Json<'v>, schema: &Schema) {
        if !schema.types.is_empty() && !schema.types.iter().any(|kind| kind.matches(value)) {
            self.record_violation(value, schema, "type", || {
                let names = schema.types.iter().map(|kind| kind.name());
                format!("{} is not of type {}", python::repr(value), reprs(names))
            });
        }
        match value {
            Json::Text(text) => self.check_text(value, text, schema),
            Json::Int(_) | Json::Float(_) => self.check_number(value, schema),
            Json::Array(items) => self.check_array(value, items, schema),
            Json::Object(members) => self.check_object(value, members, schema),
            Json::Null | Json::Bool(_) => {}
        }
        let is_choice = || {
            schema
                .choices
                .iter()
                .any(|&choice| value.text() == Some(choice))
        };
        if !schema.choices.is_empty() && !is_choice() {
            self.record_violation(value, schema, "enum", || {
                let choices = reprs(schema.choices.iter().copied());
                format!("{} is not one of [{choices}]", python::repr(value))
            });
        }
        if let Some(non_null) = schema.null_or
            && *value != Json::Null
        {
            self.check_any_of(value, schema, non_null);
        }
    }

    /// Validates `anyOf` of a schema and `null` for a value that is not `null`.
    fn check_any_of(&mut self, value: &'v Json<'v>, schema: &Schema, non_null: &Schema) {
        if non_null.types.iter().any(|kind| kind.matches(value)) {
            // As in the library, the violations of the branch with the right type are reported.
            self.check_value(value, non_null);
        } else {
            self.record_violation(value, schema, "anyOf", || {
                format!(
                    "{} is not valid under any of the given schemas",
                    python::repr(value)
                )
            });
        }
    }

    fn check_text(&mut self, value: &Json<'_>, text: &str, schema: &Schema) {
        let message = |problem: &str| format!("{} {problem}", python::repr_str(text));
        if let Some(pattern) = schema.pattern
            && !pattern.matches(text)
        {
            self.record_violation(value, schema, "pattern", || {
                message(&format!(
                    "does not match {}",
                    python::repr_str(pattern.source())
                ))
            });
        }
        if schema.min_length > 0 || schema.max_length < text.len() {
            let length = text.chars().count();
            if length < schema.min_length {
                self.record_violation(value, schema, "minLength", || {
                    message("should be non-empty")
                });
            }
            if length > schema.max_length {
                self.record_violation(value, schema, "maxLength", || message("is too long"));
            }
        }
        let is_accepted_uuid = match self.uuid_forms {
            UuidForms::Body => uuids::is_uuid_like,
            UuidForms::Query => uuids::is_dashed_uuid,
        };
        if schema.is_uuid && !is_accepted_uuid(text) {
            self.record_violation(value, schema, "format", || message("is not a 'uuid'"));
        }
    }

    fn check_number(&mut self, value: &Json<'_>, schema: &Schema) {
        let Some(number) = value.number() else { return };
        if let Some(maximum) = schema.maximum
            && number > maximum
        {
            self.record_violation(value, schema, "maximum", || {
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
            self.record_violation(value, schema, "minimum", || {
                format!(
                    "{} is less than the minimum of {minimum}",
                    python::repr(value)
                )
            });
        }
    }

    fn check_array(&mut self, value: &Json<'_>, items: &'v [Json<'v>], schema: &Schema) {
        if items.len() < schema.min_items {
            self.record_violation(value, schema, "minItems", || {
                format!("{} should be non-empty", python::repr(value))
            });
        }
        if let Some(item_schema) = schema.items {
            for (index, item) in items.iter().enumerate() {
                self.path.push(Step::Index(index));
                self.schema_path.push("items");
                self.check_value(item, item_schema);
                self.schema_path.pop();
                self.path.pop();
            }
        }
        if schema.unique_items && !all_unique(items) {
            self.record_violation(value, schema, "uniqueItems", || {
                format!("{} has non-unique elements", python::repr(value))
            });
        }
    }

    fn check_object(
        &mut self,
        value: &Json<'_>,
        members: &'v [(Cow<'v, str>, Json<'v>)],
        schema: &Schema,
    ) {
        if members.len() < schema.min_properties {
            self.record_violation(value, schema, "minProperties", || {
                format!("{} should be non-empty", python::repr(value))
            });
        }
        let mut has_unknown_key = false;
        for (key, member) in members {
            let mut is_known = false;
            if let Some((name, member_schema)) =
                schema.properties.iter().find(|(name, _)| name == key)
            {
                self.check_member(key, member, member_schema, "properties", name);
                is_known = true;
            }
            for (pattern, member_schema) in schema.pattern_properties {
                if pattern.matches(key) {
                    self.check_member(
                        key,
                        member,
                        member_schema,
                        "patternProperties",
                        pattern.source(),
                    );
                    is_known = true;
                }
            }
            has_unknown_key |= !is_known;
        }
        for name in schema.required {
            if !members.iter().any(|(key, _)| key == name) {
                self.record_violation(value, schema, "required", || {
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
        if !schema.additional_properties && has_unknown_key {
            self.record_violation(value, schema, "additionalProperties", || {
                let keys = members.iter().map(|(key, _)| key.as_ref());
                let mut extras: Vec<&str> = keys.filter(|key| !is_known(key)).collect();
                extras.sort_unstable();
                unexpected_keys_message(&extras, schema)
            });
        }
    }

    /// Validates a member of an object. `group` and `name` are the steps of the schema's path: `properties`, for
    /// instance, and the key there.
    fn check_member(
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
        self.check_value(value, schema);
        self.schema_path.truncate(self.schema_path.len() - 2);
        self.path.pop();
    }
}

/// The most unexpected keys that a message lists.
const EXTRAS_SHOWN_MAX: usize = 20;

fn unexpected_keys_message(extras: &[&str], schema: &Schema) -> String {
    let shown = &extras[..extras.len().min(EXTRAS_SHOWN_MAX)];
    let (listed, are_many) = (reprs(shown.iter().copied()), extras.len() > 1);
    if schema.pattern_properties.is_empty() {
        let verb = if are_many { "were" } else { "was" };
        return format!("Additional properties are not allowed ({listed} {verb} unexpected)");
    }
    let patterns = schema.pattern_properties.iter();
    let mut sources: Vec<_> = patterns.map(|(pattern, _)| pattern.source()).collect();
    sources.sort_unstable();
    let verb = if are_many { "do" } else { "does" };
    format!(
        "{listed} {verb} not match any of the regexes: {}",
        reprs(sources.into_iter())
    )
}

/// Strings in Python's notation, separated by commas.
fn reprs<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.map(python::repr_str).collect::<Vec<_>>().join(", ")
}

/// A limit as messages show it: without a fraction if it is a whole number.
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
    // All arrays with unique items are arrays of strings; other items violate the schema by their type.
    texts.len() == count
}

#[cfg(test)]
mod tests;
