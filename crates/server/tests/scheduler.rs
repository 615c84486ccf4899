//! The scheduler's service: destinations, claims, hosts, and what it says when it refuses.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use placewright_engine::Options;
use placewright_journal::{Fault, Faults, Faulty, MemoryJournal, Operation};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::prefilter::PrefilterOptions;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use placewright_server::{KeepOptions, SchedulerService, ServerOptions, Service};
use serde_json::{Value, json};
use support::{Answer, call, get, service, service_on};

const CELL_1: &str = "c0000000-0000-0000-0000-000000000001";
const CELL_2: &str = "c0000000-0000-0000-0000-000000000002";
const GROUP: &str = "60000000-0000-0000-0000-000000000001";
const RACK_1: &str = "ac000000-0000-0000-0000-000000000001";
const RACK_2: &str = "ac000000-0000-0000-0000-000000000002";

fn host(number: u32) -> String {
    format!("40000000-0000-0000-0000-{number:012}")
}

fn instance(number: u32) -> String {
    format!("10000000-0000-0000-0000-{number:012}")
}

/// A fleet with both of its services.
struct Fleet {
    placement: Arc<Service>,
    scheduler: SchedulerService,
}

impl Fleet {
    async fn empty(keep: KeepOptions) -> Self {
        Self::on(service(ServerOptions::default()).await, keep)
    }

    fn on(placement: Service, keep: KeepOptions) -> Self {
        let placement = Arc::new(placement);
        let config = SchedulerConfig::default();
        let scheduler = Scheduler::new(config, PrepareOptions::default()).unwrap();
        let scheduler = SchedulerService::new(Arc::clone(&placement), scheduler, keep);
        Self {
            placement,
            scheduler,
        }
    }

    /// Hosts from 1 on with 4 CPUs each; those of even number are in the second cell.
    async fn of(hosts: u32) -> Self {
        let fleet = Self::empty(KeepOptions::default()).await;
        for number in 1..=hosts {
            fleet.add_host(number).await;
        }
        fleet
    }

    async fn add_host(&self, number: u32) {
        let uuid = host(number);
        let body = json!({"name": format!("node-{number}"), "uuid": uuid});
        self.place("POST", "/resource_providers", &body).await;
        let inventories = json!({"resource_provider_generation": 0, "inventories": {
            "VCPU": {"total": 4}, "MEMORY_MB": {"total": 8192}, "DISK_GB": {"total": 100},
        }});
        let path = format!("/resource_providers/{uuid}/inventories");
        self.place("PUT", &path, &inventories).await;
        let names = json!({"service_host": format!("host-{number}"), "node": format!("node-{number}"),
            "cell": if number % 2 == 1 { CELL_1 } else { CELL_2 }});
        let update = json!({"full": {"facts": {"names": names}}});
        let told = self.tell_state(number, 1, 1, update).await;
        assert_eq!(
            (told.status, told.json()["receipt"].as_str()),
            (200, Some("applied"))
        );
    }

    async fn tell_state(
        &self,
        number: u32,
        incarnation: u64,
        sequence: u64,
        update: Value,
    ) -> Answer {
        let path = format!("/v1/hosts/{}/state", host(number));
        let body = json!({"incarnation": incarnation, "sequence": sequence, "update": update});
        self.post(&path, &body).await
    }

    async fn place(&self, method: &str, path: &str, body: &Value) {
        let answer = call(method, path)
            .json(body.to_string())
            .send(&self.placement)
            .await;
        assert!(answer.status < 300, "{path}: {}", answer.text);
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        call("POST", path)
            .json(body.to_string())
            .ask(&self.scheduler)
            .await
    }

    async fn put(&self, path: &str, body: &Value) -> Answer {
        call("PUT", path)
            .json(body.to_string())
            .ask(&self.scheduler)
            .await
    }

    async fn select(&self, body: &Value) -> Answer {
        self.post("/v1/destinations", body).await
    }

    /// What the scheduler sees of a host.
    async fn see(&self, uuid: &str) -> Value {
        let path = format!("/v1/hosts/{uuid}");
        get(&path).ask(&self.scheduler).await.json()
    }

    /// What an instance holds, by provider.
    async fn held(&self, number: u32) -> Vec<String> {
        let path = format!("/allocations/{}", instance(number));
        let held = get(&path).send(&self.placement).await.json();
        held["allocations"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    }

    /// How many consumers hold anything of the hosts up to a number.
    async fn consumers(&self, hosts: u32) -> usize {
        let mut found = BTreeSet::new();
        for number in 1..=hosts {
            let path = format!("/resource_providers/{}/allocations", host(number));
            let held = get(&path).send(&self.placement).await.json();
            found.extend(held["allocations"].as_object().unwrap().keys().cloned());
        }
        found.len()
    }
}

/// A request for instances of so many CPUs.
fn ask(vcpus: u32, instances: &[u32]) -> Value {
    let instances: Vec<String> = instances.iter().map(|number| instance(*number)).collect();
    json!({
        "request": {
            "flavor": {"vcpus": vcpus, "memory_mb": 1024, "root_gb": 1},
            "project_id": "p", "user_id": "u",
        },
        "instances": instances, "alternates": 0, "claim": true,
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

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

    // An instance that holds something is no new one, and the others are given back.
    fleet.add_host(3).await;
    let refused = fleet.select(&ask(1, &[7, 1])).await;
    assert_eq!(
        refused.json()["errors"][0]["code"],
        "scheduler.consumer_exists"
    );
    assert_eq!((refused.status, fleet.consumers(3).await), (409, 2));
}

#[tokio::test]
async fn a_store_that_fails_halfway_keeps_no_claim() {
    for fault in [Fault::Io, Fault::LostAnswer] {
        let faults = Faults::new();
        let journal = Faulty::new(MemoryJournal::new(), faults.clone());
        let options = ServerOptions::default();
        let placement = service_on(journal, options, Options::default(), "").await;
        let fleet = Fleet::on(placement, KeepOptions::default());
        fleet.add_host(1).await;
        fleet.add_host(2).await;
        // The first claim is kept; the second fails, and so does giving back at first.
        faults.fail(Operation::Append, 1, 2, fault);
        let failed = fleet.select(&ask(3, &[1, 2])).await;
        assert_eq!(failed.status, 503, "{}", failed.text);
        let error = &failed.json()["errors"][0];
        assert_eq!(error["code"], "scheduler.unavailable");
        assert_eq!(fleet.consumers(2).await, 0, "{fault:?}");
        assert_eq!(fleet.select(&ask(3, &[1, 2])).await.status, 200);
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

    // Where there is no room the instance stays where it is.
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
async fn bad_input_names_the_field() {
    let fleet = Fleet::of(1).await;
    // Where to put what, and the field that is to blame.
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
    for (place, value, field) in cases {
        let mut body = ask(1, &[1]);
        body["minimum"] = json!("all");
        body["explain"] = json!(false);
        body["request"]["availability_zone"] = Value::Null;
        body["request"]["requested_destination"] = Value::Null;
        body["request"]["instance_group"] = Value::Null;
        body["request"]["flavor"]["extra_specs"] = json!({});
        *body.pointer_mut(place).unwrap() = value;
        let answer = fleet.select(&body).await;
        assert_eq!(answer.status, 400, "{field}: {}", answer.text);
        let error = &answer.json()["errors"][0];
        assert_eq!(
            (&error["field"], &error["code"]),
            (&json!(field), &json!("scheduler.bad_request")),
            "{error}"
        );
    }
    assert_eq!(fleet.consumers(1).await, 0);
}

#[tokio::test]
async fn bad_topology_names_the_field() {
    let fleet = Fleet::of(1).await;
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
        let mut body = ask(1, &[1]);
        body["request"]["topology_rules"] = json!([rule]);
        let answer = fleet.select(&body).await;
        let told = answer.json();
        let wanted = format!("request.topology_rules[0].{field}");
        assert_eq!(told["errors"][0]["field"], json!(wanted), "{}", answer.text);
        assert_eq!(answer.status, 400, "{}", answer.text);
    }
    assert_eq!(fleet.consumers(1).await, 0);
    let rack = |more: Value| {
        let mut body = json!({"levels": [{"name": "rack", "aggregates": [RACK_1]},
            {"name": "room", "aggregates": [RACK_2]}]});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        body
    };
    let apart = |to: &str| json!({"from": RACK_1, "to": to, "distance": 1});
    for (body, field) in [
        (
            rack(json!({"levels": [{"name": "host", "aggregates": []}]})),
            "levels",
        ),
        (rack(json!({"distances": [apart(RACK_2)]})), "distances"),
        (rack(json!({"distances": [apart(GROUP)]})), "distances"),
        (
            rack(json!({"distances": [apart(RACK_1), apart(RACK_1)]})),
            "distances",
        ),
        (
            rack(json!({"distances": [{"from": RACK_1, "to": RACK_1, "distance": -1}]})),
            "distances[0].distance",
        ),
    ] {
        let answer = fleet.put("/v1/topology", &body).await;
        let told = answer.json();
        assert_eq!(told["errors"][0]["field"], json!(field), "{}", answer.text);
        assert_eq!(answer.status, 400, "{}", answer.text);
    }
}

#[tokio::test]
async fn the_door_checks_path_method_caller_and_form() {
    let fleet = Fleet::of(1).await;
    let garbage = call("POST", "/v1/destinations")
        .json("{\"a")
        .ask(&fleet.scheduler)
        .await;
    assert_eq!(garbage.status, 400);
    let path = call("POST", "/v1/claims/nobody")
        .json("{}")
        .ask(&fleet.scheduler)
        .await;
    assert_eq!(
        (path.status, &path.json()["errors"][0]["field"]),
        (400, &json!("path"))
    );
    assert_eq!(get("/v1/nothing").ask(&fleet.scheduler).await.status, 404);
    let method = get("/v1/destinations").ask(&fleet.scheduler).await;
    assert_eq!((method.status, method.header("allow")), (405, "POST"));
    let unknown = get("/v1/hosts")
        .header("x-auth-token", "")
        .ask(&fleet.scheduler)
        .await;
    assert_eq!(unknown.status, 401);
}

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
    let placement = Arc::new(service(ServerOptions::default()).await);
    let scheduler = Scheduler::new(config, options).unwrap();
    let keep = KeepOptions::default();
    let scheduler = SchedulerService::new(Arc::clone(&placement), scheduler, keep);
    let fleet = Fleet {
        placement,
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
        // Three kinds of requests among each other.
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
    // One host is partly taken.
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
    // Of a group, one a host.
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
    // It is what is really placed.
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
