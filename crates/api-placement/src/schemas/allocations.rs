//! Schemas of allocations: of one consumer, of several, and within a reshape. Their names end with the first
//! microversion that has them.

use super::{EXTERNAL_ID, INTEGER, UUID, inventories};
use crate::microversion::Microversion;
use crate::pattern::Pattern;
use crate::schema::{ANY, Schema, Type};

const RESOURCES: Schema = Schema {
    types: &[Type::Object],
    min_properties: 1,
    pattern_properties: &[(
        Pattern::Name,
        &Schema {
            minimum: Some(1),
            ..INTEGER
        },
    )],
    additional_properties: false,
    ..ANY
};

/// Allocations as a list, before microversion 1.12.
const LIST: Schema = Schema {
    types: &[Type::Array],
    min_items: 1,
    items: Some(&Schema {
        types: &[Type::Object],
        properties: &[
            (
                "resource_provider",
                Schema {
                    types: &[Type::Object],
                    properties: &[("uuid", UUID)],
                    required: &["uuid"],
                    additional_properties: false,
                    ..ANY
                },
            ),
            ("resources", RESOURCES),
        ],
        required: &["resource_provider", "resources"],
        additional_properties: false,
        ..ANY
    }),
    ..ANY
};

/// Allocations by provider, possibly none.
const BY_PROVIDER: Schema = Schema {
    types: &[Type::Object],
    pattern_properties: &[(
        Pattern::Uuid36,
        &Schema {
            types: &[Type::Object],
            properties: &[("generation", INTEGER), ("resources", RESOURCES)],
            required: &["resources"],
            additional_properties: false,
            ..ANY
        },
    )],
    additional_properties: false,
    ..ANY
};

const GENERATION: Schema = Schema {
    types: &[Type::Integer, Type::Null],
    ..ANY
};

/// The providers of each request group; validated, but not stored.
const MAPPINGS: Schema = Schema {
    types: &[Type::Object],
    min_properties: 1,
    pattern_properties: &[(
        Pattern::GroupSuffix,
        &Schema {
            types: &[Type::Array],
            min_items: 1,
            items: Some(&UUID),
            ..ANY
        },
    )],
    ..ANY
};

const CONSUMER_TYPE: Schema = Schema {
    pattern: Some(Pattern::Name),
    ..EXTERNAL_ID
};

/// An object that may have no other properties than `properties`.
const fn closed_object(
    properties: &'static [(&'static str, Schema)],
    required: &'static [&'static str],
) -> Schema {
    Schema {
        types: &[Type::Object],
        properties,
        required,
        additional_properties: false,
        ..ANY
    }
}

const PUT_1_0: Schema = closed_object(&[("allocations", LIST)], &["allocations"]);
const PUT_1_8: Schema = closed_object(
    &[
        ("allocations", LIST),
        ("project_id", EXTERNAL_ID),
        ("user_id", EXTERNAL_ID),
    ],
    &["allocations", "project_id", "user_id"],
);
const PUT_1_12: Schema = closed_object(
    &[
        (
            "allocations",
            Schema {
                min_properties: 1,
                ..BY_PROVIDER
            },
        ),
        ("project_id", EXTERNAL_ID),
        ("user_id", EXTERNAL_ID),
    ],
    &["allocations", "project_id", "user_id"],
);
/// A consumer in the body of `POST`: as in [`PUT_1_12`], but allocations may be empty.
const MEMBER_1_13: Schema = closed_object(
    &[
        ("allocations", BY_PROVIDER),
        ("project_id", EXTERNAL_ID),
        ("user_id", EXTERNAL_ID),
    ],
    &["allocations", "project_id", "user_id"],
);
/// A consumer in the body of `POST`. From microversion 1.28 on the body of `PUT` has the same form.
const MEMBER_1_28: Schema = closed_object(
    &[
        ("allocations", BY_PROVIDER),
        ("project_id", EXTERNAL_ID),
        ("user_id", EXTERNAL_ID),
        ("consumer_generation", GENERATION),
    ],
    &[
        "allocations",
        "project_id",
        "user_id",
        "consumer_generation",
    ],
);
const MEMBER_1_34: Schema = closed_object(
    &[
        ("allocations", BY_PROVIDER),
        ("project_id", EXTERNAL_ID),
        ("user_id", EXTERNAL_ID),
        ("consumer_generation", GENERATION),
        ("mappings", MAPPINGS),
    ],
    &[
        "allocations",
        "project_id",
        "user_id",
        "consumer_generation",
    ],
);
const MEMBER_1_38: Schema = closed_object(
    &[
        ("allocations", BY_PROVIDER),
        ("project_id", EXTERNAL_ID),
        ("user_id", EXTERNAL_ID),
        ("consumer_generation", GENERATION),
        ("mappings", MAPPINGS),
        ("consumer_type", CONSUMER_TYPE),
    ],
    &[
        "allocations",
        "project_id",
        "user_id",
        "consumer_generation",
        "consumer_type",
    ],
);

/// The schema of the body of `PUT /allocations/{consumer_uuid}`.
pub(crate) fn put(version: Microversion) -> &'static Schema {
    match version.minor() {
        38.. => &MEMBER_1_38,
        34.. => &MEMBER_1_34,
        28.. => &MEMBER_1_28,
        12.. => &PUT_1_12,
        8.. => &PUT_1_8,
        _ => &PUT_1_0,
    }
}

/// An object whose keys are the UUIDs of consumers.
const fn object_by_consumer(
    member_patterns: &'static [(Pattern, &'static Schema)],
    min_properties: usize,
) -> Schema {
    Schema {
        types: &[Type::Object],
        min_properties,
        pattern_properties: member_patterns,
        additional_properties: false,
        ..ANY
    }
}

const POST_1_13: Schema = object_by_consumer(&[(Pattern::Uuid36, &MEMBER_1_13)], 1);
const POST_1_28: Schema = object_by_consumer(&[(Pattern::Uuid36, &MEMBER_1_28)], 1);
const POST_1_34: Schema = object_by_consumer(&[(Pattern::Uuid36, &MEMBER_1_34)], 1);
const POST_1_38: Schema = object_by_consumer(&[(Pattern::Uuid36, &MEMBER_1_38)], 1);

/// The schema of the body of `POST /allocations`.
pub(crate) fn post(version: Microversion) -> &'static Schema {
    match version.minor() {
        38.. => &POST_1_38,
        34.. => &POST_1_34,
        28.. => &POST_1_28,
        _ => &POST_1_13,
    }
}

const RESHAPE_INVENTORIES: Schema = Schema {
    types: &[Type::Object],
    min_properties: 1,
    pattern_properties: &[(Pattern::Uuid36, &inventories::SET)],
    additional_properties: false,
    ..ANY
};

const RESHAPE_1_30: Schema = closed_object(
    &[
        ("inventories", RESHAPE_INVENTORIES),
        (
            "allocations",
            object_by_consumer(&[(Pattern::Uuid36, &MEMBER_1_28)], 0),
        ),
    ],
    &["inventories", "allocations"],
);
const RESHAPE_1_34: Schema = closed_object(
    &[
        ("inventories", RESHAPE_INVENTORIES),
        (
            "allocations",
            object_by_consumer(&[(Pattern::Uuid36, &MEMBER_1_34)], 0),
        ),
    ],
    &["inventories", "allocations"],
);
const RESHAPE_1_38: Schema = closed_object(
    &[
        ("inventories", RESHAPE_INVENTORIES),
        (
            "allocations",
            object_by_consumer(&[(Pattern::Uuid36, &MEMBER_1_38)], 0),
        ),
    ],
    &["inventories", "allocations"],
);

/// The schema of the body of `POST /reshaper`.
pub(crate) fn reshape(version: Microversion) -> &'static Schema {
    match version.minor() {
        38.. => &RESHAPE_1_38,
        34.. => &RESHAPE_1_34,
        _ => &RESHAPE_1_30,
    }
}
