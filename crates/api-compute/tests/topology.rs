//! Topology rules of server groups and of hints, under concurrent claims and moves.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod api;

use std::collections::BTreeMap;
use std::time::Duration;

use api::Api;
use placewright_control::submit_placement;
use placewright_placement::group::Level;
use placewright_placement::{Command, Timestamp};
use placewright_testing::site::host;
use serde_json::{Value, json};
use uuid::Uuid;

const HINT: &str = "placewright:topology";
/// The number of hosts in a rack, and of racks in a room.
const RACK: u32 = 2;
const ROOM: u32 = 4;

/// An installation with one cell, whose hosts are in racks of two and rooms of two racks.
async fn start(hosts: u32) -> Api {
    let api = Api::start(1, hosts).await;
    api.flavor("1", 1).await;
    let aggregate =
        |kind: u128, number: u32| Uuid::from_u128((kind << 32) | u128::from(number)).to_string();
    let engine = api.site.conductor.engine();
    for number in 0..hosts {
        let set = Command::SetAggregates {
            provider: host(0, number).0,
            generation: None,
            aggregates: vec![aggregate(1, number / RACK), aggregate(2, number / ROOM)],
            at: Timestamp(1),
        };
        submit_placement(engine, set).await.unwrap().unwrap();
    }
    let level = |name: &str, kind, size: u32| Level {
        name: name.to_owned(),
        aggregates: (0..hosts.div_ceil(size))
            .map(|number| aggregate(kind, number))
            .collect(),
    };
    let levels = Command::SetLevels {
        levels: vec![level("rack", 1, RACK), level("room", 2, ROOM)],
        distances: Vec::new(),
    };
    submit_placement(engine, levels).await.unwrap().unwrap();
    api
}

fn name(number: u32) -> String {
    format!("host-{}", host(0, number))
}

/// The number of the host that a server is on.
fn place(server: &Value) -> u32 {
    let on = server["OS-EXT-SRV-ATTR:host"].as_str().unwrap();
    (0..64).find(|number| name(*number) == on).unwrap()
}

async fn place_of(api: &Api, id: &str) -> u32 {
    place(&api.until(id, "ACTIVE").await)
}

async fn group(api: &Api, policy: &str, rules: Value) -> Value {
    let body = json!({"server_group": {"name": "g", "policy": policy, "rules": {HINT: rules}}});
    api.post("/os-server-groups", body).await.is(200)["server_group"].clone()
}

fn hints(hints: Value) -> Value {
    json!({"os:scheduler_hints": hints})
}

fn id_of(created: &Value) -> String {
    created["server"]["id"].as_str().unwrap().to_owned()
}

async fn fault(api: &Api, id: &str) -> String {
    let server = api.until(id, "ERROR").await;
    server["fault"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_boot_at_once_are_in_racks_of_their_own() {
    let api = start(6).await;
    // The policy would put all on one host, but hard rules have priority.
    let rule = json!({"level": "rack", "relation": "different"});
    let group = group(&api, "soft-affinity", rule.clone()).await;
    let told = json!({HINT: [{"level": "rack", "relation": "different", "strength": "hard"}]});
    assert_eq!(group["rules"], told);
    let path = format!("/os-server-groups/{}", group["id"].as_str().unwrap());
    assert_eq!(api.get(&path).await.is(200)["server_group"]["rules"], told);
    let hint = hints(json!({"group": group["id"]}));
    let boots = ["a", "b", "c", "d"].map(|name| api.create(name, hint.clone()));
    let [a, b, c, d] = boots;
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    let ids = [a, b, c, d].map(|told| id_of(&told.is(202)));
    let mut racks = BTreeMap::new();
    let mut without = Vec::new();
    for id in &ids {
        let server = settled(&api, id).await;
        if server["status"] == "ACTIVE" {
            racks.insert(place(&server) / RACK, id.clone());
        } else {
            without.push(id);
        }
    }
    assert_eq!(racks.len(), 3, "{racks:?}");
    let [without] = without.as_slice() else {
        panic!("{without:?}")
    };
    let why = fault(&api, without).await;
    assert!(why.contains("rules of groups and topology"), "{why}");

    // For a member that moves, its own rack is the only one left.
    let (rack, moving) = racks.iter().next().unwrap();
    let before = place_of(&api, moving).await;
    api.act(moving, json!({"migrate": null})).await.is(202);
    let moved = place(&api.until(moving, "VERIFY_RESIZE").await);
    assert_eq!(moved / RACK, *rack);
    assert_ne!(moved, before);
    api.act(moving, json!({"confirmResize": null}))
        .await
        .is(204);
    api.until(moving, "ACTIVE").await;
    api.delete(&path).await.is(204);
    api.site.rest().await;
}

async fn settled(api: &Api, id: &str) -> Value {
    for _ in 0..1000 {
        let server = api.get(&format!("/servers/{id}")).await.is(200)["server"].clone();
        if server["status"] != "BUILD" {
            return server;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{id} is never settled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_bind_a_server_to_the_places_of_others() {
    let api = start(8).await;
    let first = api.active("first", json!({})).await;
    let there = place_of(&api, &first).await;
    let text = |relation: &str, level: &str| {
        hints(json!({HINT: format!("relation={relation},level={level},to={first}")}))
    };
    for (number, relation) in ["same", "different"]
        .into_iter()
        .cycle()
        .take(6)
        .enumerate()
    {
        let id = api
            .active(&format!("vm-{number}"), text(relation, "room"))
            .await;
        let place = place_of(&api, &id).await;
        assert_eq!(place / ROOM == there / ROOM, relation == "same");
    }
    // Two rules at once: in the room, not in the rack.
    let both = hints(json!({HINT: [
        {"level": "room", "relation": "same", "to": [first]},
        {"level": "rack", "relation": "different", "to": first},
    ]}));
    let id = api.active("both", both).await;
    let near = place_of(&api, &id).await;
    assert_eq!(near / ROOM, there / ROOM);
    assert_ne!(near / RACK, there / RACK);
    // The rules stay in effect: of the four hosts of the room one is left.
    api.act(&id, json!({"migrate": null})).await.is(202);
    let moved = place(&api.until(&id, "VERIFY_RESIZE").await);
    assert_eq!(moved / RACK, near / RACK);
    api.act(&id, json!({"confirmResize": null})).await.is(204);
    api.until(&id, "ACTIVE").await;
    // A contradiction: in the rack of a server and out of it.
    let never =
        format!("relation=same,level=rack,to={first};relation=different,level=room,to={first}");
    let never = api
        .create("never", hints(json!({HINT: never})))
        .await
        .is(202);
    let why = fault(&api, &id_of(&never)).await;
    assert!(why.contains("rules of groups and topology"), "{why}");
    api.site.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_asked_for_together_are_spread_over_rooms() {
    let api = start(8).await;
    let spread = json!({
        "os:scheduler_hints": {HINT: "relation=spread,level=room"},
        "min_count": 6, "return_reservation_id": true,
    });
    let told = api.create("s", spread).await.is(202);
    let path = format!(
        "/servers/detail?reservation_id={}",
        told["reservation_id"].as_str().unwrap()
    );
    let ids: Vec<String> = api.get(&path).await.is(200)["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 6);
    let mut rooms = BTreeMap::new();
    for id in &ids {
        *rooms.entry(place_of(&api, id).await / ROOM).or_insert(0) += 1;
    }
    assert_eq!(rooms, BTreeMap::from([(0, 3), (1, 3)]));
    // A server that moves is not counted on its old host.
    api.act(&ids[0], json!({"migrate": null})).await.is(202);
    let before = place_of_any(&api, &ids[0]).await;
    let moved = place(&api.until(&ids[0], "VERIFY_RESIZE").await);
    assert_eq!(moved / ROOM, before / ROOM);
    api.act(&ids[0], json!({"revertResize": null}))
        .await
        .is(202);
    api.until(&ids[0], "ACTIVE").await;
    api.site.rest().await;
}

async fn place_of_any(api: &Api, id: &str) -> u32 {
    let server = api.get(&format!("/servers/{id}")).await.is(200);
    place(&server["server"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evacuated_member_keeps_the_rules_of_its_group() {
    let mut api = start(6).await;
    let rule = json!("relation=different,level=rack");
    let group = group(&api, "soft-anti-affinity", rule).await;
    let mut ids = Vec::new();
    for number in [0, 2, 5] {
        let mut wish = hints(json!({"group": group["id"]}));
        wish["availability_zone"] = json!(format!(":{}", name(number)));
        let id = api.active(&format!("on-{number}"), wish).await;
        assert_eq!(place_of(&api, &id).await, number);
        ids.push(id);
    }
    // The agent of the last host goes silent.
    api.site.stop_agents(0).await;
    api.site.start_agents(0, 5);
    let name = name(5);
    let mut is_down = false;
    for _ in 0..1000 {
        let services = api.get("/os-services").await.is(200)["services"].clone();
        let mut services = services.as_array().unwrap().iter();
        let service = services.find(|one| one["host"] == name.as_str());
        is_down = service.is_some_and(|one| one["state"] == "down");
        if is_down {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is_down, "{name} is never down");
    api.act(&ids[2], json!({"evacuate": {}})).await.is(200);
    for _ in 0..1000 {
        if place_of(&api, &ids[2]).await == 4 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it is never on the other host of its rack");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soft_rules_choose_and_never_refuse() {
    let api = start(8).await;
    let first = api.active("first", json!({})).await;
    let there = place_of(&api, &first).await;
    // An empty host would score higher than its own, and its rack has one.
    let near = format!("relation=same,level=rack,strength=soft,to={first}");
    let id = api.active("near", hints(json!({HINT: near}))).await;
    let place = place_of(&api, &id).await;
    assert_eq!(place / RACK, there / RACK);
    let group = group(
        &api,
        "soft-anti-affinity",
        json!("relation=different,level=room,strength=soft"),
    )
    .await;
    let mut rooms = Vec::new();
    for name in ["a", "b", "c"] {
        let id = api.active(name, hints(json!({"group": group["id"]}))).await;
        rooms.push(place_of(&api, &id).await / ROOM);
    }
    assert_ne!(rooms[0], rooms[1]);
    api.site.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_rules_are_refused_by_their_field() {
    let api = start(2).await;
    let id = api.active("a", json!({})).await;
    let at = |place: &str| format!("os:scheduler_hints.{HINT}{place}: ");
    let missing = "70ace000-0000-4000-8000-00000000000f";
    for (rules, path) in [
        (json!("relation=same,level=aisle"), at("[0].level")),
        (
            json!(["relation=same,level=rack", "relation=near"]),
            at("[1].strength"),
        ),
        (
            json!({"relation": "near", "level": "rack", "strength": "soft"}),
            at("[0].level"),
        ),
        (
            json!({"relation": "same"}),
            format!("os:scheduler_hints.{HINT}[0].level is missing: "),
        ),
        (
            json!({"relation": "apart", "level": "rack"}),
            at("[0].relation"),
        ),
        (
            json!({"relation": "same", "level": "rack", "to": ["x"]}),
            at("[0].to[0]"),
        ),
        (
            json!({"relation": "same", "level": "rack", "to": [id, missing]}),
            at("[0].to"),
        ),
        (
            json!({"relation": "same", "level": "rack", "weight": 2}),
            at("[0].weight"),
        ),
        (json!("rack"), at("[0]")),
    ] {
        let told = api.create("b", hints(json!({HINT: rules}))).await;
        let message = told.refused(400, "badRequest");
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
        "os:scheduler_hints": {HINT: format!("relation=same,level=rack,to={id}")},
    });
    let told = api.ask("POST", "/v2.1/servers", &bob, Some(body)).await;
    assert!(
        told.refused(400, "badRequest")
            .contains("there is no server")
    );

    let many = json!({
        "os:scheduler_hints": {HINT: "relation=different,level=rack"}, "min_count": 101,
    });
    let told = api.create("b", many).await;
    assert!(
        told.refused(400, "badRequest")
            .contains("make a server group")
    );
    api.site.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_with_wrong_rules_is_not_made() {
    let api = start(2).await;
    let id = api.active("a", json!({})).await;
    let rules = |rules: Value| json!({"server_group": {"name": "g", "policy": "soft-affinity", "rules": {HINT: rules}}});
    let at = |place: &str| format!("server_group.rules.{HINT}{place}: ");
    for (wrong, path) in [
        (json!("relation=same,level=aisle"), at("[0].level")),
        (
            json!({"relation": "same", "level": "rack", "to": [id]}),
            at("[0].to"),
        ),
        (json!(1), at("[0]")),
    ] {
        let told = api.post("/os-server-groups", rules(wrong)).await;
        let message = told.refused(400, "badRequest");
        assert!(message.starts_with(&path), "{message}");
    }
    let groups = api.get("/os-server-groups").await.is(200);
    assert_eq!(groups["server_groups"], json!([]));
    api.site.rest().await;
}
