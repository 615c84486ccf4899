//! Many instances of one request: each is placed beside the others, and all are claimed at once.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod fleet;

use std::collections::BTreeMap;

use fleet::{Fleet, GROUP, RACK_1, RACK_2, ask, host, text};
use placewright_api_scheduler::KeepOptions;
use placewright_api_testing::{Parts, get};
use placewright_engine::Options;
use placewright_http::HttpOptions;
use placewright_journal::{Faults, Faulty, MemoryJournal};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use serde_json::{Value, json};

/// Hosts of 4 CPUs for a scheduler that prefers full ones, or empty ones.
async fn fleet_of(hosts: u32, prefers_full: bool) -> Fleet {
    let multiplier = if prefers_full { -1.0 } else { 1.0 };
    let config = SchedulerConfig {
        ram_weight_multiplier: multiplier,
        cpu_weight_multiplier: multiplier,
        disk_weight_multiplier: multiplier,
        ..SchedulerConfig::default()
    };
    let parts = Parts::new().await;
    let scheduler = Scheduler::new(config, PrepareOptions::default()).unwrap();
    let keep = KeepOptions::default();
    let fleet = Fleet {
        scheduler: parts.scheduler(scheduler, keep),
        placement: parts.service(),
    };
    for number in 1..=hosts {
        fleet.add_host(number).await;
    }
    fleet
}

/// How many instances each selected host got.
fn selected(answer: &Value) -> BTreeMap<String, u32> {
    let mut hosts = BTreeMap::new();
    for told in answer["selections"].as_array().unwrap() {
        let provider = text(&told["selected"]["provider"]);
        *hosts.entry(provider.to_owned()).or_default() += 1;
    }
    hosts
}

#[tokio::test]
async fn a_request_fills_a_fleet_to_the_last_place_and_no_further() {
    for prefers_full in [false, true] {
        let fleet = fleet_of(40, prefers_full).await;
        let many: Vec<u32> = (1..=81).collect();
        let refused = fleet.select(&ask(2, &many)).await;
        assert_eq!(refused.status, 409, "{}", refused.text);
        let error = &refused.json()["errors"][0];
        let detail = text(&error["detail"]);
        assert!(
            detail.contains("80 of 81 instances found one, at least 81 had to; none keeps it."),
            "{detail}"
        );
        assert!(detail.contains(": 0 of 40 hosts have room"), "{detail}");
        assert_eq!(fleet.consumers(40).await, 0);
        let hosts = get("/v1/hosts").ask(&fleet.scheduler).await.json();
        for host in hosts["hosts"].as_array().unwrap() {
            assert_eq!(host["instances"], 0, "{host}");
        }

        let mut some = ask(2, &many);
        some["minimum"] = json!(80);
        let answer = fleet.select(&some).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let answer = answer.json();
        assert_eq!(answer["selections"][80]["selected"], Value::Null);
        assert_eq!(fleet.consumers(40).await, 80);
        let hosts = get("/v1/hosts").ask(&fleet.scheduler).await.json();
        for host in hosts["hosts"].as_array().unwrap() {
            assert_eq!(host["instances"], 2, "{host}");
        }
    }
}

#[tokio::test]
async fn all_instances_of_a_request_are_claimed_with_one_append() {
    let faults = Faults::new();
    let journal = Faulty::new(MemoryJournal::new(), faults.clone());
    let parts = Parts::on(journal, HttpOptions::default(), Options::default(), "").await;
    let fleet = Fleet::on(&parts, KeepOptions::default());
    for number in 1..=5 {
        fleet.add_host(number).await;
    }
    let before = faults.appends();
    let many: Vec<u32> = (1..=20).collect();
    let answer = fleet.select(&ask(1, &many)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(faults.appends(), before + 1);
    assert_eq!(fleet.consumers(5).await, 20);
}

#[tokio::test]
async fn the_instances_of_a_request_keep_hard_rules_between_them() {
    for prefers_full in [false, true] {
        let fleet = fleet_of(12, prefers_full).await;
        let mut apart = ask(1, &(1..=12).collect::<Vec<u32>>());
        apart["request"]["instance_group"] = json!({"uuid": GROUP, "policy": "anti-affinity"});
        let answer = fleet.select(&apart).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(selected(&answer.json()).len(), 12);
        let mut more = ask(1, &[13]);
        more["request"]["instance_group"] = apart["request"]["instance_group"].clone();
        assert_eq!(fleet.select(&more).await.status, 409);

        // Ten hosts in one rack, two in the other.
        for number in 1..=12 {
            let rack = if number <= 10 { RACK_1 } else { RACK_2 };
            let provider = format!("/resource_providers/{}", host(number));
            let told = get(&provider).send(&fleet.placement).await.json();
            let body = json!({"aggregates": [rack],
                "resource_provider_generation": told["generation"]});
            fleet
                .place("PUT", &format!("{provider}/aggregates"), &body)
                .await;
        }
        let levels = json!({"levels": [{"name": "rack", "aggregates": [RACK_1, RACK_2]}]});
        assert_eq!(fleet.put("/v1/topology", &levels).await.status, 204);
        let mut even = ask(1, &(21..=26).collect::<Vec<u32>>());
        even["request"]["topology_rules"] = json!([{"level": "rack", "relation": "spread"}]);
        let answer = fleet.select(&even).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let hosts = selected(&answer.json());
        let second = [host(11), host(12)];
        let there = hosts.iter().filter(|(host, _)| second.contains(host));
        assert_eq!(there.map(|(_, count)| count).sum::<u32>(), 3, "{hosts:?}");

        let mut together = ask(1, &(31..=34).collect::<Vec<u32>>());
        together["request"]["topology_rules"] = json!([{"level": "host", "relation": "same"}]);
        let answer = fleet.select(&together).await;
        // No host is empty any more, so four are too many for one; three fit where one instance is.
        assert_eq!(answer.status, 409, "{}", answer.text);
        together["minimum"] = json!(1);
        let answer = fleet.select(&together).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
}
