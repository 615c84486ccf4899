//! Topology rules in flavors and in server groups that name servers, and named places as wishes.

use crate::api;

use std::collections::BTreeSet;

use api::Api;
use api::racks::{RACK_HOSTS, ROOM_HOSTS, active_host_number, host_name, host_number, start};
use serde_json::{Value, json};

const KEY: &str = "placewright:topology";
/// The UUID of no server.
const MISSING: &str = "70ace000-0000-4000-8000-00000000000f";

/// Makes a flavor with topology rules.
async fn create_flavor(api: &Api, id: &str, rules: &str) {
    api.create_flavor(id, 1).await;
    let body = json!({"extra_specs": {KEY: rules}});
    let path = format!("/flavors/{id}/os-extra_specs");
    api.post(&path, body).await.expect(200);
}

fn hints(hints: Value) -> Value {
    json!({"os:scheduler_hints": hints})
}

/// Creates a server on a host.
async fn create_on(api: &Api, name: &str, host: u32) -> String {
    let zone = json!({"availability_zone": format!(":{}", host_name(host))});
    let id = api.create_active_server(name, zone).await;
    assert_eq!(active_host_number(api, &id).await, host);
    id
}

async fn room_of(api: &Api, id: &str) -> u32 {
    active_host_number(api, id).await / ROOM_HOSTS
}

/// Resizes a server, and returns the number of its new host.
async fn resize(api: &Api, id: &str, flavor: &str) -> u32 {
    api.run_action(id, json!({"resize": {"flavorRef": flavor}}))
        .await
        .expect(202);
    let host = host_number(&api.wait_for_status(id, "VERIFY_RESIZE").await);
    api.run_action(id, json!({"confirmResize": null}))
        .await
        .expect(204);
    api.wait_for_status(id, "ACTIVE").await;
    host
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_a_flavor_keep_its_rules() {
    let api = start(8).await;
    let first = create_on(&api, "first", 0).await;
    let rule = format!("relation=different,level=room,to={first}");
    create_flavor(&api, "away", &rule).await;
    for name in ["a", "b", "c"] {
        let id = api
            .create_active_server(name, json!({"flavorRef": "away"}))
            .await;
        assert_eq!(room_of(&api, &id).await, 1);
        // The rule stays in effect for moves, although the flavor is another one now.
        if name == "a" {
            let path = format!("/flavors/away/os-extra_specs/{KEY}");
            let other = rule.replace("different", "same");
            let other = json!({KEY: other});
            api.put(&path, other).await.expect(200);
            api.run_action(&id, json!({"migrate": null}))
                .await
                .expect(202);
            let moved = host_number(&api.wait_for_status(&id, "VERIFY_RESIZE").await);
            assert_eq!(moved / ROOM_HOSTS, 1);
            api.run_action(&id, json!({"confirmResize": null}))
                .await
                .expect(204);
            api.wait_for_status(&id, "ACTIVE").await;
            api.put(&path, json!({KEY: rule.clone()})).await.expect(200);
        }
    }
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resize_exchanges_the_rules_of_the_flavor() {
    let api = start(8).await;
    let (first, other) = (create_on(&api, "0", 0).await, create_on(&api, "1", 4).await);
    let rule = format!("relation=same,level=room,to={first}");
    create_flavor(&api, "near", &rule).await;
    create_flavor(&api, "far", &rule.replace("same", "different")).await;
    // This rule of the server's own stays, whatever the flavor is.
    let hint = format!("relation=different,level=rack,to={other}");
    let extra = json!({"flavorRef": "near", "os:scheduler_hints": {KEY: hint}});
    let id = api.create_active_server("a", extra).await;
    assert_eq!(room_of(&api, &id).await, 0);
    for _ in 0..2 {
        // Hosts 4 and 5 are in the rack of the other server.
        assert!([6, 7].contains(&resize(&api, &id, "far").await));
        assert_eq!(resize(&api, &id, "near").await / ROOM_HOSTS, 0);
    }
    // Without a rule of the flavor, the server may be in the other room.
    resize(&api, &id, "1").await;
    let migrate = json!({"migrate": {"host": host_name(7)}});
    api.run_action(&id, migrate).await.expect(202);
    let host = host_number(&api.wait_for_status(&id, "VERIFY_RESIZE").await);
    assert_eq!(host, 7);
    api.run_action(&id, json!({"confirmResize": null}))
        .await
        .expect(204);
    api.wait_for_status(&id, "ACTIVE").await;
    assert_eq!(resize(&api, &id, "near").await / ROOM_HOSTS, 0);
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_one_request_are_related_by_their_flavor() {
    let api = start(6).await;
    create_flavor(&api, "apart", "relation=different,level=rack").await;
    let extra = json!({"flavorRef": "apart", "min_count": 3, "return_reservation_id": true});
    let response = api.create_server("s", extra).await.expect(202);
    let reservation = response["reservation_id"].as_str().unwrap();
    let path = format!("/servers/detail?reservation_id={reservation}");
    let servers = api.get(&path).await.expect(200)["servers"].clone();
    let mut ids = Vec::new();
    let mut racks = BTreeSet::new();
    for server in servers.as_array().unwrap() {
        let id = server["id"].as_str().unwrap().to_owned();
        racks.insert(active_host_number(&api, &id).await / RACK_HOSTS);
        ids.push(id);
    }
    assert_eq!(racks.len(), 3, "{ids:?}");
    // A resize to a flavor with the same rule keeps the servers apart: the only other host is in the same rack.
    create_flavor(&api, "apart-too", "relation=different,level=rack").await;
    let before = active_host_number(&api, &ids[0]).await;
    let after = resize(&api, &ids[0], "apart-too").await;
    assert_eq!(after / RACK_HOSTS, before / RACK_HOSTS);

    let many = json!({"flavorRef": "apart", "min_count": 101});
    let response = api.create_server("many", many).await;
    let message = response.expect_error(400, "badRequest");
    assert!(message.starts_with("server.flavorRef: "), "{message}");
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_rules_of_a_flavor_are_refused_when_it_is_made() {
    let api = start(2).await;
    // The flavor `f`, with one CPU.
    api.create_flavor("f", 1).await;
    let missing = format!("relation=same,level=rack,to={MISSING}");
    for (rules, field) in [
        ("rack", "[0]"),
        ("relation=same", "[0].level"),
        ("relation=same,level=aisle", "[0].level"),
        (
            "relation=same,level=rack;relation=apart,level=rack",
            "[1].relation",
        ),
        ("relation=near", "[0].strength"),
        (missing.as_str(), "[0].to"),
        (
            "relation=same,level=rack,strength=soft,place=no",
            "[0].place",
        ),
    ] {
        let body = json!({"extra_specs": {KEY: rules}});
        let response = api.post("/flavors/f/os-extra_specs", body).await;
        let message = response.expect_error(400, "badRequest");
        let path = format!("extra_specs[{KEY:?}]{field}");
        assert!(message.starts_with(&path), "{rules}: {message}");
        let path = format!("/flavors/f/os-extra_specs/{KEY}");
        let response = api.put(&path, json!({KEY: rules})).await;
        let message = response.expect_error(400, "badRequest");
        assert!(
            message.starts_with(&format!("[{KEY:?}]{field}")),
            "{message}"
        );
    }
    let specs = api.get("/flavors/f/os-extra_specs").await.expect(200);
    assert_eq!(specs["extra_specs"], json!({}));
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_of_a_group_may_name_servers() {
    let api = start(8).await;
    let first = create_on(&api, "first", 0).await;
    let rules = json!([
        {"relation": "different", "level": "room", "to": [first]},
        {"relation": "different", "level": "rack"},
    ]);
    let body = json!({"server_group": {
        "name": "g", "policy": "soft-affinity", "rules": {KEY: rules},
    }});
    let group = api.post("/os-server-groups", body).await.expect(200)["server_group"].clone();
    assert_eq!(group["rules"][KEY][0]["to"], json!([first]));
    let mut racks = BTreeSet::new();
    for name in ["a", "b"] {
        let hint = hints(json!({"group": group["id"]}));
        let id = api.create_active_server(name, hint).await;
        racks.insert(active_host_number(&api, &id).await / RACK_HOSTS);
    }
    assert_eq!(racks, BTreeSet::from([2, 3]));
    let hint = hints(json!({"group": group["id"]}));
    let third = api.create_server("c", hint).await.expect(202);
    let id = third["server"]["id"].as_str().unwrap();
    api.wait_for_status(id, "ERROR").await;
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_place_is_taken_if_possible() {
    let api = start(8).await;
    // Rack 3, by the end of its name.
    let wish = |relation: &str, place: &str| {
        hints(json!({KEY: {
            "relation": relation, "level": "rack", "strength": "soft", "place": place, "weight": 100,
        }}))
    };
    for number in 0..2 {
        let name = format!("in-{number}");
        let extra = wish("same", "room-1/1");
        let id = api.create_active_server(&name, extra).await;
        assert_eq!(active_host_number(&api, &id).await / RACK_HOSTS, 3);
        let extra = hints(json!({KEY:
            "relation=different,level=room,strength=soft,weight=100,place=room-1"}));
        let id = api.create_active_server("out", extra).await;
        assert_eq!(room_of(&api, &id).await, 0);
    }
    // Whatever is wished for, a server finds a host.
    let flavor_rule = "relation=same,level=rack,strength=soft,place=room-1/1";
    create_flavor(&api, "in", flavor_rule).await;
    let services = api.get("/os-services").await.expect(200)["services"].clone();
    for service in services.as_array().unwrap() {
        if [host_name(6), host_name(7)].contains(&service["host"].as_str().unwrap().to_owned()) {
            let path = format!("/os-services/{}", service["id"].as_str().unwrap());
            api.put(&path, json!({"status": "disabled"}))
                .await
                .expect(200);
        }
    }
    let id = api
        .create_active_server("f", json!({"flavorRef": "in"}))
        .await;
    assert_ne!(active_host_number(&api, &id).await / RACK_HOSTS, 3);

    for (rule, field) in [
        (
            json!({"relation": "same", "level": "rack", "place": "room-1/1"}),
            "strength",
        ),
        (
            json!({"relation": "spread", "level": "rack", "strength": "soft", "place": "room-1/1"}),
            "place",
        ),
        (
            json!({"relation": "same", "level": "host", "strength": "soft", "place": "room-1/1"}),
            "place",
        ),
        (
            json!({"relation": "same", "level": "rack", "strength": "soft", "place": "room-9/1"}),
            "place",
        ),
        // There is such a rack in each room.
        (
            json!({"relation": "same", "level": "rack", "strength": "soft", "place": "1"}),
            "place",
        ),
    ] {
        let response = api.create_server("x", hints(json!({KEY: rule}))).await;
        let message = response.expect_error(400, "badRequest");
        let path = format!("os:scheduler_hints.{KEY}[0].{field}: ");
        assert!(message.starts_with(&path), "{message}");
    }
    api.site.wait_until_at_rest().await;
}
