//! `POST /v1/capacity`: how many more instances of a request fit, and what stops the next one.

use crate::fleet;

use fleet::{Fleet, GROUP, destinations_body, host};
use serde_json::{Value, json};

#[tokio::test]
async fn capacity_is_what_would_be_placed_and_changes_nothing() {
    let fleet = Fleet::with_hosts(5).await;
    // Of five hosts with 4 VCPUs each, one has only 1 left after this claim.
    assert_eq!(
        fleet.select(&destinations_body(3, &[900])).await.status,
        200
    );
    let hosts_before = fleet.get("/v1/hosts").await.json();
    // How many instances with this many VCPUs fit.
    for (vcpus, expected) in [(1, 17), (2, 8), (4, 4), (5, 0)] {
        let mut body = json!({"request": destinations_body(vcpus, &[])["request"]});
        let response = fleet.post("/v1/capacity", &body).await;
        assert_eq!(response.status, 200, "{}", response.text);
        let capacity = response.json();
        assert_eq!(capacity["count"], expected, "{capacity}");
        assert_eq!(capacity["more"], false);
        for by in ["by_cell", "by_zone"] {
            let sums = capacity[by].as_object().unwrap();
            let sum: u64 = sums.values().filter_map(Value::as_u64).sum();
            assert_eq!(sum, expected, "{by}");
        }
        body["limit"] = json!(3);
        let limited = fleet.post("/v1/capacity", &body).await.json();
        assert_eq!(
            (&limited["count"], &limited["more"]),
            (&json!(expected.min(3)), &json!(expected > 3))
        );
    }
    // With a group's rule, one instance fits on each host.
    let mut body = json!({"request": destinations_body(1, &[])["request"]});
    body["request"]["instance_group"] =
        json!({"uuid": GROUP, "policy": "anti-affinity", "members": []});
    let capacity = fleet.post("/v1/capacity", &body).await;
    assert_eq!(capacity.json()["count"], 5, "{}", capacity.text);
    let path = format!("/v1/hosts/{}", host(1));
    assert_eq!(fleet.get(&path).await.status, 200);
    let hosts_after = fleet.get("/v1/hosts").await.json();
    let instance_counts = |listing: &Value| {
        let hosts = listing["hosts"].as_array().unwrap().iter();
        let hosts = hosts.map(|host| (host["uuid"].clone(), host["instances"].clone()));
        hosts.collect::<Vec<_>>()
    };
    assert_eq!(
        instance_counts(&hosts_after),
        instance_counts(&hosts_before)
    );
    // The count equals what can really be placed.
    let mut placed = 0;
    while fleet
        .select(&destinations_body(1, &[placed + 1]))
        .await
        .status
        == 200
    {
        placed += 1;
    }
    assert_eq!(placed, 17);
}

#[tokio::test]
async fn what_stops_the_next_instance_is_said_for_each_host() {
    let fleet = Fleet::with_hosts(5).await;
    for vcpus in [1, 5] {
        let body = json!({"request": destinations_body(vcpus, &[])["request"]});
        let capacity = fleet.post("/v1/capacity", &body).await.json();
        let bounds = capacity["bounds"].as_array().unwrap();
        let bounded: u64 = bounds
            .iter()
            .filter_map(|bound| bound["hosts"].as_u64())
            .sum();
        assert_eq!(bounded, 5, "each host has one first obstacle");
        assert_eq!(
            (&bounds[0]["reason"], &bounds[0]["name"]),
            (&json!("resource_class"), &json!("VCPU"))
        );
    }
}

#[tokio::test]
async fn a_request_names_resources_and_traits_in_place_of_a_flavor() {
    let fleet = Fleet::with_hosts(5).await;
    let group = json!({"resources": {"VCPU": 2}});
    let body = json!({"request": {"requested_resources": [group]}});
    let without_flavor = fleet.post("/v1/capacity", &body).await;
    assert_eq!(without_flavor.status, 200, "{}", without_flavor.text);
    assert_eq!(without_flavor.json()["count"], 10);
    let group = json!({"resources": {"VCPU": 1}, "required_traits": ["HW_CPU_X86_AVX2"]});
    let body = json!({"request": {"requested_resources": [group]}});
    let without_trait = fleet.post("/v1/capacity", &body).await.json();
    assert_eq!(without_trait["count"], 0);
    assert_eq!(
        without_trait["bounds"],
        json!([{"reason": "constraint", "name": "required=HW_CPU_X86_AVX2", "hosts": 5}])
    );
    let nothing = fleet.post("/v1/capacity", &json!({"request": {}})).await;
    assert_eq!(
        (nothing.status, &nothing.json()["errors"][0]["field"]),
        (400, &json!("request.flavor"))
    );
}

#[tokio::test]
async fn a_request_says_itself_whether_its_groups_may_share_a_provider() {
    let fleet = Fleet::with_hosts(5).await;
    // Each host is one provider with 4 VCPUs.
    let groups =
        ["_A", "_B"].map(|suffix| json!({"requester_id": suffix, "resources": {"VCPU": 1}}));
    // Both groups of an instance have to be on its host. If they may not share a provider, no instance fits.
    for (policy, count) in [(Some("none"), 10), (None, 10), (Some("isolate"), 0)] {
        let mut request = json!({"requested_resources": groups});
        if let Some(policy) = policy {
            request["group_policy"] = json!(policy);
        }
        let answer = fleet
            .post("/v1/capacity", &json!({"request": request}))
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.json()["count"], count, "{policy:?}");
    }
    let other_policy = json!({"vcpus": 1, "memory_mb": 1, "extra_specs": {"group_policy": "none"}});
    for request in [
        json!({"requested_resources": groups, "group_policy": "share"}),
        json!({"requested_resources": groups, "group_policy": "isolate", "flavor": other_policy}),
    ] {
        let refused = fleet
            .post("/v1/capacity", &json!({"request": request}))
            .await;
        assert_eq!(
            (refused.status, &refused.json()["errors"][0]["field"]),
            (400, &json!("request.group_policy")),
            "{}",
            refused.text
        );
    }
}

#[tokio::test]
async fn a_limit_out_of_range_is_refused() {
    let fleet = Fleet::with_hosts(1).await;
    let body = json!({"request": destinations_body(1, &[])["request"], "limit": 0});
    let refused = fleet.post("/v1/capacity", &body).await;
    assert_eq!(
        (refused.status, &refused.json()["errors"][0]["field"]),
        (400, &json!("limit"))
    );
}

#[tokio::test]
async fn of_counts_that_are_simulated_one_runs_one_waits_and_others_are_to_come_again() {
    let fleet = Fleet::with_hosts(100).await;
    let request = destinations_body(1, &[])["request"].clone();
    // With a limit, decisions are simulated one after another; without one, instances are counted host by host.
    let simulated = json!({"request": request, "limit": 400});
    let by_host = json!({"request": request});
    let count = || fleet.post("/v1/capacity", &simulated);
    let by_host = fleet.post("/v1/capacity", &by_host);
    let (first, second, third, fourth, by_host) =
        tokio::join!(count(), count(), count(), count(), by_host);
    assert_eq!(
        (by_host.status, &by_host.json()["count"]),
        (200, &json!(400))
    );
    let answers = [first, second, third, fourth];
    let (served, refused): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == 200);
    assert!(!served.is_empty() && !refused.is_empty());
    for answer in served {
        assert_eq!(answer.json()["count"], 400);
    }
    for answer in refused {
        assert_eq!(answer.status, 503, "{}", answer.text);
        assert_eq!(answer.json()["errors"][0]["code"], "scheduler.unavailable");
        assert!(answer.headers.contains_key("retry-after"));
    }
}
