//! The limits that Keystone has for a service.

use placewright_auth::{KeystoneConfig, LimitsReader, Secret};
use placewright_testing::keystone::FakeKeystone;
use serde_json::{Value, json};

fn reader(keystone: &FakeKeystone, region: Option<&str>) -> LimitsReader {
    let config = KeystoneConfig {
        auth_url: keystone.url(),
        username: "nova".to_owned(),
        password: Secret::new("sesame"),
        ..KeystoneConfig::default()
    };
    LimitsReader::new(&config, "compute", region.map(str::to_owned)).unwrap()
}

/// A registered limit: the default of all projects. Without a region, it holds in all regions.
fn registered(name: &str, region: Value, limit: i64) -> Value {
    json!({"resource_name": name, "region_id": region, "default_limit": limit})
}

/// The limit of one project; -1 means that there is no limit.
fn limit(project: Value, name: &str, region: Value, limit: i64) -> Value {
    json!({"project_id": project, "resource_name": name, "region_id": region,
        "resource_limit": limit})
}

async fn keystone_with_limits() -> FakeKeystone {
    let keystone = FakeKeystone::start().await;
    keystone.set_list(
        "/services",
        json!({"services": [{"id": "s1", "type": "compute"}]}),
    );
    keystone.set_list(
        "/registered_limits",
        json!({"registered_limits": [
            registered("servers", Value::Null, 10),
            registered("servers", json!("one"), 20),
            registered("servers", json!("two"), 5),
            registered("class:VCPU", json!("two"), 8),
        ], "links": {"next": null}}),
    );
    keystone.set_list(
        "/limits",
        json!({"limits": [
            limit(json!("p"), "servers", json!("one"), -1),
            limit(json!("p"), "class:CUSTOM_GPU", Value::Null, 2),
            limit(json!("q"), "servers", json!("two"), 3),
            limit(Value::Null, "servers", Value::Null, 1),
        ]}),
    );
    keystone
}

#[tokio::test]
async fn limits_are_those_of_the_service_and_its_region() {
    let keystone = keystone_with_limits().await;
    let limits = reader(&keystone, Some("one")).read().await.unwrap();
    assert_eq!(limits.registered, [("servers".to_owned(), 20)].into());
    let limits_of_p = [
        ("class:CUSTOM_GPU".to_owned(), 2),
        ("servers".to_owned(), -1),
    ];
    assert_eq!(limits.projects["p"], limits_of_p.into());
    assert!(limits.projects["q"].is_empty());
    // Without a region, the least limit applies.
    let limits = reader(&keystone, None).read().await.unwrap();
    assert_eq!(limits.registered["servers"], 5);
    assert_eq!(limits.projects["q"]["servers"], 3);
    // The service user logs in with system scope.
    assert_eq!(
        keystone.last_login()["auth"]["scope"]["system"]["all"],
        true
    );
}

#[tokio::test]
async fn incomplete_and_invalid_responses_are_errors() {
    let keystone = keystone_with_limits().await;
    let reader = reader(&keystone, None);
    reader.read().await.unwrap();
    // The service user's token was revoked, so the service user logs in again.
    keystone.revoke_logins();
    reader.read().await.unwrap();
    for (path, body) in [
        ("/limits", json!({"limits": [], "truncated": true})),
        (
            "/limits",
            json!({"limits": [], "links": {"next": "http://x"}}),
        ),
        ("/limits", json!([])),
        ("/services", json!({"services": []})),
    ] {
        keystone.set_list(path, body);
        let error = reader.read().await.unwrap_err().to_string();
        assert!(
            error.starts_with("Keystone does not report the limits: "),
            "{error}"
        );
    }
    keystone.set_error_status(Some(503));
    let error = reader.read().await.unwrap_err().to_string();
    assert!(error.contains("503"), "{error}");
}
