//! The scheduler's service: destinations, claims, hosts.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod fleet;
use std::collections::BTreeSet;
use std::time::Duration;

use fleet::{Fleet, GROUP, RACK_1, RACK_2, ask, host, instance, text};
use placewright_api_scheduler::KeepOptions;
use placewright_api_testing::{Parts, call, get};
use placewright_engine::Options;
use placewright_http::HttpOptions;
use placewright_journal::{Fault, Faults, Faulty, MemoryJournal, Operation};
use serde_json::{Value, json};

#[tokio::test]
async fn a_claim_names_the_host_and_alternates_of_its_cell() {
    let fleet = Fleet::of(7).await;
    let mut body = ask(2, &[1]);
    body["alternates"] = json!(2);
    let answer = fleet.select(&body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.header("x-openstack-request-id").starts_with("req-"));
    let answer = answer.json();
    assert_eq!(answer["claimed"], true);
    assert_eq!(answer["kept_ms"], 300_000);
    let told = &answer["selections"][0];
    assert_eq!(told["instance"], instance(1));
    let selected = &told["selected"];
    let provider = text(&selected["provider"]);
    assert_eq!(fleet.held(1).await, [provider]);
    let number: u32 = provider[24..].parse().unwrap();
    assert_eq!(selected["host"], format!("host-{number}"));
    assert_eq!(selected["node"], format!("node-{number}"));
    assert!(selected["score"].is_number());
    assert_eq!(
        selected["allocation_request"]["allocations"][provider]["resources"],
        json!({"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 1})
    );
    let alternates = told["alternates"].as_array().unwrap();
    assert_eq!(alternates.len(), 2);
    let mut hosts = BTreeSet::from([provider]);
    for alternate in alternates {
        assert_eq!(alternate["cell"], selected["cell"]);
        assert!(hosts.insert(text(&alternate["provider"])), "{told}");
    }

    let seen = get(&format!("/v1/hosts/{provider}"))
        .ask(&fleet.scheduler)
        .await
        .json();
    assert_eq!(seen["resources"]["VCPU"], json!({"capacity": 4, "used": 2}));
    assert_eq!(seen["instances_expected"], 1);
    assert_eq!(seen["instance_uuids"], json!([instance(1)]));
}

#[tokio::test]
async fn alternates_of_several_instances_avoid_what_was_selected() {
    let fleet = Fleet::of(12).await;
    let mut body = ask(3, &[1, 2]);
    body["alternates"] = json!(2);
    let answer = fleet.select(&body).await.json();
    let mut hosts = BTreeSet::new();
    for told in answer["selections"].as_array().unwrap() {
        assert!(hosts.insert(text(&told["selected"]["provider"])));
        for alternate in told["alternates"].as_array().unwrap() {
            assert!(hosts.insert(text(&alternate["provider"])), "{answer}");
        }
    }
    assert_eq!(hosts.len(), 6);
}

#[tokio::test]
async fn all_or_nothing_leaves_nothing_and_a_minimum_leaves_what_fits() {
    let fleet = Fleet::of(2).await;
    let refused = fleet.select(&ask(4, &[1, 2, 3])).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    let error = &refused.json()["errors"][0];
    assert_eq!(error["code"], "scheduler.no_capacity");
    assert!(
        text(&error["detail"]).contains("2 of 3 instances found one"),
        "{error}"
    );
    assert_eq!(fleet.consumers(2).await, 0);
    let hosts = get("/v1/hosts").ask(&fleet.scheduler).await.json();
    for host in hosts["hosts"].as_array().unwrap() {
        assert_eq!(host["instances"], 0, "{host}");
    }

    let mut body = ask(4, &[1, 2, 3]);
    body["minimum"] = json!(2);
    let answer = fleet.select(&body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.json()["selections"][2]["selected"], Value::Null);
    assert_eq!(fleet.consumers(2).await, 2);

    // An instance that holds resources is refused as a new one, and the others' claims are
    // released.
    fleet.add_host(3).await;
    let refused = fleet.select(&ask(1, &[7, 1])).await;
    assert_eq!(
        refused.json()["errors"][0]["code"],
        "scheduler.consumer_exists"
    );
    assert_eq!((refused.status, fleet.consumers(3).await), (409, 2));
}

#[tokio::test]
async fn a_store_that_fails_keeps_no_claim() {
    // After a lost answer both may be claimed, and the release fails at first, too.
    for (fault, times) in [(Fault::Io, 1), (Fault::LostAnswer, 2)] {
        let faults = Faults::new();
        let journal = Faulty::new(MemoryJournal::new(), faults.clone());
        let options = HttpOptions::default();
        let parts = Parts::on(journal, options, Options::default(), "").await;
        let fleet = Fleet::on(&parts, KeepOptions::default());
        fleet.add_host(1).await;
        fleet.add_host(2).await;
        faults.fail(Operation::Append, 0, times, fault);
        let failed = fleet.select(&ask(3, &[1, 2])).await;
        assert_eq!(failed.status, 503, "{}", failed.text);
        let error = &failed.json()["errors"][0];
        assert_eq!(error["code"], "scheduler.unavailable");
        assert_eq!(fleet.consumers(2).await, 0, "{fault:?}");
        let again = fleet.select(&ask(3, &[1, 2])).await;
        assert_eq!(again.status, 200, "{fault:?}: {}", again.text);
    }
}

#[tokio::test]
async fn a_look_claims_nothing_and_its_candidate_can_be_claimed() {
    let fleet = Fleet::of(1).await;
    let mut body = ask(4, &[1]);
    body["claim"] = json!(false);
    body["request"]["project_id"] = json!("");
    let answer = fleet.select(&body).await.json();
    assert_eq!(fleet.consumers(1).await, 0);
    let candidate = &answer["selections"][0]["selected"]["candidate"];
    let path = format!("/v1/claims/{}", instance(1));
    let bare = fleet.post(&path, &json!({"candidate": candidate})).await;
    assert_eq!(
        (bare.status, &bare.json()["errors"][0]["field"]),
        (400, &json!("project"))
    );
    let owned = json!({"candidate": candidate, "project": "p", "user": "u"});
    let claimed = fleet.post(&path, &owned).await;
    assert_eq!(claimed.status, 200, "{}", claimed.text);
    assert_eq!(claimed.json()["provider"], host(1));
    assert_eq!(fleet.held(1).await, [host(1)]);

    let again = fleet.post(&path, &owned).await;
    assert_eq!(
        again.json()["errors"][0]["code"],
        "scheduler.consumer_exists"
    );
    let other = format!("/v1/claims/{}", instance(2));
    let full = fleet.post(&other, &owned).await;
    assert_eq!(
        (full.status, &full.json()["errors"][0]["code"]),
        (409, &json!("scheduler.no_capacity"))
    );
    assert_eq!(
        full.json()["errors"][0]["explanation"],
        json!({"reason": "capacity", "provider": host(1), "resource_class": "VCPU", "missing": 4})
    );
    let released = call("DELETE", &path).ask(&fleet.scheduler).await;
    assert_eq!((released.status, fleet.consumers(1).await), (204, 0));
    assert_eq!(
        call("DELETE", &path).ask(&fleet.scheduler).await.status,
        404
    );
}

#[tokio::test]
async fn a_swap_moves_an_instance_in_one_step() {
    let fleet = Fleet::of(3).await;
    let mut body = ask(4, &[1]);
    body["alternates"] = json!(1);
    let answer = fleet.select(&body).await.json();
    let told = &answer["selections"][0];
    let (from, to) = (&told["selected"], &told["alternates"][0]);
    let path = format!("/v1/claims/{}/swap", instance(1));
    let swap = async |path: &str, one: &Value| {
        fleet
            .post(path, &json!({"candidate": one["candidate"]}))
            .await
    };
    assert_eq!(swap(&path, to).await.status, 200);
    assert_eq!(fleet.held(1).await, [text(&to["provider"])]);
    let seen = fleet.see(text(&from["provider"])).await;
    assert_eq!(seen["instances"], 0);
    let seen = fleet.see(text(&to["provider"])).await;
    assert_eq!(seen["instances"], 1);

    // A swap without room leaves the instance where it is.
    let claim = format!("/v1/claims/{}", instance(2));
    assert_eq!(swap(&claim, from).await.status, 200);
    let refused = swap(&path, from).await;
    assert_eq!(refused.status, 409);
    let error = &refused.json()["errors"][0];
    assert_eq!(
        error["explanation"],
        json!({"reason": "capacity", "provider": from["provider"], "resource_class": "VCPU",
            "missing": 4})
    );
    let detail = text(&error["detail"]);
    assert!(
        detail.ends_with("lacks 4 VCPU; nothing changed."),
        "{detail}"
    );
    assert_eq!(fleet.held(1).await, [text(&to["provider"])]);
    let nobody = format!("/v1/claims/{}/swap", instance(9));
    assert_eq!(swap(&nobody, from).await.status, 404);
}

#[tokio::test]
async fn an_expired_candidate_is_gone() {
    let fleet = Fleet::empty(KeepOptions {
        candidates_max: 10,
        time: Duration::ZERO,
    })
    .await;
    fleet.add_host(1).await;
    let mut body = ask(1, &[1]);
    body["claim"] = json!(false);
    let answer = fleet.select(&body).await.json();
    let candidate = &answer["selections"][0]["selected"]["candidate"];
    let path = format!("/v1/claims/{}", instance(1));
    let gone = fleet.post(&path, &json!({"candidate": candidate})).await;
    assert_eq!(gone.status, 410, "{}", gone.text);
    assert_eq!(
        gone.json()["errors"][0]["code"],
        "scheduler.candidate_expired"
    );
}

#[tokio::test]
async fn groups_and_topology_are_kept_across_requests() {
    let fleet = Fleet::of(3).await;
    let grouped = |instances: &[u32], policy: &str| {
        let mut body = ask(1, instances);
        body["request"]["instance_group"] = json!({"uuid": GROUP, "policy": policy});
        body
    };
    let answer = fleet.select(&grouped(&[1, 2], "anti-affinity")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_ne!(fleet.held(1).await, fleet.held(2).await);
    assert_eq!(
        fleet.select(&grouped(&[3], "anti-affinity")).await.status,
        200
    );
    let full = fleet.select(&grouped(&[4], "anti-affinity")).await;
    assert_eq!(full.status, 409);
    let why = &full.json()["errors"][0]["explanation"];
    let group = json!({"filter": "ServerGroupAntiAffinityFilter", "removed": 3, "left": 0});
    let filters = why["filters"].as_array().unwrap();
    assert!(why["with_room"] == 3 && filters.contains(&group), "{why}");

    for (number, rack) in [(1, RACK_1), (2, RACK_1), (3, RACK_2)] {
        let path = format!("/resource_providers/{}/aggregates", host(number));
        let provider = format!("/resource_providers/{}", host(number));
        let provider = get(&provider).send(&fleet.placement).await.json();
        let generation = &provider["generation"];
        let body = json!({"aggregates": [rack], "resource_provider_generation": generation});
        fleet.place("PUT", &path, &body).await;
    }
    let levels = json!({"levels": [{"name": "rack", "aggregates": [RACK_1, RACK_2]}],
        "distances": [{"from": RACK_1, "to": RACK_2, "distance": 7}]});
    assert_eq!(fleet.put("/v1/topology", &levels).await.status, 204);
    assert_eq!(
        get("/v1/topology").ask(&fleet.scheduler).await.json(),
        levels
    );
    let mut apart = ask(1, &[11, 12]);
    apart["request"]["topology_rules"] = json!([{"level": "rack", "relation": "different"}]);
    let answer = fleet.select(&apart).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let third = host(3);
    assert!((fleet.held(11).await == [third.clone()]) != (fleet.held(12).await == [third]));
    apart["instances"] = json!([instance(13), instance(14), instance(15)]);
    let before = fleet.consumers(3).await;
    assert_eq!(fleet.select(&apart).await.status, 409);
    assert_eq!(fleet.consumers(3).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_requests_break_no_rule_and_leave_no_host_empty() {
    let fleet = Fleet::of(4).await;
    let select = |number: u32| {
        let mut body = ask(1, &[number]);
        body["request"]["instance_group"] = json!({"uuid": GROUP, "policy": "anti-affinity"});
        let fleet = &fleet;
        async move { fleet.select(&body).await.status }
    };
    let (a, b, c, d, e) = tokio::join!(select(1), select(2), select(3), select(4), select(5));
    let mut statuses = [a, b, c, d, e];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 409]);
    let mut held = BTreeSet::new();
    for number in 1..=5 {
        held.extend(fleet.held(number).await);
    }
    assert_eq!((held.len(), fleet.consumers(4).await), (4, 4));
}

#[tokio::test]
async fn hosts_tell_their_state_in_order() {
    let fleet = Fleet::of(3).await;
    let load = json!({"load": {"io_ops": 3, "running_builds": 1, "failed_builds": 0}});
    let receipt = async |incarnation, sequence| {
        let answer = fleet
            .tell_state(1, incarnation, sequence, load.clone())
            .await;
        (answer.status, answer.json()["receipt"].clone())
    };
    assert_eq!(receipt(1, 2).await, (200, json!("applied")));
    assert_eq!(receipt(1, 2).await, (200, json!("stale")));
    assert_eq!(receipt(1, 4).await.0, 409);
    let seen = get(&format!("/v1/hosts/{}", host(1)))
        .ask(&fleet.scheduler)
        .await
        .json();
    assert_eq!(
        (&seen["load"]["io_ops"], &seen["sequence"]),
        (&json!(3), &json!(2))
    );
    assert_eq!(
        (&seen["up"], &seen["enabled"], &seen["has_provider"]),
        (&json!(true), &json!(true), &json!(true))
    );
    assert!(seen["age_ms"].as_i64().unwrap() < 60_000);
    assert_eq!(
        get(&format!("/v1/hosts/{}", host(9)))
            .ask(&fleet.scheduler)
            .await
            .status,
        404
    );
    let bad = fleet
        .tell_state(1, 1, 3, json!({"load": {"io_ops": -1}}))
        .await;
    assert_eq!(
        (bad.status, &bad.json()["errors"][0]["field"]),
        (400, &json!("update.load.io_ops"))
    );

    let first = get("/v1/hosts?limit=2").ask(&fleet.scheduler).await.json();
    assert_eq!(first["hosts"].as_array().unwrap().len(), 2);
    let next = format!("/v1/hosts?after={}", text(&first["next"]));
    let second = get(&next).ask(&fleet.scheduler).await.json();
    assert_eq!(
        (second["hosts"].as_array().unwrap().len(), &second["next"]),
        (1, &Value::Null)
    );
    for bad in ["limit=0", "limit=x", "after=1", "nope=1"] {
        let answer = get(&format!("/v1/hosts?{bad}")).ask(&fleet.scheduler).await;
        assert_eq!(answer.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn an_aggregate_with_a_zone_restricts_and_shows() {
    let fleet = Fleet::of(3).await;
    let zone = json!({"name": "north", "zone": "north"});
    let path = format!("/v1/aggregates/{RACK_1}");
    assert_eq!(fleet.put(&path, &zone).await.status, 204);
    let body = json!({"aggregates": [RACK_1], "resource_provider_generation": 1});
    let members = format!("/resource_providers/{}/aggregates", host(2));
    fleet.place("PUT", &members, &body).await;
    let mut body = ask(1, &[1]);
    body["request"]["availability_zone"] = json!("north");
    let answer = fleet.select(&body).await.json();
    let selected = &answer["selections"][0]["selected"];
    assert_eq!(
        (&selected["zone"], &selected["provider"]),
        (&json!("north"), &json!(host(2)))
    );
    let told = get("/v1/aggregates").ask(&fleet.scheduler).await.json();
    assert_eq!(
        told["aggregates"][0]["metadata"],
        json!({"availability_zone": "north"})
    );
    let odd = json!({"name": "x", "zone": "a", "metadata": {"availability_zone": "b"}});
    assert_eq!(
        fleet.put(&path, &odd).await.json()["errors"][0]["field"],
        "zone"
    );
    assert_eq!(
        call("DELETE", &path).ask(&fleet.scheduler).await.status,
        204
    );
    assert_eq!(
        call("DELETE", &path).ask(&fleet.scheduler).await.status,
        404
    );
}

#[tokio::test]
async fn capacity_is_what_would_be_placed_and_disturbs_nothing() {
    let fleet = Fleet::of(5).await;
    // One host is partly full.
    assert_eq!(fleet.select(&ask(3, &[900])).await.status, 200);
    let seen = get("/v1/hosts").ask(&fleet.scheduler).await.json();
    for (vcpus, expected) in [(1, 17), (2, 8), (4, 4), (5, 0)] {
        let mut body = json!({"request": ask(vcpus, &[])["request"]});
        let answer = fleet.post("/v1/capacity", &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let told = answer.json();
        assert_eq!(told["count"], expected, "{told}");
        assert_eq!(told["more"], false);
        let by_cell = told["by_cell"].as_object().unwrap();
        let sum: u64 = by_cell.values().filter_map(Value::as_u64).sum();
        assert_eq!(sum, expected);
        body["limit"] = json!(3);
        let cut = fleet.post("/v1/capacity", &body).await.json();
        assert_eq!(
            (&cut["count"], &cut["more"]),
            (&json!(expected.min(3)), &json!(expected > 3))
        );
    }
    // With a group's rule, one instance on each host.
    let mut body = json!({"request": ask(1, &[])["request"]});
    body["request"]["instance_group"] =
        json!({"uuid": GROUP, "policy": "anti-affinity", "members": []});
    let told = fleet.post("/v1/capacity", &body).await;
    assert_eq!(told.json()["count"], 5, "{}", told.text);
    let path = format!("/v1/hosts/{}", host(1));
    assert_eq!(get(&path).ask(&fleet.scheduler).await.status, 200);
    let now = get("/v1/hosts").ask(&fleet.scheduler).await.json();
    let uuids = |told: &Value| {
        let hosts = told["hosts"].as_array().unwrap().iter();
        let hosts = hosts.map(|host| (host["uuid"].clone(), host["instances"].clone()));
        hosts.collect::<Vec<_>>()
    };
    assert_eq!(uuids(&now), uuids(&seen));
    // The count equals what can really be placed.
    let mut placed = 0;
    while fleet.select(&ask(1, &[placed + 1])).await.status == 200 {
        placed += 1;
    }
    assert_eq!(placed, 17);

    let body = json!({"request": ask(1, &[])["request"], "limit": 0});
    let wrong = fleet.post("/v1/capacity", &body).await;
    assert_eq!(
        (wrong.status, &wrong.json()["errors"][0]["field"]),
        (400, &json!("limit"))
    );
}
