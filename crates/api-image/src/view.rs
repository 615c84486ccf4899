//! Images as the API shows them.

use placewright_conductor::super_conductor::{Image, Member, MemberStatus, Visibility};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::time;

/// The name of a visibility.
pub(crate) fn visibility(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Private => "private",
        Visibility::Shared => "shared",
        Visibility::Community => "community",
        Visibility::Public => "public",
    }
}

/// The name of an image's status.
pub(crate) fn status(image: &Image) -> &'static str {
    match image.content {
        Some(_) => "active",
        None => "queued",
    }
}

/// The name of a member's status.
pub(crate) fn member_status(status: MemberStatus) -> &'static str {
    match status {
        MemberStatus::Pending => "pending",
        MemberStatus::Accepted => "accepted",
        MemberStatus::Rejected => "rejected",
    }
}

/// An image with its properties.
pub(crate) fn image(id: Uuid, image: &Image) -> Value {
    let mut shown = Map::new();
    let content = image.content.as_ref();
    // A property may have the name of an attribute that an earlier release did not know. Attributes are inserted last,
    // so that no property hides one.
    for (name, value) in &image.properties {
        shown.insert(name.clone(), json!(value));
    }
    let attributes = json!({
        "id": id,
        "name": image.name,
        "status": status(image),
        "visibility": visibility(image.visibility),
        "protected": image.is_protected,
        "os_hidden": image.is_hidden,
        "owner": image.owner,
        "container_format": image.container_format,
        "disk_format": image.disk_format,
        "min_disk": image.min_disk_gb,
        "min_ram": image.min_ram_mb,
        "size": content.map(|content| content.size),
        "virtual_size": null,
        "checksum": content.map(|content| &content.md5),
        "os_hash_algo": content.map(|_| "sha512"),
        "os_hash_value": content.map(|content| &content.sha512),
        "tags": image.tags,
        "created_at": time::format(image.created_at),
        "updated_at": time::format(image.updated_at),
        "self": format!("/v2/images/{id}"),
        "file": format!("/v2/images/{id}/file"),
        "schema": "/v2/schemas/image",
    });
    if let Value::Object(attributes) = attributes {
        shown.extend(attributes);
    }
    Value::Object(shown)
}

/// A member of an image.
pub(crate) fn member(image: Uuid, project: &str, member: &Member) -> Value {
    json!({
        "image_id": image,
        "member_id": project,
        "status": member_status(member.status),
        "created_at": time::format(member.created_at),
        "updated_at": time::format(member.updated_at),
        "schema": "/v2/schemas/member",
    })
}
