//! Schemas of inventories.

use super::{INTEGER, MAX_INT, TEXT};
use crate::pattern::Pattern;
use crate::schema::{ANY, Schema, Type};

const fn integer_from(minimum: i64) -> Schema {
    Schema {
        minimum: Some(minimum),
        maximum: Some(MAX_INT as f64),
        ..INTEGER
    }
}

/// An allocation ratio, up to the largest single-precision number that MySQL stores without loss.
const RATIO: Schema = Schema {
    types: &[Type::Number],
    maximum: Some(3.40282e38),
    ..ANY
};

const INVENTORY: Schema = Schema {
    types: &[Type::Object],
    properties: &[
        ("resource_provider_generation", INTEGER),
        ("total", integer_from(1)),
        ("reserved", integer_from(0)),
        ("min_unit", integer_from(1)),
        ("max_unit", integer_from(1)),
        ("step_size", integer_from(1)),
        ("allocation_ratio", RATIO),
    ],
    required: &["total"],
    additional_properties: false,
    ..ANY
};

/// The schema of the body of `PUT /resource_providers/{uuid}/inventories/{resource_class}`.
pub(crate) const UPDATE: Schema = Schema {
    required: &["total", "resource_provider_generation"],
    ..INVENTORY
};

/// The schema of the body of `POST /resource_providers/{uuid}/inventories`.
pub(crate) const CREATE: Schema = Schema {
    properties: &[
        ("resource_provider_generation", INTEGER),
        ("total", integer_from(1)),
        ("reserved", integer_from(0)),
        ("min_unit", integer_from(1)),
        ("max_unit", integer_from(1)),
        ("step_size", integer_from(1)),
        ("allocation_ratio", RATIO),
        (
            "resource_class",
            Schema {
                pattern: Some(Pattern::Name),
                ..TEXT
            },
        ),
    ],
    required: &["total", "resource_class"],
    ..INVENTORY
};

/// The schema of the body of `PUT /resource_providers/{uuid}/inventories`. It accepts anything under a key of
/// `inventories` that is not a class name; [`INVENTORY_UNDER_OTHER_KEY`] is the schema for such a value.
pub(crate) const SET: Schema = Schema {
    types: &[Type::Object],
    properties: &[
        ("resource_provider_generation", INTEGER),
        (
            "inventories",
            Schema {
                types: &[Type::Object],
                pattern_properties: &[(Pattern::Name, &INVENTORY)],
                ..ANY
            },
        ),
    ],
    required: &["resource_provider_generation", "inventories"],
    additional_properties: false,
    ..ANY
};

/// The schema of an inventory under a key that is not a class name. It is checked after [`SET`] has accepted the
/// body.
pub(crate) const INVENTORY_UNDER_OTHER_KEY: Schema = INVENTORY;
