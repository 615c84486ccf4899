//! The schemas of Placement's bodies and queries, by microversion.
//!
//! Source: Placement API reference and the schemas of openstack-placement 16.0.0.
//!
//! The name of a schema ends with the first microversion that has it, such as `PUT_1_8`. The schema is valid until the
//! next microversion that has one of its own.

pub(crate) mod allocations;
pub(crate) mod candidates;
pub(crate) mod inventories;
pub(crate) mod names;
pub(crate) mod providers;
pub(crate) mod usages;

use crate::pattern::Pattern;
use crate::schema::{ANY, Schema, Type};

/// The largest number in an inventory.
pub(crate) const MAX_INT: i32 = i32::MAX;

const TEXT: Schema = Schema {
    types: &[Type::Text],
    ..ANY
};
const INTEGER: Schema = Schema {
    types: &[Type::Integer],
    ..ANY
};
const UUID: Schema = Schema {
    types: &[Type::Text],
    is_uuid: true,
    ..ANY
};
/// The id of a project or user.
const EXTERNAL_ID: Schema = Schema {
    types: &[Type::Text],
    min_length: 1,
    max_length: 255,
    ..ANY
};
const CUSTOM_NAME: Schema = Schema {
    types: &[Type::Text],
    pattern: Some(Pattern::CustomName),
    max_length: 255,
    ..ANY
};
