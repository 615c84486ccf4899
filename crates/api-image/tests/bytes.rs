//! The bytes of images: uploaded whole or not at all, never changed, within limits.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod api;

use api::{ADMIN, Api, BYTES, JSON, OTHER, OWNER, raw};
use bytes::Bytes;
use placewright_api_image::{ImageFolder, Limits};
use serde_json::{Value, json};

/// The MD5 of [`content`].
const MD5: &str = "d85bc23258cf4ec207963f9f2f02c38d";
/// The first digits of the SHA-512 of [`content`].
const SHA512: &str = "b81a798b45fb1a363cae101abc7af6ec";

/// More bytes than gather in memory before they are written.
fn content() -> Bytes {
    (0..3_000_000_u32)
        .map(|number| (number % 251) as u8)
        .collect()
}

#[tokio::test]
async fn what_was_uploaded_is_downloaded_with_its_hashes() {
    let api = Api::start().await;
    let id = api.create(OWNER, raw("a")).await;
    let (path, file) = (format!("/v2/images/{id}"), format!("/v2/images/{id}/file"));
    assert_eq!(api.get(OWNER, &file).await.status, 204);
    api.upload(OWNER, &id, content()).await.expect(204);
    let image = api.get(OWNER, &path).await.expect(200);
    assert_eq!(
        (&image["status"], &image["size"]),
        (&json!("active"), &json!(3_000_000))
    );
    // The hashes are as md5sum and sha512sum print them.
    assert_eq!(image["checksum"], MD5);
    assert_eq!(image["os_hash_algo"], "sha512");
    assert!(image["os_hash_value"].as_str().unwrap().starts_with(SHA512));
    assert_eq!(image["os_hash_value"].as_str().unwrap().len(), 128);
    let download = api.get(OWNER, &file).await;
    assert_eq!(
        (download.status, &download.headers["content-md5"]),
        (200, &MD5.parse().unwrap())
    );
    assert_eq!(download.headers["content-type"], BYTES);
    assert_eq!(download.bytes, content());
    api.get(OTHER, &file).await.expect_error(404);
    assert_eq!(api.files(), [id.as_str()]);
    // The bytes never change.
    api.upload(OWNER, &id, "other").await.expect_error(409);
    let changes = json!([{"op": "replace", "path": "/disk_format", "value": "qcow2"}]);
    api.patch(OWNER, &id, changes).await.expect_error(403);
    assert_eq!(api.get(OWNER, &file).await.bytes, content());
    api.delete(OWNER, &path).await.expect(204);
    assert!(api.files().is_empty());
}

#[tokio::test]
async fn an_image_may_be_empty() {
    let api = Api::start().await;
    let id = api.create(OWNER, raw("a")).await;
    api.upload(OWNER, &id, "").await.expect(204);
    let image = api
        .get(OWNER, &format!("/v2/images/{id}"))
        .await
        .expect(200);
    assert_eq!(image["checksum"], "d41d8cd98f00b204e9800998ecf8427e");
    let download = api.get(OWNER, &format!("/v2/images/{id}/file")).await;
    assert_eq!((download.status, download.bytes.len()), (200, 0));
}

#[tokio::test]
async fn what_is_too_large_leaves_nothing() {
    let api = Api::start_with(Limits {
        image_bytes_max: 2_000_000,
        project_bytes_max: 2_500_000,
        ..Limits::default()
    })
    .await;
    let id = api.create(OWNER, raw("a")).await;
    let message = api.upload(OWNER, &id, content()).await.expect_error(413);
    assert!(message.contains("image.image_bytes_max"), "{message}");
    api.upload(OWNER, &id, content().slice(..2_000_000))
        .await
        .expect(204);
    let second = api.create(OWNER, raw("b")).await;
    let refused = api.upload(OWNER, &second, content().slice(..500_001)).await;
    let message = refused.expect_error(413);
    assert!(message.contains("image.project_bytes_max"), "{message}");
    assert_eq!(api.files(), [id.as_str()]);
    api.upload(OWNER, &second, content().slice(..500_000))
        .await
        .expect(204);
    let third = api.create(OTHER, raw("c")).await;
    api.upload(OTHER, &third, content().slice(..2_000_000))
        .await
        .expect(204);
    // The 2,500,000 bytes of the first project in MiB, rounded up.
    let usage = api.get(OWNER, "/v2/info/usage").await.expect(200);
    assert_eq!(usage["usage"]["image_size_total"]["usage"], 3);
}

#[tokio::test]
async fn a_full_disk_is_said_and_leaves_nothing() {
    let api = Api::start_with(Limits {
        free_bytes_min: u64::MAX,
        ..Limits::default()
    })
    .await;
    let id = api.create(OWNER, raw("a")).await;
    let refused = api.upload(OWNER, &id, content()).await;
    let body: Value = refused.expect(507);
    assert_eq!(body["code"], "507 Insufficient Storage");
    let image = api
        .get(OWNER, &format!("/v2/images/{id}"))
        .await
        .expect(200);
    assert_eq!(image["status"], "queued");
    assert!(api.files().is_empty());
}

#[tokio::test]
async fn uploads_need_the_right_type_and_an_image_that_exists() {
    let api = Api::start().await;
    let id = api.create(OWNER, raw("a")).await;
    let path = format!("/v2/images/{id}/file");
    api.send(OWNER, "PUT", &path, (JSON, "{}"))
        .await
        .expect_error(415);
    let unknown = "70ace000-0000-4000-8000-000000000001";
    api.upload(ADMIN, unknown, "x").await.expect_error(404);
    api.upload(ADMIN, &id, "x").await.expect(204);
}

#[tokio::test]
async fn bytes_that_are_missing_are_an_error_and_not_an_empty_image() {
    let api = Api::start().await;
    let id = api.create(OWNER, raw("a")).await;
    api.upload(OWNER, &id, "bytes").await.expect(204);
    std::fs::remove_file(api.folder().join(&id)).unwrap();
    let path = format!("/v2/images/{id}/file");
    let message = api.get(OWNER, &path).await.expect_error(500);
    assert!(message.contains("missing"), "{message}");
}

#[tokio::test]
async fn what_ended_processes_left_is_removed_when_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let images = ImageFolder::open(folder.path().join("images")).unwrap();
    let known = uuid::Uuid::from_u128(1);
    // Files are old after a day.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 24 * 3600);
    let write = |name: &str, is_old: bool| {
        let file = std::fs::File::create(folder.path().join("images").join(name)).unwrap();
        if is_old {
            file.set_modified(old).unwrap();
        }
    };
    let unknown = uuid::Uuid::from_u128(2).to_string();
    write(&known.to_string(), true);
    write(&unknown, true);
    write(".upload-a", true);
    write(".upload-b", false);
    write("notes", true);
    // The bytes of the unknown image and the old unfinished upload are removed.
    assert_eq!(images.remove_left_over(|image| image == known).unwrap(), 2);
    let left = std::fs::read_dir(folder.path().join("images"))
        .unwrap()
        .count();
    assert_eq!(left, 3);
}
