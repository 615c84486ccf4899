//! Images through the API: who sees them, who may change them, and what is refused.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod api;

use api::{ADMIN, Api, JSON, OTHER, OWNER, raw};
use placewright_api_image::Limits;
use serde_json::{Value, json};

#[tokio::test]
async fn an_image_is_created_shown_changed_and_deleted() {
    let api = Api::start().await;
    let mut fields = raw("a");
    fields["hw_cpu_policy"] = json!("dedicated");
    fields["min_ram"] = json!(512);
    fields["tags"] = json!(["y", "x"]);
    let created = api.post(OWNER, "/v2/images", fields).await;
    let id = created.headers["location"]
        .to_str()
        .unwrap()
        .rsplit('/')
        .next()
        .unwrap()
        .to_owned();
    let created = created.expect(201);
    assert_eq!(created["id"], id.as_str());
    let path = format!("/v2/images/{id}");
    let image = api.get(OWNER, &path).await.expect(200);
    assert_eq!(image, created);
    for (key, value) in [
        ("status", json!("queued")),
        ("visibility", json!("shared")),
        ("owner", json!("p1")),
        ("size", Value::Null),
        ("hw_cpu_policy", json!("dedicated")),
        ("tags", json!(["x", "y"])),
        ("file", json!(format!("{path}/file"))),
    ] {
        assert_eq!(image[key], value, "{key}");
    }
    let changes = json!([
        {"op": "replace", "path": "/name", "value": "b"},
        {"op": "add", "path": "/os_distro", "value": "debian"},
        {"op": "remove", "path": "/hw_cpu_policy"},
        {"op": "replace", "path": "/protected", "value": true},
    ]);
    let image = api.patch(OWNER, &id, changes).await.expect(200);
    assert_eq!(
        (&image["name"], &image["os_distro"]),
        (&json!("b"), &json!("debian"))
    );
    assert_eq!(image["hw_cpu_policy"], Value::Null);
    let message = api.delete(OWNER, &path).await.expect_error(403);
    assert!(message.contains("protected"), "{message}");
    let changes = json!([{"op": "replace", "path": "/protected", "value": false}]);
    api.patch(OWNER, &id, changes).await.expect(200);
    api.send(OWNER, "PUT", &format!("{path}/tags/z%20z"), (JSON, ""))
        .await
        .expect(204);
    api.delete(OWNER, &format!("{path}/tags/x"))
        .await
        .expect(204);
    api.delete(OWNER, &format!("{path}/tags/x"))
        .await
        .expect_error(404);
    assert_eq!(
        api.get(OWNER, &path).await.expect(200)["tags"],
        json!(["y", "z z"])
    );
    api.delete(OWNER, &path).await.expect(204);
    api.get(OWNER, &path).await.expect_error(404);
    api.delete(OWNER, &path).await.expect_error(404);
}

#[tokio::test]
async fn of_several_changes_none_is_made_when_one_is_refused() {
    let api = Api::start().await;
    let id = api.create(OWNER, raw("a")).await;
    let rename = json!({"op": "replace", "path": "/name", "value": "b"});
    for (wrong, status, word) in [
        (
            json!({"op": "replace", "path": "/status", "value": "active"}),
            403,
            "status",
        ),
        (
            json!({"op": "replace", "path": "/none", "value": "x"}),
            409,
            "none",
        ),
        (json!({"op": "remove", "path": "/none"}), 409, "none"),
        (json!({"op": "remove", "path": "/name"}), 403, "name"),
        (
            json!({"op": "replace", "path": "/min_ram", "value": -1}),
            400,
            "min_ram",
        ),
        (
            json!({"op": "replace", "path": "/visibility", "value": "open"}),
            400,
            "visibility",
        ),
        (
            json!({"op": "replace", "path": "/disk_format", "value": "floppy"}),
            400,
            "disk_format",
        ),
        (
            json!({"op": "add", "path": "/hw_cpu_policy", "value": "lazy"}),
            400,
            "hw_cpu_policy",
        ),
        (json!({"op": "add", "path": "/a", "value": 1}), 400, "a"),
        (json!({"op": "add", "path": "a", "value": "1"}), 400, "path"),
        (json!({"op": "add", "path": "/a"}), 400, "value"),
        (json!({"op": "move", "path": "/a", "value": "1"}), 400, "op"),
        (
            json!({"op": "replace", "path": "/owner", "value": "p2"}),
            403,
            "owner",
        ),
        (
            json!({"op": "replace", "path": "/visibility", "value": "public"}),
            403,
            "publicize",
        ),
    ] {
        let changes = json!([rename, wrong]);
        let message = api.patch(OWNER, &id, changes).await.expect_error(status);
        assert!(message.contains(word), "{wrong}: {message}");
    }
    let path = format!("/v2/images/{id}");
    assert_eq!(api.get(OWNER, &path).await.expect(200)["name"], "a");
    let body = (JSON, json!([rename]).to_string());
    api.send(OWNER, "PATCH", &path, body)
        .await
        .expect_error(415);
    api.send(OWNER, "PUT", &path, (JSON, ""))
        .await
        .expect_error(405);
}

#[tokio::test]
async fn what_cannot_be_is_refused_at_the_creation_too() {
    let api = Api::start().await;
    let id = api.create(OWNER, raw("a")).await;
    for (fields, status, word) in [
        (json!({"name": 7}), 400, "name"),
        (json!({"name": "x".repeat(256)}), 400, "name"),
        (json!({"size": 7}), 403, "size"),
        (json!({"id": "x"}), 400, "id"),
        (json!({"id": id}), 409, "exists"),
        (json!({"tags": "x"}), 400, "tags"),
        (json!({"tags": [""]}), 400, "tags"),
        (json!({"owner": "p2"}), 403, "owner"),
        (json!({"visibility": "public"}), 403, "publicize"),
        (json!([]), 400, "object"),
        (json!({"": "x"}), 400, "properties"),
        (json!({"a": "x".repeat(70_000)}), 413, "properties"),
    ] {
        let refused = api.post(OWNER, "/v2/images", fields.clone()).await;
        let message = refused.expect_error(status);
        assert!(message.contains(word), "{fields}: {message}");
    }
    // One property more than an image may have.
    let many: serde_json::Map<String, Value> = (0..129)
        .map(|number| (format!("p{number}"), json!("")))
        .collect();
    api.post(OWNER, "/v2/images", many.into())
        .await
        .expect_error(413);
    assert_eq!(api.names(ADMIN, "").await, ["a"]);
}

#[tokio::test]
async fn others_see_what_is_public_shared_or_asked_for() {
    let api = Api::start().await;
    let mut ids = Vec::new();
    for (name, visibility) in [
        ("private", "private"),
        ("shared", "shared"),
        ("community", "community"),
    ] {
        let mut fields = raw(name);
        fields["visibility"] = json!(visibility);
        ids.push(api.create(OWNER, fields).await);
    }
    let mut fields = raw("public");
    fields["visibility"] = json!("public");
    ids.push(api.create(ADMIN, fields).await);
    assert_eq!(
        api.names(OWNER, "?sort=name:asc").await,
        ["community", "private", "public", "shared"]
    );
    assert_eq!(api.names(OTHER, "").await, ["public"]);
    assert_eq!(
        api.names(OTHER, "?visibility=community").await,
        ["community"]
    );
    assert_eq!(
        api.names(OTHER, "?visibility=all&sort=name:asc").await,
        ["community", "public"]
    );
    // By image: the status with which another project reads it.
    for (id, seen) in ids.iter().zip([404, 404, 200, 200]) {
        let path = format!("/v2/images/{id}");
        assert_eq!(api.get(OTHER, &path).await.status, seen);
        let refused = if seen == 200 { 403 } else { 404 };
        assert_eq!(api.delete(OTHER, &path).await.status, refused);
        assert_eq!(api.patch(OTHER, id, json!([])).await.status, refused);
        assert_eq!(api.upload(OTHER, id, "x").await.status, refused);
        assert_eq!(api.get(ADMIN, &path).await.status, 200);
    }
}

#[tokio::test]
async fn a_member_sees_an_image_and_lists_it_once_it_has_accepted_it() {
    let api = Api::start().await;
    let id = api.create(OWNER, raw("shared")).await;
    let path = format!("/v2/images/{id}");
    let members = format!("{path}/members");
    api.post(OTHER, &members, json!({"member": "p2"}))
        .await
        .expect_error(404);
    let member = api
        .post(OWNER, &members, json!({"member": "p2"}))
        .await
        .expect(200);
    assert_eq!(member["status"], "pending");
    api.post(OWNER, &members, json!({"member": "p2"}))
        .await
        .expect_error(409);
    assert_eq!(api.get(OTHER, &path).await.status, 200);
    // The list is empty, because the member has not accepted the image.
    assert_eq!(api.names(OTHER, "").await, [""; 0]);
    assert_eq!(
        api.names(OTHER, "?visibility=shared&member_status=pending")
            .await,
        ["shared"]
    );
    let own = format!("{members}/p2");
    let accept = (JSON, json!({"status": "accepted"}).to_string());
    api.send(OWNER, "PUT", &own, accept.clone())
        .await
        .expect_error(403);
    api.send(OTHER, "PUT", &own, accept).await.expect(200);
    assert_eq!(api.names(OTHER, "?sort=name:asc").await, ["shared"]);
    assert_eq!(api.patch(OTHER, &id, json!([])).await.status, 403);
    api.delete(OTHER, &own).await.expect_error(403);
    api.delete(OWNER, &own).await.expect(204);
    api.get(OTHER, &path).await.expect_error(404);
}

#[tokio::test]
async fn lists_are_filtered_sorted_and_paged() {
    let api = Api::start().await;
    for number in 0..7 {
        let mut fields = raw(&format!("i{number}"));
        fields["min_ram"] = json!(100 * (number % 3));
        fields["parity"] = json!((number % 2).to_string());
        fields["tags"] = json!([format!("t{}", number % 2)]);
        api.create(OWNER, fields).await;
    }
    assert_eq!(
        api.names(OWNER, "?sort=name:asc&limit=2").await,
        ["i0", "i1"]
    );
    assert_eq!(
        api.names(OWNER, "?parity=1&sort_key=name&sort_dir=asc")
            .await,
        ["i1", "i3", "i5"]
    );
    assert_eq!(
        api.names(OWNER, "?tag=t0&tag=t1").await,
        Vec::<String>::new()
    );
    // Without a direction, lists are sorted downwards.
    assert_eq!(
        api.names(OWNER, "?name=in:i3,i5&sort=name").await,
        ["i5", "i3"]
    );
    assert_eq!(
        api.names(OWNER, "?min_ram=200&sort=name:asc").await,
        ["i2", "i5"]
    );
    assert_eq!(
        api.names(OWNER, "?status=active").await,
        Vec::<String>::new()
    );
    assert_eq!(
        api.names(OWNER, "?os_hidden=true").await,
        Vec::<String>::new()
    );
    assert_eq!(
        api.names(OWNER, "?created_at=gt:2100-01-01T00:00:00")
            .await
            .len(),
        0
    );
}

#[tokio::test]
async fn the_pages_of_a_list_have_each_image_once() {
    let api = Api::start().await;
    for number in 0..7 {
        let mut fields = raw(&format!("i{number}"));
        fields["min_ram"] = json!(100 * (number % 3));
        api.create(OWNER, fields).await;
    }
    let (mut names, mut next) = (
        Vec::new(),
        Some("/v2/images?limit=3&sort=min_ram:asc".to_owned()),
    );
    while let Some(path) = next {
        let page = api.get(OWNER, &path).await.expect(200);
        let images = page["images"].as_array().unwrap();
        assert!(images.len() <= 3);
        names.extend(
            images
                .iter()
                .map(|image| image["name"].as_str().unwrap().to_owned()),
        );
        next = page["next"].as_str().map(str::to_owned);
    }
    names.sort();
    assert_eq!(names, ["i0", "i1", "i2", "i3", "i4", "i5", "i6"]);
}

#[tokio::test]
async fn a_list_names_the_parameter_that_is_wrong() {
    let api = Api::start().await;
    for (query, field) in [
        ("limit=x", "limit"),
        ("marker=x", "marker"),
        ("marker=70ace000-0000-4000-8000-000000000001", "marker"),
        ("sort=colour", "sort"),
        ("sort_key=name&sort_dir=up", "sort_key"),
        ("visibility=open", "visibility"),
        ("member_status=x", "member_status"),
        ("protected=7", "protected"),
        ("created_at=yesterday", "created_at"),
        ("size_min=-1", "size_min"),
    ] {
        let refused = api.get(OWNER, &format!("/v2/images?{query}")).await;
        let message = refused.expect_error(400);
        assert!(message.starts_with(field), "{query}: {message}");
    }
}

#[tokio::test]
async fn a_project_has_no_more_images_than_it_may() {
    let api = Api::start_with(Limits {
        images_max: 2,
        ..Limits::default()
    })
    .await;
    let first = api.create(OWNER, raw("a")).await;
    api.create(OWNER, raw("b")).await;
    let message = api
        .post(OWNER, "/v2/images", raw("c"))
        .await
        .expect_error(413);
    assert!(message.contains("image.images_max"), "{message}");
    api.create(OTHER, raw("c")).await;
    api.delete(OWNER, &format!("/v2/images/{first}"))
        .await
        .expect(204);
    api.create(OWNER, raw("c")).await;
    let usage = api.get(OWNER, "/v2/info/usage").await.expect(200);
    assert_eq!(
        usage["usage"]["image_count_total"],
        json!({"limit": 2, "usage": 2})
    );
}

#[tokio::test]
async fn the_root_says_what_the_service_can_do_and_clients_may_keep_it() {
    let api = Api::start().await;
    let root = api.get("", "/").await;
    let tag = root.headers["etag"].to_str().unwrap().to_owned();
    let capabilities = root.expect(200)["capabilities"].clone();
    assert_eq!(capabilities["release"], env!("CARGO_PKG_VERSION"));
    let limits = Limits::default();
    assert_eq!(
        capabilities["limits"]["image_bytes"],
        limits.image_bytes_max
    );
    let headers = [("if-none-match", tag.as_str())];
    let again = api.send_with("", ("GET", "/"), &headers, "").await;
    assert_eq!((again.status, again.bytes.len()), (304, 0));
    assert_eq!(again.headers["etag"], tag);
}

#[tokio::test]
async fn clients_find_versions_and_schemas() {
    let api = Api::start().await;
    let versions = api.get("", "/").await.expect(200);
    assert_eq!(versions["versions"][0]["status"], "CURRENT");
    assert_eq!(
        versions["versions"][0]["links"][0]["href"],
        "http://cloud:9292/v2/"
    );
    assert_eq!(api.get("", "/versions").await.expect(200), versions);
    for name in ["image", "images", "member", "members"] {
        let schema = api
            .get(OWNER, &format!("/v2/schemas/{name}"))
            .await
            .expect(200);
        assert_eq!(schema["name"], name);
    }
    let imports = api.get(OWNER, "/v2/info/import").await.expect(200);
    assert_eq!(imports["import-methods"]["value"], json!([]));
    api.get(OWNER, "/v2/schemas/x").await.expect_error(404);
    api.get(OWNER, "/v2/images/x").await.expect_error(404);
    api.get(OWNER, "/v3").await.expect_error(404);
}
