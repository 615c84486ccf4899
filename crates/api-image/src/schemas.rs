//! `/v2/schemas/…`: the attributes of images and members, for clients that ask before they print or set them.

use serde_json::{Value, json};

use crate::attributes::READ_ONLY;

/// The schema of a name; `None` if there is none.
pub(crate) fn find(name: &str) -> Option<Value> {
    match name {
        "image" => Some(image()),
        "images" => Some(list("images", image())),
        "member" => Some(member()),
        "members" => Some(list("members", member())),
        _ => None,
    }
}

fn image() -> Value {
    const ATTRIBUTES: [(&str, &str); 24] = [
        ("id", "string"),
        ("name", "string"),
        ("status", "string"),
        ("visibility", "string"),
        ("protected", "boolean"),
        ("os_hidden", "boolean"),
        ("owner", "string"),
        ("container_format", "string"),
        ("disk_format", "string"),
        ("min_disk", "integer"),
        ("min_ram", "integer"),
        ("size", "integer"),
        ("virtual_size", "integer"),
        ("checksum", "string"),
        ("os_hash_algo", "string"),
        ("os_hash_value", "string"),
        ("tags", "array"),
        ("created_at", "string"),
        ("updated_at", "string"),
        ("self", "string"),
        ("file", "string"),
        ("schema", "string"),
        ("direct_url", "string"),
        ("locations", "array"),
    ];
    let properties = ATTRIBUTES.iter().map(|(name, kind)| {
        let mut property = json!({"type": [kind, "null"]});
        if READ_ONLY.contains(name) {
            property["readOnly"] = json!(true);
        }
        ((*name).to_owned(), property)
    });
    json!({
        "name": "image",
        "properties": Value::Object(properties.collect()),
        "additionalProperties": {"type": "string"},
        "links": [
            {"rel": "self", "href": "{self}"},
            {"rel": "enclosure", "href": "{file}"},
            {"rel": "describedby", "href": "{schema}"},
        ],
    })
}

fn member() -> Value {
    json!({
        "name": "member",
        "properties": {
            "image_id": {"type": "string"},
            "member_id": {"type": "string"},
            "status": {"type": "string", "enum": ["pending", "accepted", "rejected"]},
            "created_at": {"type": "string"},
            "updated_at": {"type": "string"},
            "schema": {"type": "string", "readOnly": true},
        },
    })
}

fn list(name: &str, item: Value) -> Value {
    json!({
        "name": name,
        "properties": {
            name: {"type": "array", "items": item},
            "first": {"type": "string"},
            "next": {"type": "string"},
            "schema": {"type": "string"},
        },
        "links": [
            {"rel": "first", "href": "{first}"},
            {"rel": "next", "href": "{next}"},
            {"rel": "describedby", "href": "{schema}"},
        ],
    })
}
