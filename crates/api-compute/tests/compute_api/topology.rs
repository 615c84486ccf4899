//! Topology rules of server groups and of hints, under concurrent claims and moves.

use crate::api;

use std::collections::BTreeMap;
use std::time::Duration;

use api::Api;
use api::racks::{RACK_HOSTS, ROOM_HOSTS, active_host_number, host_name, host_number, start};
use serde_json::{Value, json};

const HINT: &str = "placewright:topology";
/// The UUID of no server.
const MISSING: &str = "70ace000-0000-4000-8000-00000000000f";
async fn create_group(api: &Api, policy: &str, rules: Value) -> Value {
    let body = json!({"server_group": {"name": "g", "policy": policy, "rules": {HINT: rules}}});
    api.post("/os-server-groups", body).await.expect(200)["server_group"].clone()
}

fn hints(hints: Value) -> Value {
    json!({"os:scheduler_hints": hints})
}

fn id_of(created: &Value) -> String {
    created["server"]["id"].as_str().unwrap().to_owned()
}

async fn fault_message(api: &Api, id: &str) -> String {
    let server = api.wait_for_status(id, "ERROR").await;
    server["fault"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_boot_at_once_are_in_racks_of_their_own() {
    let api = start(6).await;
    // By the soft policy alone all members would be on one host.
    let rule = json!({"level": "rack", "relation": "different"});
    let group = create_group(&api, "soft-affinity", rule.clone()).await;
    let rules = json!({HINT: [{"level": "rack", "relation": "different", "strength": "hard"}]});
    assert_eq!(group["rules"], rules);
    let path = format!("/os-server-groups/{}", group["id"].as_str().unwrap());
    assert_eq!(
        api.get(&path).await.expect(200)["server_group"]["rules"],
        rules
    );
    let hint = hints(json!({"group": group["id"]}));
    let boots = ["a", "b", "c", "d"].map(|name| api.create_server(name, hint.clone()));
    let [a, b, c, d] = boots;
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    let ids = [a, b, c, d].map(|response| id_of(&response.expect(202)));
    let mut racks = BTreeMap::new();
    let mut unplaced = Vec::new();
    for id in &ids {
        let server = wait_until_built(&api, id).await;
        if server["status"] == "ACTIVE" {
            racks.insert(host_number(&server) / RACK_HOSTS, id.clone());
        } else {
            unplaced.push(id);
        }
    }
    assert_eq!(racks.len(), 3, "{racks:?}");
    let [unplaced] = unplaced.as_slice() else {
        panic!("{unplaced:?}")
    };
    let message = fault_message(&api, unplaced).await;
    assert!(
        message.contains("rules of groups and topology"),
        "{message}"
    );

    // A member that moves stays in its rack, because the other racks have members.
    let (rack, moving) = racks.iter().next().unwrap();
    let before = active_host_number(&api, moving).await;
    api.run_action(moving, json!({"migrate": null}))
        .await
        .expect(202);
    let moved = host_number(&api.wait_for_status(moving, "VERIFY_RESIZE").await);
    assert_eq!(moved / RACK_HOSTS, *rack);
    assert_ne!(moved, before);
    api.run_action(moving, json!({"confirmResize": null}))
        .await
        .expect(204);
    api.wait_for_status(moving, "ACTIVE").await;
    api.delete(&path).await.expect(204);
    api.site.wait_until_at_rest().await;
}

async fn wait_until_built(api: &Api, id: &str) -> Value {
    for _ in 0..1000 {
        let server = api.get(&format!("/servers/{id}")).await.expect(200)["server"].clone();
        if server["status"] != "BUILD" {
            return server;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{id} is never settled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_relate_a_server_to_the_hosts_of_others() {
    let api = start(8).await;
    let first_id = api.create_active_server("first", json!({})).await;
    let first_host = active_host_number(&api, &first_id).await;
    let hint_relative_to_first = |relation: &str, level: &str| {
        hints(json!({HINT: format!("relation={relation},level={level},to={first_id}")}))
    };
    for (number, relation) in ["same", "different"]
        .into_iter()
        .cycle()
        .take(6)
        .enumerate()
    {
        let id = api
            .create_active_server(
                &format!("vm-{number}"),
                hint_relative_to_first(relation, "room"),
            )
            .await;
        let host = active_host_number(&api, &id).await;
        assert_eq!(
            host / ROOM_HOSTS == first_host / ROOM_HOSTS,
            relation == "same"
        );
    }
    // Two rules at once: in the room of the first server, and not in its rack.
    let two_rules = hints(json!({HINT: [
        {"level": "room", "relation": "same", "to": [first_id]},
        {"level": "rack", "relation": "different", "to": first_id},
    ]}));
    let id = api.create_active_server("both", two_rules).await;
    let host = active_host_number(&api, &id).await;
    assert_eq!(host / ROOM_HOSTS, first_host / ROOM_HOSTS);
    assert_ne!(host / RACK_HOSTS, first_host / RACK_HOSTS);
    // The rules stay in effect for moves: of the four hosts of the room, two are in the rack of the first
    // server, and one is the present host.
    api.run_action(&id, json!({"migrate": null}))
        .await
        .expect(202);
    let moved = host_number(&api.wait_for_status(&id, "VERIFY_RESIZE").await);
    assert_eq!(moved / RACK_HOSTS, host / RACK_HOSTS);
    api.run_action(&id, json!({"confirmResize": null}))
        .await
        .expect(204);
    api.wait_for_status(&id, "ACTIVE").await;
    // Rules that contradict each other: in the rack of a server, but in another room.
    let contradiction = format!(
        "relation=same,level=rack,to={first_id};relation=different,level=room,to={first_id}"
    );
    let contradiction = api
        .create_server("never", hints(json!({HINT: contradiction})))
        .await
        .expect(202);
    let message = fault_message(&api, &id_of(&contradiction)).await;
    assert!(
        message.contains("rules of groups and topology"),
        "{message}"
    );
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_one_request_are_spread_over_rooms() {
    let api = start(8).await;
    let spread = json!({
        "os:scheduler_hints": {HINT: "relation=spread,level=room"},
        "min_count": 6, "return_reservation_id": true,
    });
    let response = api.create_server("s", spread).await.expect(202);
    let path = format!(
        "/servers/detail?reservation_id={}",
        response["reservation_id"].as_str().unwrap()
    );
    let ids: Vec<String> = api.get(&path).await.expect(200)["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 6);
    let mut rooms = BTreeMap::new();
    for id in &ids {
        *rooms
            .entry(active_host_number(&api, id).await / ROOM_HOSTS)
            .or_insert(0) += 1;
    }
    assert_eq!(rooms, BTreeMap::from([(0, 3), (1, 3)]));
    // A server that moves is not counted on its old host.
    api.run_action(&ids[0], json!({"migrate": null}))
        .await
        .expect(202);
    let before = current_host_number(&api, &ids[0]).await;
    let moved = host_number(&api.wait_for_status(&ids[0], "VERIFY_RESIZE").await);
    assert_eq!(moved / ROOM_HOSTS, before / ROOM_HOSTS);
    api.run_action(&ids[0], json!({"revertResize": null}))
        .await
        .expect(202);
    api.wait_for_status(&ids[0], "ACTIVE").await;
    api.site.wait_until_at_rest().await;
}

async fn current_host_number(api: &Api, id: &str) -> u32 {
    let server = api.get(&format!("/servers/{id}")).await.expect(200);
    host_number(&server["server"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evacuated_member_keeps_the_rules_of_its_group() {
    let mut api = start(6).await;
    let rule = json!("relation=different,level=rack");
    let group = create_group(&api, "soft-anti-affinity", rule).await;
    let mut ids = Vec::new();
    for number in [0, 2, 5] {
        let mut request = hints(json!({"group": group["id"]}));
        request["availability_zone"] = json!(format!(":{}", host_name(number)));
        let id = api
            .create_active_server(&format!("on-{number}"), request)
            .await;
        assert_eq!(active_host_number(&api, &id).await, number);
        ids.push(id);
    }
    // All agents stop, and those of all hosts but the last start again.
    api.site.stop_agents(0).await;
    api.site.start_agents(0, 5);
    let name = host_name(5);
    let mut is_down = false;
    for _ in 0..1000 {
        let services = api.get("/os-services").await.expect(200)["services"].clone();
        let mut services = services.as_array().unwrap().iter();
        let service = services.find(|service| service["host"] == name.as_str());
        is_down = service.is_some_and(|service| service["state"] == "down");
        if is_down {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is_down, "{name} is never down");
    api.run_action(&ids[2], json!({"evacuate": {}}))
        .await
        .expect(200);
    for _ in 0..1000 {
        if active_host_number(&api, &ids[2]).await == 4 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the server is never on host 4, the other host of the rack of host 5");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soft_rules_choose_and_never_refuse() {
    let api = start(8).await;
    let first_id = api.create_active_server("first", json!({})).await;
    let first_host = active_host_number(&api, &first_id).await;
    // The server is placed on the empty host in the rack of the first server: empty hosts score higher.
    let rule = format!("relation=same,level=rack,strength=soft,to={first_id}");
    let id = api
        .create_active_server("near", hints(json!({HINT: rule})))
        .await;
    let host = active_host_number(&api, &id).await;
    assert_eq!(host / RACK_HOSTS, first_host / RACK_HOSTS);
    let group = create_group(
        &api,
        "soft-anti-affinity",
        json!("relation=different,level=room,strength=soft"),
    )
    .await;
    let mut rooms = Vec::new();
    for name in ["a", "b", "c"] {
        let id = api
            .create_active_server(name, hints(json!({"group": group["id"]})))
            .await;
        rooms.push(active_host_number(&api, &id).await / ROOM_HOSTS);
    }
    assert_ne!(rooms[0], rooms[1]);
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_rules_are_refused_by_their_field() {
    let api = start(2).await;
    let id = api.create_active_server("a", json!({})).await;
    let field = |part: &str| format!("os:scheduler_hints.{HINT}{part}: ");
    for (rules, path) in [
        (json!("relation=same,level=aisle"), field("[0].level")),
        (
            json!(["relation=same,level=rack", "relation=near"]),
            field("[1].strength"),
        ),
        (
            json!({"relation": "near", "level": "rack", "strength": "soft"}),
            field("[0].level"),
        ),
        (
            json!({"relation": "same"}),
            format!("os:scheduler_hints.{HINT}[0].level is missing: "),
        ),
        (
            json!({"relation": "apart", "level": "rack"}),
            field("[0].relation"),
        ),
        (
            json!({"relation": "same", "level": "rack", "to": ["x"]}),
            field("[0].to[0]"),
        ),
        (
            json!({"relation": "same", "level": "rack", "to": [id, MISSING]}),
            field("[0].to"),
        ),
        (
            json!({"relation": "same", "level": "rack", "weight": 2}),
            field("[0].weight"),
        ),
        (json!("rack"), field("[0]")),
    ] {
        let response = api.create_server("b", hints(json!({HINT: rules}))).await;
        let message = response.expect_error(400, "badRequest");
        assert!(message.starts_with(&path), "{message}");
    }
    // Another project's server counts as missing.
    let bob = [
        ("x-auth-token", "bob:p2"),
        ("x-roles", "member,reader"),
        ("openstack-api-version", "compute 2.96"),
        ("content-type", "application/json"),
    ];
    let body = json!({
        "server": {"name": "b", "flavorRef": "1", "imageRef": api::IMAGE, "networks": "none"},
        "os:scheduler_hints": {HINT: format!("relation=same,level=host,to={id}")},
    });
    let response = api.send("POST", "/v2.1/servers", &bob, Some(body)).await;
    assert!(
        response
            .expect_error(400, "badRequest")
            .contains("there is no server")
    );

    let extra_fields = json!({
        "os:scheduler_hints": {HINT: "relation=different,level=rack"}, "min_count": 101,
    });
    let response = api.create_server("b", extra_fields).await;
    assert!(
        response
            .expect_error(400, "badRequest")
            .contains("make a server group")
    );
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_with_invalid_rules_is_refused() {
    let api = start(2).await;
    let id = api.create_active_server("a", json!({})).await;
    let group_with = |rules: Value| json!({"server_group": {"name": "g", "policy": "soft-affinity", "rules": {HINT: rules}}});
    let field = |part: &str| format!("server_group.rules.{HINT}{part}: ");
    for (rules, path) in [
        (json!("relation=same,level=aisle"), field("[0].level")),
        (
            json!({"relation": "same", "level": "rack", "to": [id, MISSING]}),
            field("[0].to"),
        ),
        (json!(1), field("[0]")),
    ] {
        let response = api.post("/os-server-groups", group_with(rules)).await;
        let message = response.expect_error(400, "badRequest");
        assert!(message.starts_with(&path), "{message}");
    }
    let groups = api.get("/os-server-groups").await.expect(200);
    assert_eq!(groups["server_groups"], json!([]));
    api.site.wait_until_at_rest().await;
}
