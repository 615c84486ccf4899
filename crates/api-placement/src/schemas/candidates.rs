//! Schemas of the query of `GET /allocation_candidates`. Their names end with the first microversion that has them.

use super::TEXT;
use crate::microversion::Microversion;
use crate::pattern::Pattern;
use crate::schema::{ANY, Schema, Type};

const fn query(properties: &'static [(&'static str, Schema)]) -> Schema {
    Schema {
        types: &[Type::Object],
        properties,
        additional_properties: false,
        ..ANY
    }
}

const LIMIT: Schema = Schema {
    types: &[Type::Integer, Type::Text],
    pattern: Some(Pattern::Limit),
    minimum: Some(1),
    min_length: 1,
    ..ANY
};
const GROUP_POLICY: Schema = Schema {
    choices: &["none", "isolate"],
    ..TEXT
};

/// A query parameter whose name may end with the number of a group, such as `resources` or `resources1`.
macro_rules! numbered {
    ($name:literal) => {
        (
            Pattern::Numbered($name, concat!("^", $name, "([1-9][0-9]*)?$")),
            &TEXT,
        )
    };
}

/// A query parameter whose name may end with the suffix of a group, such as `resources` or `resources_NIC-1`.
macro_rules! suffixed {
    ($name:literal) => {
        (
            Pattern::Suffixed($name, concat!("^", $name, "([a-zA-Z0-9_-]{1,64})?$")),
            &TEXT,
        )
    };
}

/// A query in a version without numbered groups: the parameters describe a single group.
const fn ungrouped(properties: &'static [(&'static str, Schema)]) -> Schema {
    Schema {
        required: &["resources"],
        ..query(properties)
    }
}

const GET_1_10: Schema = ungrouped(&[("resources", TEXT)]);
const GET_1_16: Schema = ungrouped(&[("resources", TEXT), ("limit", LIMIT)]);
const GET_1_17: Schema = ungrouped(&[("resources", TEXT), ("limit", LIMIT), ("required", TEXT)]);
const GET_1_21: Schema = ungrouped(&[
    ("resources", TEXT),
    ("limit", LIMIT),
    ("required", TEXT),
    ("member_of", TEXT),
]);
const GET_1_25: Schema = Schema {
    pattern_properties: &[
        numbered!("resources"),
        numbered!("required"),
        numbered!("member_of"),
    ],
    ..query(&[("limit", LIMIT), ("group_policy", GROUP_POLICY)])
};
const GET_1_31: Schema = Schema {
    pattern_properties: &[
        numbered!("resources"),
        numbered!("required"),
        numbered!("member_of"),
        numbered!("in_tree"),
    ],
    ..query(&[("limit", LIMIT), ("group_policy", GROUP_POLICY)])
};
const SUFFIXED: &[(Pattern, &Schema)] = &[
    suffixed!("resources"),
    suffixed!("required"),
    suffixed!("member_of"),
    suffixed!("in_tree"),
];
const GET_1_33: Schema = Schema {
    pattern_properties: SUFFIXED,
    ..query(&[("limit", LIMIT), ("group_policy", GROUP_POLICY)])
};
const GET_1_35: Schema = Schema {
    pattern_properties: SUFFIXED,
    ..query(&[
        ("limit", LIMIT),
        ("group_policy", GROUP_POLICY),
        ("root_required", TEXT),
    ])
};
const GET_1_36: Schema = Schema {
    pattern_properties: SUFFIXED,
    ..query(&[
        ("limit", LIMIT),
        ("group_policy", GROUP_POLICY),
        ("root_required", TEXT),
        ("same_subtree", TEXT),
    ])
};

/// The schema of the query of `GET /allocation_candidates`.
pub(crate) fn list(version: Microversion) -> &'static Schema {
    match version.minor() {
        36.. => &GET_1_36,
        35 => &GET_1_35,
        33.. => &GET_1_33,
        31.. => &GET_1_31,
        25.. => &GET_1_25,
        21.. => &GET_1_21,
        17.. => &GET_1_17,
        16 => &GET_1_16,
        _ => &GET_1_10,
    }
}
