//! Explanations of the scheduler's service: of refusals, and of a success on request.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod fleet;
use std::sync::Arc;

use fleet::{Fleet, GROUP, ask, host, instance, text};
use placewright_api_scheduler::KeepOptions;
use placewright_api_testing::Parts;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::prefilter::PrefilterOptions;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use serde_json::{Value, json};

#[tokio::test]
async fn a_refusal_explains() {
    let fleet = Fleet::of(3).await;
    let update = json!({"disabled": "maintenance"});
    assert_eq!(fleet.tell_state(1, 1, 2, update).await.status, 200);
    let mut body = ask(4, &[9]);
    body["request"]["ignore_hosts"] = json!(["HOST-2"]);
    assert_eq!(fleet.select(&body).await.status, 200);
    body["instances"] = json!([instance(10)]);
    let refused = fleet.select(&body).await;
    assert_eq!(refused.status, 409);
    let error = &refused.json()["errors"][0];
    let detail = text(&error["detail"]);
    assert!(
        detail
            .ends_with("2 of 3 hosts have room, ignore_hosts removed 1, ComputeFilter removed 1."),
        "{detail}"
    );
    let why = &error["explanation"];
    assert_eq!(
        (&why["hosts"], &why["with_room"], &why["left"]),
        (&json!(3), &json!(2), &json!(0))
    );
    assert_eq!(
        why["filters"][0],
        json!({"filter": "ignore_hosts", "removed": 1, "left": 1})
    );
    assert_eq!(
        (&why["placement"]["roots"], &why["placement"]["left"]),
        (&json!(3), &json!(2))
    );

    let nobody = Fleet::of(0).await;
    let refused = nobody.select(&ask(1, &[1])).await;
    assert!(text(&refused.json()["errors"][0]["detail"]).contains("no host has told"));
}

#[tokio::test]
async fn a_success_explains_on_request() {
    let fleet = Fleet::of(12).await;
    // One host is fuller than the others.
    let first = fleet.select(&ask(2, &[1])).await.json();
    let full = text(&first["selections"][0]["selected"]["provider"]).to_owned();
    assert!(first["selections"][0].get("explanation").is_none());

    for claim in [false, true] {
        let mut body = ask(1, &[2]);
        body["claim"] = json!(claim);
        body["alternates"] = json!(1);
        let mut plain = body.clone();
        plain["claim"] = json!(false);
        let plain = fleet.select(&plain).await.json();
        body["explain"] = json!(true);
        let told = fleet.select(&body).await;
        assert_eq!(told.status, 200, "{}", told.text);
        let told = &told.json()["selections"][0];
        let (selected, alternates) = (&told["selected"], &told["alternates"]);
        assert_eq!(
            selected["provider"],
            plain["selections"][0]["selected"]["provider"]
        );
        let first = &plain["selections"][0]["alternates"][0]["provider"];
        assert_eq!(alternates[0]["provider"], *first);
        let why = &told["explanation"];
        assert_eq!(why["compared"], 12);
        let ranking = why["ranking"].as_array().unwrap();
        assert_eq!(ranking.len(), 10);
        assert!(ranking.iter().all(|one| one["provider"] != full), "{why}");
        for (place, one) in ranking.iter().enumerate() {
            assert_eq!(one["selected"], json!(place == 0));
            let weights = one["weights"].as_array().unwrap();
            let shares = weights.iter().map(|one| one["share"].as_f64().unwrap());
            let score = one["score"].as_f64().unwrap();
            assert!((shares.sum::<f64>() - score).abs() < 1e-9, "{one}");
            let names: Vec<&str> = weights.iter().map(|one| text(&one["weigher"])).collect();
            assert!(names.contains(&"RAMWeigher"), "{names:?}");
        }
        assert_eq!(ranking[0]["provider"], selected["provider"]);
        assert_eq!(ranking[0]["score"], selected["score"]);
        assert_eq!(ranking[0]["host"], selected["host"]);
    }
}

#[tokio::test]
async fn hosts_that_are_asked_about_are_ranked_or_excluded() {
    let fleet = Fleet::of(14).await;
    // Host 1 is the fullest that still has room, host 2 has none, host 3 is off.
    for (number, cpus) in [(1, 1), (2, 4)] {
        let mut body = ask(cpus, &[number]);
        body["request"]["requested_destination"] = json!({"host": format!("host-{number}")});
        assert_eq!(fleet.select(&body).await.status, 200);
    }
    let update = json!({"disabled": "maintenance"});
    assert_eq!(fleet.tell_state(3, 1, 2, update).await.status, 200);

    let mut body = ask(1, &[9]);
    body["claim"] = json!(false);
    body["request"]["ignore_hosts"] = json!(["host-4"]);
    body["explain_hosts"] = json!([host(1), "host-2", "host-3", "host-4", "host-5", "nobody"]);
    let silent = fleet.select(&body).await.json();
    assert!(silent["selections"][0].get("explanation").is_none());
    body["explain"] = json!(true);
    let told = fleet.select(&body).await;
    assert_eq!(told.status, 200, "{}", told.text);
    let told = &told.json()["selections"][0];
    let why = &told["explanation"];
    assert_eq!(why["compared"], 11);
    let hosts = why["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 6);

    let last = &hosts[0];
    assert_eq!(
        (&last["asked"], &last["host"], &last["node"]),
        (&json!(host(1)), &json!("host-1"), &json!("node-1"))
    );
    assert_eq!(
        (&last["rank"], &last["selected"]),
        (&json!(11), &json!(false))
    );
    let ranking = why["ranking"].as_array().unwrap();
    assert!(ranking.iter().all(|one| one["host"] != "host-1"), "{why}");
    let weights = last["weights"].as_array().unwrap();
    let shares = weights.iter().map(|one| one["share"].as_f64().unwrap());
    let score = last["score"].as_f64().unwrap();
    assert!((shares.sum::<f64>() - score).abs() < 1e-9, "{last}");
    assert!(ranking[0]["score"].as_f64().unwrap() > score);

    let excluded = |place: usize| &hosts[place]["excluded"];
    let constraint = json!({"reason": "placement", "constraint": "resources=VCPU:1"});
    assert_eq!(*excluded(1), constraint);
    assert_eq!(hosts[1]["provider"], host(2));
    let filter = |name: &str| json!({"reason": "filter", "filter": name});
    assert_eq!(*excluded(2), filter("ComputeFilter"));
    assert_eq!(*excluded(3), filter("ignore_hosts"));
    assert_eq!(*excluded(5), json!({"reason": "unknown"}));
    assert_eq!(
        (&hosts[5]["asked"], &hosts[5]["provider"]),
        (&json!("nobody"), &Value::Null)
    );
    // What is among the best is told the same way.
    let place = ranking.iter().position(|one| one["host"] == "host-5");
    assert_eq!(hosts[4]["rank"], json!(place.unwrap() + 1));
    assert_eq!(hosts[4]["weights"], ranking[place.unwrap()]["weights"]);
}

#[tokio::test]
async fn hosts_that_rules_or_other_instances_exclude_are_told_apart() {
    let fleet = Fleet::of(3).await;
    let mut body = ask(1, &[1]);
    body["request"]["instance_group"] = json!({"uuid": GROUP,
        "topology_rules": [{"level": "host", "relation": "different"}]});
    body["request"]["requested_destination"] = json!({"host": "host-1"});
    assert_eq!(fleet.select(&body).await.status, 200);
    let request = body["request"].as_object_mut().unwrap();
    request.remove("requested_destination");
    body["instances"] = json!([instance(2)]);
    body["explain"] = json!(true);
    body["explain_hosts"] = json!(["host-1"]);
    let told = fleet.select(&body).await;
    assert_eq!(told.status, 200, "{}", told.text);
    let hosts = &told.json()["selections"][0]["explanation"]["hosts"];
    assert_eq!(hosts[0]["excluded"], json!({"reason": "rule"}), "{hosts}");
}

#[tokio::test]
async fn a_claim_that_breaks_a_rule_says_which() {
    let fleet = Fleet::of(1).await;
    let grouped = |number: u32| {
        let mut body = ask(1, &[number]);
        body["request"]["instance_group"] = json!({"uuid": GROUP, "policy": "anti-affinity"});
        body["claim"] = json!(false);
        body
    };
    let mut candidates = Vec::new();
    for number in [1, 2] {
        let look = fleet.select(&grouped(number)).await.json();
        candidates.push(look["selections"][0]["selected"]["candidate"].clone());
    }
    let claim = async |number: u32, candidate: &Value| {
        let path = format!("/v1/claims/{}", instance(number));
        fleet.post(&path, &json!({"candidate": candidate})).await
    };
    assert_eq!(claim(1, &candidates[0]).await.status, 200);
    let refused = claim(2, &candidates[1]).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    let why = &refused.json()["errors"][0]["explanation"];
    assert_eq!(
        (&why["reason"], &why["host"]),
        (&json!("rule"), &json!(host(1)))
    );
    assert_eq!(why["rule"], "a host with fewer than 1 of the others");
}

#[tokio::test]
async fn a_refusal_of_a_prefilter_says_whose() {
    let config = SchedulerConfig::default();
    let options = PrepareOptions {
        prefilter: PrefilterOptions {
            limit_tenants_to_placement_aggregate: true,
            placement_aggregate_required_for_tenants: true,
            ..PrefilterOptions::default()
        },
        ..PrepareOptions::default()
    };
    let parts = Parts::new().await;
    let scheduler = Scheduler::new(config, options).unwrap();
    let keep = KeepOptions::default();
    let scheduler = parts.scheduler(scheduler, keep);
    let fleet = Fleet {
        placement: parts.service(),
        scheduler,
    };
    let refused = fleet.select(&ask(1, &[1])).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert_eq!(
        refused.json()["errors"][0]["explanation"],
        json!({"reason": "tenant_aggregate", "project": "p"})
    );
}

#[tokio::test]
async fn refusals_at_once_are_each_explained() {
    let fleet = Arc::new(Fleet::of(3).await);
    let mut asked = Vec::new();
    for number in 0..40 {
        let fleet = Arc::clone(&fleet);
        // Three kinds of requests, concurrently.
        let vcpus = 100 + number % 3;
        asked.push(tokio::spawn(async move {
            (vcpus, fleet.select(&ask(vcpus, &[number])).await)
        }));
    }
    for one in asked {
        let (vcpus, refused) = one.await.unwrap();
        assert_eq!(refused.status, 409);
        let why = &refused.json()["errors"][0]["explanation"];
        let lacks = format!("resources=VCPU:{vcpus}");
        assert_eq!(why["impossible"], json!([lacks]));
        assert_eq!(why["placement"]["near_misses"][0]["roots"], 3);
    }
}
