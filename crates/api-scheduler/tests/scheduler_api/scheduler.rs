//! The scheduler's service: destinations, claims, hosts.

use crate::fleet;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fleet::{Fleet, GROUP, RACK_1, RACK_2, destinations_body, host, instance, text};
use placewright_api_scheduler::KeepOptions;
use placewright_api_testing::{ApiParts, get};
use placewright_control::OtherReplicas;
use placewright_engine::Options;
use placewright_http::HttpOptions;
use placewright_journal::{Fault, Faults, Faulty, MemoryJournal, Operation};
use placewright_scheduler::host_state::{NumberedUpdate, Receipt};
use serde_json::{Value, json};
use uuid::Uuid;

#[tokio::test]
async fn a_claim_names_the_host_and_alternates_of_its_cell() {
    let fleet = Fleet::with_hosts(7).await;
    let mut body = destinations_body(2, &[1]);
    body["alternates"] = json!(2);
    let response = fleet.select(&body).await;
    assert_eq!(response.status, 200, "{}", response.text);
    assert!(
        response
            .header("x-openstack-request-id")
            .starts_with("req-")
    );
    let response = response.json();
    assert_eq!(response["claimed"], true);
    assert_eq!(response["kept_ms"], 300_000);
    let selection = &response["selections"][0];
    assert_eq!(selection["instance"], instance(1));
    let selected = &selection["selected"];
    let provider = text(&selected["provider"]);
    assert_eq!(fleet.allocated_providers(1).await, [provider]);
    // The UUID of a host ends with its number.
    let number: u32 = provider[24..].parse().unwrap();
    assert_eq!(selected["host"], format!("host-{number}"));
    assert_eq!(selected["node"], format!("node-{number}"));
    assert!(selected["score"].is_number());
    assert_eq!(
        selected["allocation_request"]["allocations"][provider]["resources"],
        json!({"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 1})
    );
    let alternates = selection["alternates"].as_array().unwrap();
    assert_eq!(alternates.len(), 2);
    let mut hosts = BTreeSet::from([provider]);
    for alternate in alternates {
        assert_eq!(alternate["cell"], selected["cell"]);
        assert!(hosts.insert(text(&alternate["provider"])), "{selection}");
    }

    let host_details = fleet.get_host(provider).await;
    assert_eq!(
        host_details["resources"]["VCPU"],
        json!({"capacity": 4, "used": 2})
    );
    assert_eq!(host_details["instances_expected"], 1);
    assert_eq!(host_details["instance_uuids"], json!([instance(1)]));
}

#[tokio::test]
async fn alternates_of_several_instances_avoid_what_was_selected() {
    let fleet = Fleet::with_hosts(12).await;
    let mut body = destinations_body(3, &[1, 2]);
    body["alternates"] = json!(2);
    let response = fleet.select(&body).await.json();
    let mut hosts = BTreeSet::new();
    for selection in response["selections"].as_array().unwrap() {
        assert!(hosts.insert(text(&selection["selected"]["provider"])));
        for alternate in selection["alternates"].as_array().unwrap() {
            assert!(hosts.insert(text(&alternate["provider"])), "{response}");
        }
    }
    assert_eq!(hosts.len(), 6);
}

#[tokio::test]
async fn without_a_minimum_all_instances_are_placed_or_none() {
    let fleet = Fleet::with_hosts(2).await;
    let refused = fleet.select(&destinations_body(4, &[1, 2, 3])).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    let error = &refused.json()["errors"][0];
    assert_eq!(error["code"], "scheduler.no_capacity");
    assert!(
        text(&error["detail"]).contains("2 of 3 instances found one"),
        "{error}"
    );
    assert_eq!(fleet.count_consumers(2).await, 0);
    let hosts = fleet.get("/v1/hosts").await.json();
    for host in hosts["hosts"].as_array().unwrap() {
        assert_eq!(host["instances"], 0, "{host}");
    }

    let mut body = destinations_body(4, &[1, 2, 3]);
    body["minimum"] = json!(2);
    let response = fleet.select(&body).await;
    assert_eq!(response.status, 200, "{}", response.text);
    assert_eq!(response.json()["selections"][2]["selected"], Value::Null);
    assert_eq!(fleet.count_consumers(2).await, 2);

    // A request with an instance that holds resources already is refused, and none of its instances is claimed.
    fleet.add_host(3).await;
    let refused = fleet.select(&destinations_body(1, &[7, 1])).await;
    assert_eq!(
        refused.json()["errors"][0]["code"],
        "scheduler.consumer_exists"
    );
    assert_eq!((refused.status, fleet.count_consumers(3).await), (409, 2));
}

#[tokio::test]
async fn no_claim_remains_when_the_store_fails() {
    for (fault, times) in [(Fault::Io, 1), (Fault::NoSpace, 2)] {
        let faults = Faults::new();
        let journal = Faulty::new(MemoryJournal::new(), faults.clone());
        let options = HttpOptions::default();
        // The empty text is the policy file: the default rules apply.
        let parts = ApiParts::on_journal(journal, options, Options::default(), "").await;
        let fleet = Fleet::on_parts(&parts, KeepOptions::default());
        fleet.add_host(1).await;
        fleet.add_host(2).await;
        // The next `times` appends fail; the 0 says that none is let through before.
        faults.fail(Operation::Append, 0, times, fault);
        let failed = fleet.select(&destinations_body(3, &[1, 2])).await;
        assert_eq!(failed.status, 503, "{}", failed.text);
        let error = &failed.json()["errors"][0];
        assert_eq!(error["code"], "scheduler.unavailable");
        assert_eq!(fleet.count_consumers(2).await, 0, "{fault:?}");
        let retried = fleet.select(&destinations_body(3, &[1, 2])).await;
        assert_eq!(retried.status, 200, "{fault:?}: {}", retried.text);
    }
}

#[tokio::test]
async fn claims_are_made_once_when_the_store_loses_a_request_or_an_answer() {
    for fault in [Fault::LostRequest, Fault::LostAnswer] {
        let faults = Faults::new();
        let journal = Faulty::new(MemoryJournal::new(), faults.clone());
        let options = HttpOptions::default();
        // The empty text is the policy file: the default rules apply.
        let parts = ApiParts::on_journal(journal, options, Options::default(), "").await;
        let fleet = Fleet::on_parts(&parts, KeepOptions::default());
        fleet.add_host(1).await;
        fleet.add_host(2).await;
        // The next append fails, and so does the first question about what became of it.
        faults.fail(Operation::Append, 0, 1, fault);
        faults.fail(Operation::Resolve, 0, 1, Fault::Io);
        let response = fleet.select(&destinations_body(3, &[1, 2])).await;
        assert_eq!(response.status, 200, "{fault:?}: {}", response.text);
        assert_eq!(fleet.count_consumers(2).await, 2, "{fault:?}");
    }
}

#[tokio::test]
async fn a_request_without_claim_offers_a_candidate_that_can_be_claimed() {
    let fleet = Fleet::with_hosts(1).await;
    let mut body = destinations_body(4, &[1]);
    body["claim"] = json!(false);
    body["request"]["project_id"] = json!("");
    let response = fleet.select(&body).await.json();
    assert_eq!(fleet.count_consumers(1).await, 0);
    let candidate = &response["selections"][0]["selected"]["candidate"];
    let path = format!("/v1/claims/{}", instance(1));
    let without_owner = fleet.post(&path, &json!({"candidate": candidate})).await;
    assert_eq!(
        (
            without_owner.status,
            &without_owner.json()["errors"][0]["field"]
        ),
        (400, &json!("project"))
    );
    let with_owner = json!({"candidate": candidate, "project": "p", "user": "u"});
    let claimed = fleet.post(&path, &with_owner).await;
    assert_eq!(claimed.status, 200, "{}", claimed.text);
    assert_eq!(claimed.json()["provider"], host(1));
    assert_eq!(fleet.allocated_providers(1).await, [host(1)]);

    let repeated = fleet.post(&path, &with_owner).await;
    assert_eq!(
        repeated.json()["errors"][0]["code"],
        "scheduler.consumer_exists"
    );
    let other_path = format!("/v1/claims/{}", instance(2));
    let refused = fleet.post(&other_path, &with_owner).await;
    assert_eq!(
        (refused.status, &refused.json()["errors"][0]["code"]),
        (409, &json!("scheduler.no_capacity"))
    );
    assert_eq!(
        refused.json()["errors"][0]["explanation"],
        json!({"reason": "capacity", "provider": host(1), "resource_class": "VCPU", "missing": 4})
    );
    let released = fleet.delete(&path).await;
    assert_eq!((released.status, fleet.count_consumers(1).await), (204, 0));
    assert_eq!(fleet.delete(&path).await.status, 404);
}

#[tokio::test]
async fn a_swap_moves_an_instance_in_one_step() {
    let fleet = Fleet::with_hosts(3).await;
    let mut body = destinations_body(4, &[1]);
    body["alternates"] = json!(1);
    let response = fleet.select(&body).await.json();
    let selection = &response["selections"][0];
    let (from, to) = (&selection["selected"], &selection["alternates"][0]);
    let path = format!("/v1/claims/{}/swap", instance(1));
    let swap = async |path: &str, candidate: &Value| {
        fleet
            .post(path, &json!({"candidate": candidate["candidate"]}))
            .await
    };
    assert_eq!(swap(&path, to).await.status, 200);
    assert_eq!(fleet.allocated_providers(1).await, [text(&to["provider"])]);
    let host_details = fleet.get_host(text(&from["provider"])).await;
    assert_eq!(host_details["instances"], 0);
    let host_details = fleet.get_host(text(&to["provider"])).await;
    assert_eq!(host_details["instances"], 1);

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
    assert_eq!(fleet.allocated_providers(1).await, [text(&to["provider"])]);
    let unknown_consumer = format!("/v1/claims/{}/swap", instance(9));
    assert_eq!(swap(&unknown_consumer, from).await.status, 404);
}

#[tokio::test]
async fn an_expired_candidate_is_gone() {
    let fleet = Fleet::empty(KeepOptions {
        candidates_max: 10,
        time: Duration::ZERO,
    })
    .await;
    fleet.add_host(1).await;
    let mut body = destinations_body(1, &[1]);
    body["claim"] = json!(false);
    let response = fleet.select(&body).await.json();
    let candidate = &response["selections"][0]["selected"]["candidate"];
    let path = format!("/v1/claims/{}", instance(1));
    let expired = fleet.post(&path, &json!({"candidate": candidate})).await;
    assert_eq!(expired.status, 410, "{}", expired.text);
    assert_eq!(
        expired.json()["errors"][0]["code"],
        "scheduler.candidate_expired"
    );
}

#[tokio::test]
async fn rules_of_groups_and_topology_hold_across_requests() {
    let fleet = Fleet::with_hosts(3).await;
    let grouped = |instances: &[u32], policy: &str| {
        let mut body = destinations_body(1, instances);
        body["request"]["instance_group"] = json!({"uuid": GROUP, "policy": policy});
        body
    };
    let response = fleet.select(&grouped(&[1, 2], "anti-affinity")).await;
    assert_eq!(response.status, 200, "{}", response.text);
    assert_ne!(
        fleet.allocated_providers(1).await,
        fleet.allocated_providers(2).await
    );
    assert_eq!(
        fleet.select(&grouped(&[3], "anti-affinity")).await.status,
        200
    );
    let refused = fleet.select(&grouped(&[4], "anti-affinity")).await;
    assert_eq!(refused.status, 409);
    let explanation = &refused.json()["errors"][0]["explanation"];
    let group = json!({"filter": "ServerGroupAntiAffinityFilter", "removed": 3, "left": 0});
    let filters = explanation["filters"].as_array().unwrap();
    assert!(
        explanation["with_room"] == 3 && filters.contains(&group),
        "{explanation}"
    );

    for (number, rack) in [(1, RACK_1), (2, RACK_1), (3, RACK_2)] {
        let path = format!("/resource_providers/{}/aggregates", host(number));
        let provider = format!("/resource_providers/{}", host(number));
        let provider = get(&provider).send(&fleet.placement).await.json();
        let generation = &provider["generation"];
        let body = json!({"aggregates": [rack], "resource_provider_generation": generation});
        fleet.send_to_placement("PUT", &path, &body).await;
    }
    let levels = json!({"levels": [{"name": "rack", "aggregates": [RACK_1, RACK_2]}],
        "distances": [{"from": RACK_1, "to": RACK_2, "distance": 7}]});
    assert_eq!(fleet.put("/v1/topology", &levels).await.status, 204);
    assert_eq!(fleet.get("/v1/topology").await.json(), levels);
    let mut different_racks = destinations_body(1, &[11, 12]);
    different_racks["request"]["topology_rules"] =
        json!([{"level": "rack", "relation": "different"}]);
    let response = fleet.select(&different_racks).await;
    assert_eq!(response.status, 200, "{}", response.text);
    let third_host = host(3);
    assert!(
        (fleet.allocated_providers(11).await == [third_host.clone()])
            != (fleet.allocated_providers(12).await == [third_host])
    );
    different_racks["instances"] = json!([instance(13), instance(14), instance(15)]);
    let before = fleet.count_consumers(3).await;
    assert_eq!(fleet.select(&different_racks).await.status, 409);
    assert_eq!(fleet.count_consumers(3).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_requests_break_no_rule_and_leave_no_host_empty() {
    let fleet = Fleet::with_hosts(4).await;
    let select = |number: u32| {
        let mut body = destinations_body(1, &[number]);
        body["request"]["instance_group"] = json!({"uuid": GROUP, "policy": "anti-affinity"});
        let fleet = &fleet;
        async move { fleet.select(&body).await.status }
    };
    let (a, b, c, d, e) = tokio::join!(select(1), select(2), select(3), select(4), select(5));
    let mut statuses = [a, b, c, d, e];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 409]);
    let mut providers = BTreeSet::new();
    for number in 1..=5 {
        providers.extend(fleet.allocated_providers(number).await);
    }
    assert_eq!((providers.len(), fleet.count_consumers(4).await), (4, 4));
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Other replicas, with the receipt that each of them gives for the next update.
#[derive(Debug)]
struct Others(Mutex<Vec<Receipt>>);

impl OtherReplicas for Others {
    fn own_origin(&self) -> u64 {
        1
    }

    fn find_offer(&self, _: Uuid) -> BoxFuture<'_, Result<Option<Vec<u8>>, String>> {
        Box::pin(async { Ok(None) })
    }

    fn forward_update(&self, _: Uuid, _: Arc<NumberedUpdate>) -> BoxFuture<'_, Vec<Receipt>> {
        Box::pin(async { self.0.lock().unwrap().clone() })
    }
}

#[tokio::test]
async fn an_agent_hears_what_became_of_its_update_at_any_replica() {
    use Receipt::{Applied, Gap, Stale};
    let fleet = Fleet::with_hosts(1).await;
    let others = Arc::new(Others(Mutex::default()));
    fleet.scheduler.set_other_replicas(Arc::clone(&others) as _);
    for (sequence, receipts, expected) in [
        (2, vec![], (200, json!("applied"))),
        (3, vec![Applied, Applied], (200, json!("applied"))),
        (4, vec![Applied, Stale], (200, json!("stale"))),
        (5, vec![Gap, Stale, Applied], (409, Value::Null)),
        // This replica applied the update when it was sent before, although the answer was an error.
        (5, vec![Applied], (200, json!("stale"))),
        (5, vec![Gap], (409, Value::Null)),
    ] {
        *others.0.lock().unwrap() = receipts;
        let answer = fleet.send_update(1, 1, sequence, json!("alive")).await;
        assert_eq!((answer.status, answer.json()["receipt"].clone()), expected);
    }
}

#[tokio::test]
async fn updates_of_a_host_are_applied_in_order() {
    let fleet = Fleet::with_hosts(3).await;
    let load = json!({"load": {"io_ops": 3, "running_builds": 1, "failed_builds": 0}});
    let receipt = async |incarnation, sequence| {
        let response = fleet
            .send_update(1, incarnation, sequence, load.clone())
            .await;
        (response.status, response.json()["receipt"].clone())
    };
    assert_eq!(receipt(1, 2).await, (200, json!("applied")));
    assert_eq!(receipt(1, 2).await, (200, json!("stale")));
    assert_eq!(receipt(1, 4).await.0, 409);
    let host_details = fleet.get(&format!("/v1/hosts/{}", host(1))).await.json();
    assert_eq!(
        (&host_details["load"]["io_ops"], &host_details["sequence"]),
        (&json!(3), &json!(2))
    );
    assert_eq!(
        (
            &host_details["up"],
            &host_details["enabled"],
            &host_details["has_provider"]
        ),
        (&json!(true), &json!(true), &json!(true))
    );
    assert!(host_details["age_ms"].as_i64().unwrap() < 60_000);
    assert_eq!(
        fleet.get(&format!("/v1/hosts/{}", host(9))).await.status,
        404
    );
    let bad = fleet
        .send_update(1, 1, 3, json!({"load": {"io_ops": -1}}))
        .await;
    assert_eq!(
        (bad.status, &bad.json()["errors"][0]["field"]),
        (400, &json!("update.load.io_ops"))
    );

    let first_page = fleet.get("/v1/hosts?limit=2").await.json();
    assert_eq!(first_page["hosts"].as_array().unwrap().len(), 2);
    let next = format!("/v1/hosts?after={}", text(&first_page["next"]));
    let second_page = fleet.get(&next).await.json();
    assert_eq!(
        (
            second_page["hosts"].as_array().unwrap().len(),
            &second_page["next"]
        ),
        (1, &Value::Null)
    );
    for bad in ["limit=0", "limit=x", "after=1", "nope=1"] {
        let response = fleet.get(&format!("/v1/hosts?{bad}")).await;
        assert_eq!(response.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn the_zone_of_an_aggregate_restricts_requests_and_is_shown() {
    let fleet = Fleet::with_hosts(3).await;
    let zone = json!({"name": "north", "zone": "north"});
    let path = format!("/v1/aggregates/{RACK_1}");
    assert_eq!(fleet.put(&path, &zone).await.status, 204);
    let body = json!({"aggregates": [RACK_1], "resource_provider_generation": 1});
    let members = format!("/resource_providers/{}/aggregates", host(2));
    fleet.send_to_placement("PUT", &members, &body).await;
    let mut body = destinations_body(1, &[1]);
    body["request"]["availability_zone"] = json!("north");
    let response = fleet.select(&body).await.json();
    let selected = &response["selections"][0]["selected"];
    assert_eq!(
        (&selected["zone"], &selected["provider"]),
        (&json!("north"), &json!(host(2)))
    );
    let listing = fleet.get("/v1/aggregates").await.json();
    assert_eq!(
        listing["aggregates"][0]["metadata"],
        json!({"availability_zone": "north"})
    );
    let contradiction = json!({"name": "x", "zone": "a", "metadata": {"availability_zone": "b"}});
    assert_eq!(
        fleet.put(&path, &contradiction).await.json()["errors"][0]["field"],
        "zone"
    );
    assert_eq!(fleet.delete(&path).await.status, 204);
    assert_eq!(fleet.delete(&path).await.status, 404);
}
