//! Validation of bodies and queries against tables that correspond to JSON Schema.
//!
//! Only the keywords that Placement's schemas use are implemented.

mod validate;

pub(crate) use validate::{UuidForms, validate};

use crate::json::Json;
use crate::pattern::Pattern;

/// The type of a JSON value, as schemas name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    Text,
    /// `1` and `1.0`, not `true`.
    Integer,
    Number,
    Null,
}

impl Type {
    /// The type's name in a schema.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::Text => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Null => "null",
        }
    }

    fn matches(self, value: &Json<'_>) -> bool {
        match (self, value) {
            (Type::Object, Json::Object(_))
            | (Type::Array, Json::Array(_))
            | (Type::Text, Json::Text(_))
            | (Type::Number, Json::Int(_) | Json::Float(_))
            | (Type::Null, Json::Null) => true,
            (Type::Integer, value) => value.integer().is_some(),
            _ => false,
        }
    }
}

/// A schema. A field with its value in [`ANY`] has no effect.
#[derive(Debug)]
pub(crate) struct Schema {
    pub types: &'static [Type],
    pub pattern: Option<Pattern>,
    /// 0 or 1, because the message about a violation is always `should be non-empty`.
    pub min_length: usize,
    pub max_length: usize,
    /// `format: uuid`; which forms are accepted depends on [`UuidForms`].
    pub is_uuid: bool,
    /// `enum`: the only allowed texts.
    pub choices: &'static [&'static str],
    pub minimum: Option<i64>,
    pub maximum: Option<f64>,
    pub items: Option<&'static Schema>,
    /// 0 or 1, as [`Self::min_length`].
    pub min_items: usize,
    pub unique_items: bool,
    /// 0 or 1, as [`Self::min_length`].
    pub min_properties: usize,
    pub properties: &'static [(&'static str, Schema)],
    pub pattern_properties: &'static [(Pattern, &'static Schema)],
    pub required: &'static [&'static str],
    pub additional_properties: bool,
    /// `anyOf` of this schema and `null`.
    pub null_or: Option<&'static Schema>,
}

/// The schema that accepts everything, on which all others are based.
pub(crate) const ANY: Schema = Schema {
    types: &[],
    pattern: None,
    min_length: 0,
    max_length: usize::MAX,
    is_uuid: false,
    choices: &[],
    minimum: None,
    maximum: None,
    items: None,
    min_items: 0,
    unique_items: false,
    min_properties: 0,
    properties: &[],
    pattern_properties: &[],
    required: &[],
    additional_properties: true,
    null_or: None,
};
