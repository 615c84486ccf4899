//! Explanations of the scheduler API: of refusals, and of selections on request.

use crate::fleet;
use std::sync::Arc;

use fleet::{Fleet, GROUP, destinations_body, host, instance, text};
use placewright_api_scheduler::KeepOptions;
use placewright_api_testing::ApiParts;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::prefilter::PrefilterOptions;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use placewright_scheduler::translate::TranslateOptions;
use serde_json::{Value, json};

#[tokio::test]
async fn a_refusal_is_explained() {
    // Host 1 is disabled, host 2 is ignored, and instance 9 fills host 3.
    let fleet = Fleet::with_hosts(3).await;
    let update = json!({"disabled": "maintenance"});
    assert_eq!(fleet.send_update(1, 1, 2, update).await.status, 200);
    let mut body = destinations_body(4, &[9]);
    // The names of hosts are compared without regard to upper and lower case.
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
    let explanation = &error["explanation"];
    assert_eq!(
        (
            &explanation["hosts"],
            &explanation["with_room"],
            &explanation["left"]
        ),
        (&json!(3), &json!(2), &json!(0))
    );
    assert_eq!(
        explanation["filters"][0],
        json!({"filter": "ignore_hosts", "removed": 1, "left": 1})
    );
    assert_eq!(
        (
            &explanation["placement"]["roots"],
            &explanation["placement"]["left"]
        ),
        (&json!(3), &json!(2))
    );

    let empty_fleet = Fleet::with_hosts(0).await;
    let refused = empty_fleet.select(&destinations_body(1, &[1])).await;
    assert!(text(&refused.json()["errors"][0]["detail"]).contains("no host has told"));
}

#[tokio::test]
async fn a_selection_is_explained_on_request() {
    let fleet = Fleet::with_hosts(12).await;
    // One host is made fuller than the others.
    let first = fleet.select(&destinations_body(2, &[1])).await.json();
    let fullest = text(&first["selections"][0]["selected"]["provider"]).to_owned();
    assert!(first["selections"][0].get("explanation").is_none());

    for claim in [false, true] {
        let mut body = destinations_body(1, &[2]);
        body["claim"] = json!(claim);
        body["alternates"] = json!(1);
        let mut unexplained = body.clone();
        unexplained["claim"] = json!(false);
        let unexplained = fleet.select(&unexplained).await.json();
        body["explain"] = json!(true);
        let response = fleet.select(&body).await;
        assert_eq!(response.status, 200, "{}", response.text);
        let selection = &response.json()["selections"][0];
        let (selected, alternates) = (&selection["selected"], &selection["alternates"]);
        assert_eq!(
            selected["provider"],
            unexplained["selections"][0]["selected"]["provider"]
        );
        let first_alternate = &unexplained["selections"][0]["alternates"][0]["provider"];
        assert_eq!(alternates[0]["provider"], *first_alternate);
        let explanation = &selection["explanation"];
        assert_eq!(explanation["compared"], 12);
        let ranking = explanation["ranking"].as_array().unwrap();
        assert_eq!(ranking.len(), 10);
        assert!(
            ranking.iter().all(|scored| scored["provider"] != fullest),
            "{explanation}"
        );
        for (index, scored) in ranking.iter().enumerate() {
            assert_eq!(scored["selected"], json!(index == 0));
            let weights = scored["weights"].as_array().unwrap();
            let shares = weights
                .iter()
                .map(|weight| weight["share"].as_f64().unwrap());
            let score = scored["score"].as_f64().unwrap();
            assert!((shares.sum::<f64>() - score).abs() < 1e-9, "{scored}");
            let names: Vec<&str> = weights
                .iter()
                .map(|weight| text(&weight["weigher"]))
                .collect();
            assert!(names.contains(&"RAMWeigher"), "{names:?}");
        }
        assert_eq!(ranking[0]["provider"], selected["provider"]);
        assert_eq!(ranking[0]["score"], selected["score"]);
        assert_eq!(ranking[0]["host"], selected["host"]);
    }
}

#[tokio::test]
async fn hosts_to_be_explained_are_ranked_or_excluded() {
    let fleet = Fleet::with_hosts(14).await;
    // Host 1 is the fullest that still has room, host 2 is full, host 3 is disabled.
    for (number, cpus) in [(1, 1), (2, 4)] {
        let mut body = destinations_body(cpus, &[number]);
        body["request"]["requested_destination"] = json!({"host": format!("host-{number}")});
        assert_eq!(fleet.select(&body).await.status, 200);
    }
    let update = json!({"disabled": "maintenance"});
    assert_eq!(fleet.send_update(3, 1, 2, update).await.status, 200);

    let mut body = destinations_body(1, &[9]);
    body["claim"] = json!(false);
    body["request"]["ignore_hosts"] = json!(["host-4"]);
    body["explain_hosts"] = json!([host(1), "host-2", "host-3", "host-4", "host-5", "nobody"]);
    let unexplained = fleet.select(&body).await.json();
    assert!(unexplained["selections"][0].get("explanation").is_none());
    body["explain"] = json!(true);
    let response = fleet.select(&body).await;
    assert_eq!(response.status, 200, "{}", response.text);
    let selection = &response.json()["selections"][0];
    let explanation = &selection["explanation"];
    // All of the 14 hosts but the full, the disabled and the ignored one.
    assert_eq!(explanation["compared"], 11);
    let hosts = explanation["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 6);

    let ranked_last = &hosts[0];
    assert_eq!(
        (
            &ranked_last["asked"],
            &ranked_last["host"],
            &ranked_last["node"]
        ),
        (&json!(host(1)), &json!("host-1"), &json!("node-1"))
    );
    assert_eq!(
        (&ranked_last["rank"], &ranked_last["selected"]),
        (&json!(11), &json!(false))
    );
    let ranking = explanation["ranking"].as_array().unwrap();
    assert!(
        ranking.iter().all(|scored| scored["host"] != "host-1"),
        "{explanation}"
    );
    let weights = ranked_last["weights"].as_array().unwrap();
    let shares = weights
        .iter()
        .map(|weight| weight["share"].as_f64().unwrap());
    let score = ranked_last["score"].as_f64().unwrap();
    assert!((shares.sum::<f64>() - score).abs() < 1e-9, "{ranked_last}");
    assert!(ranking[0]["score"].as_f64().unwrap() > score);

    let excluded = |index: usize| &hosts[index]["excluded"];
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
    // A host that is among the best has the same explanation in the ranking.
    let index = ranking.iter().position(|scored| scored["host"] == "host-5");
    assert_eq!(hosts[4]["rank"], json!(index.unwrap() + 1));
    assert_eq!(hosts[4]["weights"], ranking[index.unwrap()]["weights"]);
}

#[tokio::test]
async fn a_host_that_a_rule_excludes_is_explained() {
    let fleet = Fleet::with_hosts(3).await;
    let mut body = destinations_body(1, &[1]);
    body["request"]["instance_group"] = json!({"uuid": GROUP,
        "topology_rules": [{"level": "host", "relation": "different"}]});
    body["request"]["requested_destination"] = json!({"host": "host-1"});
    assert_eq!(fleet.select(&body).await.status, 200);
    let request = body["request"].as_object_mut().unwrap();
    request.remove("requested_destination");
    body["instances"] = json!([instance(2)]);
    body["explain"] = json!(true);
    body["explain_hosts"] = json!(["host-1"]);
    let response = fleet.select(&body).await;
    assert_eq!(response.status, 200, "{}", response.text);
    let hosts = &response.json()["selections"][0]["explanation"]["hosts"];
    assert_eq!(hosts[0]["excluded"], json!({"reason": "rule"}), "{hosts}");
}

#[tokio::test]
async fn a_host_is_explained_with_the_query_that_found_the_selected_one() {
    // No host has dedicated processors, so all are found with the fallback query.
    let options = PrepareOptions {
        translate: TranslateOptions {
            pcpu_fallback: true,
            ..TranslateOptions::default()
        },
        ..PrepareOptions::default()
    };
    let parts = ApiParts::new().await;
    let scheduler = Scheduler::new(SchedulerConfig::default(), options).unwrap();
    let scheduler = parts.scheduler(scheduler, KeepOptions::default());
    let fleet = Fleet {
        placement: parts.service(),
        scheduler,
    };
    for number in 1..=2 {
        fleet.add_host(number).await;
    }
    let update = json!({"disabled": "maintenance"});
    assert_eq!(fleet.send_update(2, 1, 2, update).await.status, 200);
    let mut body = destinations_body(1, &[1]);
    body["request"]["flavor"]["extra_specs"] = json!({"hw:cpu_policy": "dedicated"});
    body["explain"] = json!(true);
    body["explain_hosts"] = json!(["host-2"]);
    let response = fleet.select(&body).await;
    assert_eq!(response.status, 200, "{}", response.text);
    let selection = &response.json()["selections"][0];
    assert_eq!(selection["selected"]["host"], "host-1");
    let excluded = &selection["explanation"]["hosts"][0]["excluded"];
    assert_eq!(
        *excluded,
        json!({"reason": "filter", "filter": "ComputeFilter"})
    );
}

#[tokio::test]
async fn a_claim_that_breaks_a_rule_is_refused_with_the_rule() {
    let fleet = Fleet::with_hosts(1).await;
    let grouped = |number: u32| {
        let mut body = destinations_body(1, &[number]);
        body["request"]["instance_group"] = json!({"uuid": GROUP, "policy": "anti-affinity"});
        body["claim"] = json!(false);
        body
    };
    let mut candidates = Vec::new();
    for number in [1, 2] {
        let response = fleet.select(&grouped(number)).await.json();
        candidates.push(response["selections"][0]["selected"]["candidate"].clone());
    }
    let claim = async |number: u32, candidate: &Value| {
        let path = format!("/v1/claims/{}", instance(number));
        fleet.post(&path, &json!({"candidate": candidate})).await
    };
    assert_eq!(claim(1, &candidates[0]).await.status, 200);
    let refused = claim(2, &candidates[1]).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    let explanation = &refused.json()["errors"][0]["explanation"];
    assert_eq!(
        (&explanation["reason"], &explanation["host"]),
        (&json!("rule"), &json!(host(1)))
    );
    assert_eq!(
        explanation["rule"],
        "a host with fewer than 1 of the others"
    );
}

#[tokio::test]
async fn a_refusal_of_a_prefilter_is_explained() {
    let config = SchedulerConfig::default();
    let options = PrepareOptions {
        prefilter: PrefilterOptions {
            limit_tenants_to_placement_aggregate: true,
            placement_aggregate_required_for_tenants: true,
            ..PrefilterOptions::default()
        },
        ..PrepareOptions::default()
    };
    let parts = ApiParts::new().await;
    let scheduler = Scheduler::new(config, options).unwrap();
    let keep_options = KeepOptions::default();
    let scheduler = parts.scheduler(scheduler, keep_options);
    let fleet = Fleet {
        placement: parts.service(),
        scheduler,
    };
    let refused = fleet.select(&destinations_body(1, &[1])).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    assert_eq!(
        refused.json()["errors"][0]["explanation"],
        json!({"reason": "tenant_aggregate", "project": "p"})
    );
}

#[tokio::test]
async fn concurrent_refusals_are_each_explained() {
    let fleet = Arc::new(Fleet::with_hosts(3).await);
    let mut tasks = Vec::new();
    for number in 0..40 {
        let fleet = Arc::clone(&fleet);
        // Three kinds of requests, concurrently.
        let vcpus = 100 + number % 3;
        tasks.push(tokio::spawn(async move {
            (
                vcpus,
                fleet.select(&destinations_body(vcpus, &[number])).await,
            )
        }));
    }
    for task in tasks {
        let (vcpus, refused) = task.await.unwrap();
        assert_eq!(refused.status, 409);
        let explanation = &refused.json()["errors"][0]["explanation"];
        let constraint = format!("resources=VCPU:{vcpus}");
        assert_eq!(explanation["impossible"], json!([constraint]));
        assert_eq!(explanation["placement"]["near_misses"][0]["roots"], 3);
    }
}
