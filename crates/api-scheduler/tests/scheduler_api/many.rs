//! Requests for many instances: each instance is placed with regard to the others, and all are
//! claimed at once.

use crate::fleet;

use std::collections::BTreeMap;

use fleet::{Fleet, GROUP, RACK_1, RACK_2, destinations_body, host, text};
use placewright_api_scheduler::KeepOptions;
use placewright_api_testing::{ApiParts, get};
use placewright_engine::Options;
use placewright_http::HttpOptions;
use placewright_journal::{Faults, Faulty, MemoryJournal};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use serde_json::{Value, json};

/// A fleet of hosts with 4 CPUs each, and a scheduler that prefers either full or empty hosts.
async fn fleet_of(hosts: u32, prefers_full: bool) -> Fleet {
    let multiplier = if prefers_full { -1.0 } else { 1.0 };
    let config = SchedulerConfig {
        ram_weight_multiplier: multiplier,
        cpu_weight_multiplier: multiplier,
        disk_weight_multiplier: multiplier,
        ..SchedulerConfig::default()
    };
    let parts = ApiParts::new().await;
    let scheduler = Scheduler::new(config, PrepareOptions::default()).unwrap();
    let keep_options = KeepOptions::default();
    let fleet = Fleet {
        scheduler: parts.scheduler(scheduler, keep_options),
        placement: parts.service(),
    };
    for number in 1..=hosts {
        fleet.add_host(number).await;
    }
    fleet
}

/// How many instances each selected host has in a response.
fn count_by_host(response: &Value) -> BTreeMap<String, u32> {
    let mut hosts = BTreeMap::new();
    for selection in response["selections"].as_array().unwrap() {
        let provider = text(&selection["selected"]["provider"]);
        *hosts.entry(provider.to_owned()).or_default() += 1;
    }
    hosts
}

#[tokio::test]
async fn a_request_fills_a_fleet_completely_and_not_beyond() {
    for prefers_full in [false, true] {
        let fleet = fleet_of(40, prefers_full).await;
        // 80 instances with 2 CPUs each fill the 40 hosts with 4 CPUs each.
        let numbers: Vec<u32> = (1..=81).collect();
        let refused = fleet.select(&destinations_body(2, &numbers)).await;
        assert_eq!(refused.status, 409, "{}", refused.text);
        let error = &refused.json()["errors"][0];
        let detail = text(&error["detail"]);
        assert!(
            detail.contains("80 of 81 instances found one, at least 81 had to; none keeps it."),
            "{detail}"
        );
        assert!(detail.contains(": 0 of 40 hosts have room"), "{detail}");
        assert_eq!(fleet.count_consumers(40).await, 0);
        let hosts = fleet.get("/v1/hosts").await.json();
        for host in hosts["hosts"].as_array().unwrap() {
            assert_eq!(host["instances"], 0, "{host}");
        }

        let mut body = destinations_body(2, &numbers);
        body["minimum"] = json!(80);
        let response = fleet.select(&body).await;
        assert_eq!(response.status, 200, "{}", response.text);
        let response = response.json();
        assert_eq!(response["selections"][80]["selected"], Value::Null);
        assert_eq!(fleet.count_consumers(40).await, 80);
        let hosts = fleet.get("/v1/hosts").await.json();
        for host in hosts["hosts"].as_array().unwrap() {
            assert_eq!(host["instances"], 2, "{host}");
        }
    }
}

#[tokio::test]
async fn all_instances_of_a_request_are_claimed_with_one_append() {
    let faults = Faults::new();
    let journal = Faulty::new(MemoryJournal::new(), faults.clone());
    // The empty text is the policy file: the default rules apply.
    let parts = ApiParts::on_journal(journal, HttpOptions::default(), Options::default(), "").await;
    let fleet = Fleet::on_parts(&parts, KeepOptions::default());
    for number in 1..=5 {
        fleet.add_host(number).await;
    }
    let before = faults.appends();
    let numbers: Vec<u32> = (1..=20).collect();
    let response = fleet.select(&destinations_body(1, &numbers)).await;
    assert_eq!(response.status, 200, "{}", response.text);
    assert_eq!(faults.appends(), before + 1);
    assert_eq!(fleet.count_consumers(5).await, 20);
}

#[tokio::test]
async fn the_instances_of_a_request_satisfy_hard_rules_between_them() {
    for prefers_full in [false, true] {
        let fleet = fleet_of(12, prefers_full).await;
        let mut body = destinations_body(1, &(1..=12).collect::<Vec<u32>>());
        body["request"]["instance_group"] = json!({"uuid": GROUP, "policy": "anti-affinity"});
        let response = fleet.select(&body).await;
        assert_eq!(response.status, 200, "{}", response.text);
        assert_eq!(count_by_host(&response.json()).len(), 12);
        let mut one_more = destinations_body(1, &[13]);
        one_more["request"]["instance_group"] = body["request"]["instance_group"].clone();
        assert_eq!(fleet.select(&one_more).await.status, 409);

        // Ten hosts in one rack, two in the other.
        for number in 1..=12 {
            let rack = if number <= 10 { RACK_1 } else { RACK_2 };
            let provider = format!("/resource_providers/{}", host(number));
            let provider_json = get(&provider).send(&fleet.placement).await.json();
            let body = json!({"aggregates": [rack],
                "resource_provider_generation": provider_json["generation"]});
            fleet
                .send_to_placement("PUT", &format!("{provider}/aggregates"), &body)
                .await;
        }
        let levels = json!({"levels": [{"name": "rack", "aggregates": [RACK_1, RACK_2]}]});
        assert_eq!(fleet.put("/v1/topology", &levels).await.status, 204);
        let mut spread = destinations_body(1, &(21..=26).collect::<Vec<u32>>());
        spread["request"]["topology_rules"] = json!([{"level": "rack", "relation": "spread"}]);
        let response = fleet.select(&spread).await;
        assert_eq!(response.status, 200, "{}", response.text);
        let hosts = count_by_host(&response.json());
        // The six instances are spread evenly: three in each rack.
        let second_rack = [host(11), host(12)];
        let in_second_rack = hosts.iter().filter(|(host, _)| second_rack.contains(host));
        assert_eq!(
            in_second_rack.map(|(_, count)| count).sum::<u32>(),
            3,
            "{hosts:?}"
        );

        let mut same_host = destinations_body(1, &(31..=34).collect::<Vec<u32>>());
        same_host["request"]["topology_rules"] = json!([{"level": "host", "relation": "same"}]);
        let response = fleet.select(&same_host).await;
        // No host is empty any more, so none has room for four; three fit on a host with one instance.
        assert_eq!(response.status, 409, "{}", response.text);
        same_host["minimum"] = json!(1);
        let response = fleet.select(&same_host).await;
        assert_eq!(response.status, 200, "{}", response.text);
    }
}
