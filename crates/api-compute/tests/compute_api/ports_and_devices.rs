//! The resource requests of ports and the device profiles of flavors: what is refused. What is accepted is in
//! `crates/cli/tests/cli/mappings.rs`, with an agent and a driver.

use crate::api;

use std::sync::Arc;

use api::Api;
use placewright_api_compute::{ComputeOptions, DeviceProfiles};
use serde_json::{Value, json};

const PORT: &str = "8d6f0a58-3b5e-4f64-a6d3-0d5f6a7b8c90";

/// Requests a server with one port and with further fields. Returns the message of the refusal.
async fn create(api: &Api, port: Value, further_fields: Value) -> String {
    let mut fields = json!({"networks": [port]});
    for (key, value) in further_fields.as_object().unwrap() {
        fields[key] = value.clone();
    }
    let response = api.create_server("s", fields).await;
    response.expect_error(400, "badRequest").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_resource_request_is_refused_with_its_field() {
    // One cell with one host.
    let api = Api::start(1, 1).await;
    // The flavor `1`, with one CPU.
    api.create_flavor("1", 1).await;
    let group = |id: &str| json!({"id": id, "resources": {"CUSTOM_GPU": 1}});
    let request =
        |groups: Value| json!({"port": PORT, "resource_request": {"request_groups": groups}});
    let too_many: Vec<Value> = (0..65).map(|number| group(&number.to_string())).collect();
    for (port, further, expected) in [
        (
            json!({"resource_request": {"request_groups": [group("g")]}}),
            json!({}),
            "server.networks[0].port: it is missing",
        ),
        (
            request(json!([{"id": "g"}])),
            json!({}),
            "server.networks[0].resource_request.request_groups[0]: missing field `resources`",
        ),
        (
            request(json!([{"id": "g", "resources": {"CUSTOM_GPU": "one"}}])),
            json!({}),
            "server.networks[0].resource_request.request_groups[0].resources.CUSTOM_GPU",
        ),
        (
            json!({"port": PORT, "resource_request": "much"}),
            json!({}),
            "server.networks[0].resource_request: ",
        ),
        (
            json!({"port": PORT, "resource_request": {
                "request_groups": [group("g")], "same_subtree": ["h"]}}),
            json!({}),
            "server.networks[0].resource_request.same_subtree",
        ),
        (
            request(json!([group("")])),
            json!({}),
            "server.networks[0].resource_request.request_groups[0].id: it must not be empty",
        ),
        (
            request(json!(too_many)),
            json!({}),
            "server.networks: all ports together must have at most 64 request groups",
        ),
        (
            request(json!([group("g")])),
            json!({"max_count": 2}),
            "server.max_count: a port is that of one server",
        ),
    ] {
        let message = create(&api, port, further).await;
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_may_not_give_resource_requests() {
    let api = Api::start(1, 1).await;
    api.create_flavor("1", 1).await;
    let server = json!({"server": {
        "name": "s", "flavorRef": "1", "imageRef": api::IMAGE, "networks": [
            {"port": PORT, "resource_request": {"resources": {"CUSTOM_GPU": 1}}}],
    }});
    let headers = [
        ("x-auth-token", "bob:other"),
        ("x-roles", "member,reader"),
        ("openstack-api-version", "compute 2.96"),
        ("content-type", "application/json"),
    ];
    let response = api
        .send("POST", "/v2.1/servers", &headers, Some(server))
        .await;
    response.expect_error(403, "forbidden");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_profile_has_to_be_in_the_file_also_for_a_resize() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profiles.json");
    std::fs::write(&path, r#"{"device_profiles": []}"#).unwrap();
    let options = ComputeOptions {
        device_profiles: Arc::new(DeviceProfiles::load(path).unwrap()),
        ..ComputeOptions::default()
    };
    let api = Api::start_with(1, 1, options).await;
    api.create_flavor("1", 1).await;
    api.create_flavor("2", 1).await;
    let id = api.create_active_server("a", json!({})).await;
    let extra_specs = json!({"extra_specs": {"accel:device_profile": "fpga"}});
    let path = "/flavors/2/os-extra_specs";
    api.post(path, extra_specs).await.expect(200);
    let created = api.create_server("b", json!({"flavorRef": "2"})).await;
    let resized = api
        .run_action(&id, json!({"resize": {"flavorRef": "2"}}))
        .await;
    for (response, field) in [(created, "server.flavorRef"), (resized, "resize.flavorRef")] {
        let message = response.expect_error(400, "badRequest");
        assert!(message.starts_with(field), "{message}");
        assert!(
            message.contains("compute.device_profiles_file"),
            "{message}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_reads_the_file_of_device_profiles_again_when_it_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profiles.json");
    let write = |profile: Value| {
        std::fs::write(&path, json!({"device_profiles": [profile]}).to_string()).unwrap();
    };
    write(json!({"name": "old", "groups": []}));
    let options = ComputeOptions {
        device_profiles: Arc::new(DeviceProfiles::load(path.clone()).unwrap()),
        ..ComputeOptions::default()
    };
    let api = Api::start_with(1, 1, options).await;
    api.create_flavor("2", 1).await;
    let extra_specs = json!({"extra_specs": {"accel:device_profile": "fpga"}});
    let extra_specs_path = "/flavors/2/os-extra_specs";
    api.post(extra_specs_path, extra_specs).await.expect(200);
    let create = async || api.create_server("a", json!({"flavorRef": "2"})).await;
    assert_eq!(create().await.status, 400);
    write(json!({"name": "fpga", "groups": [{"resources:FPGA": "1"}]}));
    // The file is looked at once a second.
    for _ in 0..400 {
        if create().await.status == 202 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    panic!("the changed file was not read");
}
