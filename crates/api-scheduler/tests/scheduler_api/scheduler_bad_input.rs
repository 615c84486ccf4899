//! Requests to the scheduler API that are not valid: the errors name the field.

use crate::fleet;
use fleet::{Fleet, GROUP, RACK_1, RACK_2, destinations_body, instance};
use placewright_api_testing::{call, get};
use serde_json::{Value, json};

#[tokio::test]
async fn bad_input_names_the_field() {
    let fleet = Fleet::with_hosts(1).await;
    // The JSON pointer where each value is inserted, the value, and the field that the error has to
    // name.
    let cases = [
        (
            "/request/flavor/memory_mb",
            json!("lots"),
            "request.flavor.memory_mb",
        ),
        ("/request/flavor", json!({"nope": 1}), "request.flavor.nope"),
        ("/instances", json!([]), "instances"),
        (
            "/instances",
            json!([instance(1), instance(1)]),
            "instances[1]",
        ),
        ("/instances", json!(["x"]), "instances[0]"),
        ("/alternates", json!(101), "alternates"),
        ("/alternates", json!(-1), "alternates"),
        ("/claim", json!("yes"), "claim"),
        ("/minimum", json!(2), "minimum"),
        ("/minimum", json!("most"), "minimum"),
        ("/explain", json!("yes"), "explain"),
        ("/explain", json!(1), "explain"),
        ("/explain", Value::Null, "explain"),
        ("/request/project_id", json!(""), "request.project_id"),
        (
            "/request/availability_zone",
            json!("moon"),
            "request.availability_zone",
        ),
        (
            "/request/requested_destination",
            json!({"host": "nobody"}),
            "request.requested_destination",
        ),
        (
            "/request/flavor/extra_specs",
            json!({"hw:cpu_policy": "odd"}),
            "request.flavor.extra_specs[\"hw:cpu_policy\"]",
        ),
        (
            "/request/instance_group",
            json!({"uuid": GROUP, "topology_rules": [{"level": "host", "relation": "same",
                "to": [instance(1)]}]}),
            "request.instance_group.topology_rules[0].to",
        ),
        ("", json!([]), "."),
    ];
    for (pointer, value, field) in cases {
        let mut body = destinations_body(1, &[1]);
        body["minimum"] = json!("all");
        body["explain"] = json!(false);
        body["request"]["availability_zone"] = Value::Null;
        body["request"]["requested_destination"] = Value::Null;
        body["request"]["instance_group"] = Value::Null;
        body["request"]["flavor"]["extra_specs"] = json!({});
        *body.pointer_mut(pointer).unwrap() = value;
        let response = fleet.select(&body).await;
        assert_eq!(response.status, 400, "{field}: {}", response.text);
        let error = &response.json()["errors"][0];
        assert_eq!(
            (&error["field"], &error["code"]),
            (&json!(field), &json!("scheduler.bad_request")),
            "{error}"
        );
    }
    assert_eq!(fleet.count_consumers(1).await, 0);
}

#[tokio::test]
async fn hosts_to_be_explained_are_few_and_have_names() {
    let fleet = Fleet::with_hosts(1).await;
    let mut body = destinations_body(1, &[1]);
    for (hosts, field) in [
        (json!("host-1"), "explain_hosts"),
        (json!(["a", 7]), "explain_hosts[1]"),
        (json!(["a", ""]), "explain_hosts[1]"),
        (json!(["x".repeat(256)]), "explain_hosts[0]"),
        (json!(vec!["x"; 11]), "explain_hosts"),
    ] {
        body["explain_hosts"] = hosts;
        let response = fleet.select(&body).await;
        assert_eq!(response.status, 400, "{field}: {}", response.text);
        assert_eq!(response.json()["errors"][0]["field"], field);
    }
    body["explain_hosts"] = json!(vec!["x".repeat(255); 10]);
    assert_eq!(fleet.select(&body).await.status, 200);
}

#[tokio::test]
async fn updates_of_hosts_beyond_the_limits_name_the_field_and_change_nothing() {
    let fleet = Fleet::with_hosts(1).await;
    let long = "x".repeat(256);
    let stats = |count: usize| -> Value {
        let pairs = (0..count).map(|number| (number.to_string(), json!("")));
        Value::Object(pairs.collect())
    };
    let alive = json!("alive");
    // Each update has one value beyond a limit.
    for (incarnation, sequence, update, field) in [
        (u64::MAX, u64::MAX, &alive, "incarnation"),
        // It is below 2^62, and more than ten years ahead in nanoseconds.
        ((1 << 62) - 1, 2, &alive, "incarnation"),
        (1, 1 << 62, &alive, "sequence"),
        (
            2,
            1,
            &json!({"full": {"facts": {"names": {"node": long}}}}),
            "update.full.facts.names.node",
        ),
        (
            2,
            1,
            &json!({"full": {"metrics": [{"name": "a", "value": 1}, {"name": long, "value": 1}]}}),
            "update.full.metrics[1].name",
        ),
        (
            1,
            2,
            &json!({"facts": {"stats": stats(10_001)}}),
            "update.facts.stats",
        ),
        (
            1,
            2,
            &json!({"facts": {"platform": {"supported_instances": [["a", long, "b"]]}}}),
            "update.facts.platform.supported_instances[0][1]",
        ),
        (
            1,
            2,
            &json!({"instance_came": [{"image_properties": {"a": "x".repeat((64 << 10) + 1)}}, {}]}),
            "update.instance_came[0].image_properties",
        ),
        (
            1,
            2,
            &json!({"disabled": "x".repeat((64 << 10) + 1)}),
            "update.disabled",
        ),
    ] {
        let refused = fleet
            .send_update(1, incarnation, sequence, update.clone())
            .await;
        assert_eq!(refused.status, 400, "{field}: {}", refused.text);
        assert_eq!(refused.json()["errors"][0]["field"], field);
    }
    // The refused updates count for nothing: the agent of the host goes on with the second one.
    let facts = json!({"facts": {"stats": stats(10_000)}});
    for (sequence, update) in [(2, alive), (3, facts)] {
        let applied = fleet.send_update(1, 1, sequence, update).await;
        assert_eq!(applied.status, 200, "{}", applied.text);
    }
}

#[tokio::test]
async fn bad_topology_rules_name_the_field() {
    let fleet = Fleet::with_hosts(1).await;
    for (rule, field) in [
        (json!({"level": "moon", "relation": "different"}), "level"),
        (json!({"relation": "same"}), "level"),
        (json!({"level": "host", "relation": "beside"}), "relation"),
        (json!({"level": "host", "relation": "spread"}), "level"),
        (json!({"relation": "near"}), "strength"),
        (
            json!({"relation": "far", "strength": "soft", "level": "host"}),
            "level",
        ),
        (
            json!({"level": "host", "relation": "same", "max_skew": 1}),
            "max_skew",
        ),
        (
            json!({"level": "host", "relation": "same", "weight": 1}),
            "weight",
        ),
        (
            json!({"level": "host", "relation": "same", "strength": "soft", "weight": 0}),
            "weight",
        ),
        (
            json!({"level": "host", "relation": "same", "to": "all"}),
            "to",
        ),
    ] {
        let mut body = destinations_body(1, &[1]);
        body["request"]["topology_rules"] = json!([rule]);
        let response = fleet.select(&body).await;
        let body = response.json();
        let expected = format!("request.topology_rules[0].{field}");
        assert_eq!(
            body["errors"][0]["field"],
            json!(expected),
            "{}",
            response.text
        );
        assert_eq!(response.status, 400, "{}", response.text);
    }
    assert_eq!(fleet.count_consumers(1).await, 0);
}

#[tokio::test]
async fn bad_topologies_name_the_field() {
    let fleet = Fleet::with_hosts(1).await;
    let topology_with = |changed_fields: Value| {
        let mut body = json!({"levels": [{"name": "rack", "aggregates": [RACK_1]},
            {"name": "room", "aggregates": [RACK_2]}]});
        for (key, value) in changed_fields.as_object().unwrap() {
            body[key] = value.clone();
        }
        body
    };
    let distance_to = |to: &str| json!({"from": RACK_1, "to": to, "distance": 1});
    for (body, field) in [
        (
            topology_with(json!({"levels": [{"name": "host", "aggregates": []}]})),
            "levels",
        ),
        (
            topology_with(json!({"distances": [distance_to(RACK_2)]})),
            "distances",
        ),
        // The UUID of a group stands for an aggregate that is in no level.
        (
            topology_with(json!({"distances": [distance_to(GROUP)]})),
            "distances",
        ),
        (
            topology_with(json!({"distances": [distance_to(RACK_1), distance_to(RACK_1)]})),
            "distances",
        ),
        (
            topology_with(json!({"distances": [{"from": RACK_1, "to": RACK_1, "distance": -1}]})),
            "distances[0].distance",
        ),
    ] {
        let response = fleet.put("/v1/topology", &body).await;
        let body = response.json();
        assert_eq!(
            body["errors"][0]["field"],
            json!(field),
            "{}",
            response.text
        );
        assert_eq!(response.status, 400, "{}", response.text);
    }
}

#[tokio::test]
async fn path_method_caller_and_json_are_checked() {
    let fleet = Fleet::with_hosts(1).await;
    let malformed = call("POST", "/v1/destinations")
        .json("{\"a")
        .send_to_scheduler(&fleet.scheduler)
        .await;
    assert_eq!(malformed.status, 400);
    let bad_path = call("POST", "/v1/claims/nobody")
        .json("{}")
        .send_to_scheduler(&fleet.scheduler)
        .await;
    assert_eq!(
        (bad_path.status, &bad_path.json()["errors"][0]["field"]),
        (400, &json!("path"))
    );
    assert_eq!(fleet.get("/v1/nothing").await.status, 404);
    let bad_method = fleet.get("/v1/destinations").await;
    assert_eq!(
        (bad_method.status, bad_method.header("allow")),
        (405, "POST")
    );
    let unauthenticated = get("/v1/hosts")
        .header("x-auth-token", "")
        .send_to_scheduler(&fleet.scheduler)
        .await;
    assert_eq!(unauthenticated.status, 401);
}
