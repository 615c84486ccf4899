//! What users see of the topology, and which levels and places they may name in rules.

use crate::api;

use api::racks::{RACK_HOSTS, active_host_number, start, start_with};
use api::{Api, ApiResponse, IMAGE};
use placewright_api_compute::{ComputeOptions, VisibleTopology};
use serde_json::{Value, json};

const KEY: &str = "placewright:topology";
const PATH: &str = "/v2.1/placewright/topology";

/// Sends a request as a user who is no administrator.
async fn send_as_user(api: &Api, method: &str, path: &str, body: Option<Value>) -> ApiResponse {
    let headers = [
        ("x-auth-token", "bob:p2"),
        ("x-roles", "member,reader"),
        ("openstack-api-version", "compute 2.96"),
        ("content-type", "application/json"),
    ];
    api.send(method, path, &headers, body).await
}

async fn create_as_user(api: &Api, flavor: &str, rule: Value) -> ApiResponse {
    let body = json!({
        "server": {"name": "b", "flavorRef": flavor, "imageRef": IMAGE, "networks": "none"},
        "os:scheduler_hints": {KEY: rule},
    });
    send_as_user(api, "POST", "/v2.1/servers", Some(body)).await
}

async fn create_group_as_user(api: &Api, rule: Value) -> ApiResponse {
    let group = json!({"name": "g", "policy": "soft-affinity", "rules": {KEY: rule}});
    let body = json!({"server_group": group});
    send_as_user(api, "POST", "/v2.1/os-server-groups", Some(body)).await
}

/// Options with which users see these levels, and the places of those levels that are in `places`.
fn options(levels: &[&str], places: &[&str]) -> ComputeOptions {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    ComputeOptions {
        visible_topology: VisibleTopology {
            levels: list(levels),
            places: list(places),
        },
        ..ComputeOptions::default()
    }
}

/// Checks that a rule is refused in a hint and in a group, with the same field.
async fn expect_refused(api: &Api, rule: &Value, field: &str) {
    let response = create_as_user(api, "1", rule.clone()).await;
    let message = response.expect_error(400, "badRequest");
    let path = format!("os:scheduler_hints.{KEY}[0].{field}: ");
    assert!(message.starts_with(&path), "{message}");
    let response = create_group_as_user(api, rule.clone()).await;
    let message = response.expect_error(400, "badRequest");
    let path = format!("server_group.rules.{KEY}[0].{field}: ");
    assert!(message.starts_with(&path), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_options_users_see_no_level() {
    let api = start(4).await;
    let listed = send_as_user(&api, "GET", PATH, None).await.expect(200);
    assert_eq!(listed, json!({"topology": {"levels": []}}));
    let of_administrator = api.get("/placewright/topology").await.expect(200);
    let expected = json!([
        {"name": "rack", "places": ["room-0/0", "room-0/1"]},
        {"name": "room", "places": ["room-0"]},
    ]);
    assert_eq!(of_administrator["topology"]["levels"], expected);
    // A hidden level is refused with the same message as a level that does not exist.
    let refused = |level: &str| json!({"relation": "different", "level": level});
    let mut messages = Vec::new();
    for level in ["rack", "aisle"] {
        expect_refused(&api, &refused(level), "level").await;
        let response = create_as_user(&api, "1", refused(level)).await;
        messages.push(response.expect_error(400, "badRequest").to_owned());
    }
    assert_eq!(messages[0], messages[1]);
    // Rules about single hosts and about distances name no level of the topology, so every user may have them.
    for rule in [
        "relation=different,level=host",
        "relation=near,strength=soft",
    ] {
        create_as_user(&api, "1", json!(rule)).await.expect(202);
        create_group_as_user(&api, json!(rule)).await.expect(200);
    }
    // A flavor may have a level that its users do not see.
    let body = json!({"extra_specs": {KEY: "relation=different,level=rack"}});
    // The flavor `2`, with one CPU.
    api.create_flavor("2", 1).await;
    api.post("/flavors/2/os-extra_specs", body)
        .await
        .expect(200);
    let body = json!({"server": {
        "name": "b", "flavorRef": "2", "imageRef": IMAGE, "networks": "none", "min_count": 2,
        "return_reservation_id": true,
    }});
    let response = send_as_user(&api, "POST", "/v2.1/servers", Some(body)).await;
    let reservation = response.expect(202)["reservation_id"].clone();
    let path = format!(
        "/servers?all_tenants=1&reservation_id={}",
        reservation.as_str().unwrap()
    );
    let servers = api.get(&path).await.expect(200)["servers"].clone();
    let mut racks = Vec::new();
    for server in servers.as_array().unwrap() {
        let id = server["id"].as_str().unwrap();
        racks.push(active_host_number(&api, id).await / RACK_HOSTS);
    }
    racks.sort_unstable();
    assert_eq!(racks, [0, 1]);
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_see_and_name_what_the_operator_shows() {
    let api = start_with(4, options(&["rack", "aisle"], &["aisle"])).await;
    let listed = send_as_user(&api, "GET", PATH, None).await.expect(200);
    let levels = json!([{"name": "rack"}]);
    assert_eq!(listed["topology"]["levels"], levels);
    create_as_user(&api, "1", json!("relation=spread,level=rack"))
        .await
        .expect(202);
    expect_refused(&api, &json!("relation=spread,level=room"), "level").await;
    // Whether there is such a place or not, the answer is the same.
    let wish = |place: &str| {
        json!(format!(
            "relation=same,level=rack,strength=soft,place={place}"
        ))
    };
    let mut messages = Vec::new();
    for place in ["room-0/1", "nowhere"] {
        expect_refused(&api, &wish(place), "place").await;
        let response = create_as_user(&api, "1", wish(place)).await;
        messages.push(response.expect_error(400, "badRequest").to_owned());
    }
    assert_eq!(messages[0], messages[1]);
    api.site.wait_until_at_rest().await;

    let api = start_with(4, options(&["*"], &["rack"])).await;
    let listed = send_as_user(&api, "GET", PATH, None).await.expect(200);
    let levels = json!([{"name": "rack", "places": ["room-0/0", "room-0/1"]}, {"name": "room"}]);
    assert_eq!(listed["topology"]["levels"], levels);
    let response = create_as_user(&api, "1", wish("room-0/1"))
        .await
        .expect(202);
    let id = response["server"]["id"].as_str().unwrap();
    let host = active_host_number(&api, id).await;
    assert_eq!(host / RACK_HOSTS, 1);
    expect_refused(&api, &wish("nowhere"), "place").await;
    api.site.wait_until_at_rest().await;
}
