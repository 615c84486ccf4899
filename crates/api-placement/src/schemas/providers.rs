//! Schemas of resource providers and their aggregates. Their names end with the first microversion that has them.

use super::{INTEGER, TEXT, UUID};
use crate::microversion::Microversion;
use crate::schema::{ANY, Schema, Type};

const NAME: Schema = Schema {
    max_length: 200,
    ..TEXT
};
const PARENT: Schema = Schema {
    null_or: Some(&UUID),
    ..ANY
};

const fn body(properties: &'static [(&'static str, Schema)]) -> Schema {
    Schema {
        types: &[Type::Object],
        properties,
        required: &["name"],
        additional_properties: false,
        ..ANY
    }
}

const POST_1_0: Schema = body(&[("name", NAME), ("uuid", UUID)]);
const POST_1_14: Schema = body(&[
    ("name", NAME),
    ("uuid", UUID),
    ("parent_provider_uuid", PARENT),
]);
const PUT_1_0: Schema = body(&[("name", NAME)]);
const PUT_1_14: Schema = body(&[("name", NAME), ("parent_provider_uuid", PARENT)]);

/// The schema of the body of `POST /resource_providers`.
pub(crate) fn create(version: Microversion) -> &'static Schema {
    if version.since(14) {
        &POST_1_14
    } else {
        &POST_1_0
    }
}

/// The schema of the body of `PUT /resource_providers/{uuid}`.
pub(crate) fn update(version: Microversion) -> &'static Schema {
    if version.since(14) {
        &PUT_1_14
    } else {
        &PUT_1_0
    }
}

const fn query(properties: &'static [(&'static str, Schema)]) -> Schema {
    Schema {
        types: &[Type::Object],
        properties,
        additional_properties: false,
        ..ANY
    }
}

const LIST_1_0: Schema = query(&[("name", TEXT), ("uuid", UUID)]);
const LIST_1_3: Schema = query(&[("name", TEXT), ("uuid", UUID), ("member_of", TEXT)]);
const LIST_1_4: Schema = query(&[
    ("name", TEXT),
    ("uuid", UUID),
    ("member_of", TEXT),
    ("resources", TEXT),
]);
const LIST_1_14: Schema = query(&[
    ("name", TEXT),
    ("uuid", UUID),
    ("member_of", TEXT),
    ("resources", TEXT),
    ("in_tree", UUID),
]);
const LIST_1_18: Schema = query(&[
    ("name", TEXT),
    ("uuid", UUID),
    ("member_of", TEXT),
    ("resources", TEXT),
    ("in_tree", UUID),
    ("required", TEXT),
]);

/// The schema of the query of `GET /resource_providers`.
pub(crate) fn list(version: Microversion) -> &'static Schema {
    match version.minor() {
        18.. => &LIST_1_18,
        14.. => &LIST_1_14,
        4.. => &LIST_1_4,
        3 => &LIST_1_3,
        _ => &LIST_1_0,
    }
}

const AGGREGATES_1_1: Schema = Schema {
    types: &[Type::Array],
    items: Some(&UUID),
    unique_items: true,
    ..ANY
};
const AGGREGATES_1_19: Schema = Schema {
    types: &[Type::Object],
    properties: &[
        ("aggregates", AGGREGATES_1_1),
        ("resource_provider_generation", INTEGER),
    ],
    required: &["aggregates", "resource_provider_generation"],
    additional_properties: false,
    ..ANY
};

/// The schema of the body of `PUT /resource_providers/{uuid}/aggregates`.
pub(crate) fn aggregates(version: Microversion) -> &'static Schema {
    if version.since(19) {
        &AGGREGATES_1_19
    } else {
        &AGGREGATES_1_1
    }
}
