//! Schemas of the query of `GET /usages`.

use super::EXTERNAL_ID;
use crate::microversion::Microversion;
use crate::pattern::Pattern;
use crate::schema::{ANY, Schema, Type};

const GET_1_9: Schema = Schema {
    types: &[Type::Object],
    properties: &[("project_id", EXTERNAL_ID), ("user_id", EXTERNAL_ID)],
    required: &["project_id"],
    additional_properties: false,
    ..ANY
};
const GET_1_38: Schema = Schema {
    properties: &[
        ("project_id", EXTERNAL_ID),
        ("user_id", EXTERNAL_ID),
        (
            "consumer_type",
            Schema {
                pattern: Some(Pattern::ConsumerTypeQuery),
                ..EXTERNAL_ID
            },
        ),
    ],
    ..GET_1_9
};

/// The schema of the query of `GET /usages`.
pub(crate) fn get(version: Microversion) -> &'static Schema {
    if version.since(38) {
        &GET_1_38
    } else {
        &GET_1_9
    }
}
