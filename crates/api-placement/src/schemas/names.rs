//! Schemas of resource classes and traits.

use super::{CUSTOM_NAME, INTEGER, TEXT};
use crate::schema::{ANY, Schema, Type};

/// The schema of the body of `POST /resource_classes` and of `PUT /resource_classes/{name}`.
pub(crate) const RESOURCE_CLASS: Schema = Schema {
    types: &[Type::Object],
    properties: &[("name", CUSTOM_NAME)],
    required: &["name"],
    additional_properties: false,
    ..ANY
};

/// The schema of the name in `PUT /traits/{name}`.
pub(crate) const CUSTOM_TRAIT: Schema = Schema {
    min_length: 1,
    ..CUSTOM_NAME
};

/// The schema of the query of `GET /traits`.
pub(crate) const LIST_TRAITS: Schema = Schema {
    types: &[Type::Object],
    properties: &[("name", TEXT), ("associated", TEXT)],
    additional_properties: false,
    ..ANY
};

/// The schema of the body of `PUT /resource_providers/{uuid}/traits`.
pub(crate) const SET_TRAITS: Schema = Schema {
    types: &[Type::Object],
    properties: &[
        (
            "traits",
            Schema {
                types: &[Type::Array],
                items: Some(&Schema {
                    min_length: 1,
                    max_length: 255,
                    ..TEXT
                }),
                ..ANY
            },
        ),
        ("resource_provider_generation", INTEGER),
    ],
    required: &["traits", "resource_provider_generation"],
    additional_properties: false,
    ..ANY
};
