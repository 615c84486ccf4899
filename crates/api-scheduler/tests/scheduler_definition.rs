//! Compares the scheduler with its definition: the candidates of the Placement API for the
//! request's query, filtered and weighed host by host.
//!
//! Fleets and requests are random; fleets have trees and shared disks. The test reads the state of
//! hosts from the Placement API, or knows it because it has reported it to the scheduler itself. The environment
//! variable `CASES` is the number of fleets.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod definition;
use std::collections::{BTreeMap, BTreeSet};

use definition::Topology;
use definition::random_choices::{RandomChoices, cell_uuid, uuid};
use definition::random_fleet::{Fleet, POLICIES, TRAITS, ZONES, policy_index};
use placewright_api_testing::call;
use placewright_scheduler::prepare::{PrepareOptions, prepare};
use placewright_scheduler::request::{self, RequestSpec, TopologyRule};
use placewright_testing::random::Rng;
use serde_json::{Value, json};
use uuid::Uuid;

/// The number of fleets without the variable `CASES`.
const FLEETS_DEFAULT: u64 = 20;
const REQUESTS_PER_FLEET: u64 = 15;

/// The raw value of a weigher for one host: the value before it is scaled to the range of all hosts.
struct RawValue {
    multiplier: f64,
    value: f64,
    /// The lower end of the weigher's range, if the weigher declares it.
    declared_min: Option<f64>,
}

impl Fleet {
    /// The candidates of each host, from the Placement API: those of the request's query or, if there are none, of its
    /// fallback query.
    async fn candidates(&self, request: &RequestSpec) -> BTreeMap<Uuid, Vec<Value>> {
        let prepared = prepare(request, &PrepareOptions::default(), self).unwrap();
        assert!(prepared.translation.rules.is_empty(), "{request:?}");
        let queries = [
            Some(&prepared.translation.request),
            prepared.translation.fallback.as_ref(),
        ];
        let mut candidates: BTreeMap<Uuid, Vec<Value>> = BTreeMap::new();
        for query in queries.into_iter().flatten() {
            let path = format!("/allocation_candidates?{}", query.to_query_string());
            let response = self.get_from_placement(&path).await;
            for candidate in response["allocation_requests"].as_array().unwrap() {
                let providers = candidate["allocations"].as_object().unwrap().keys();
                let mut roots = providers.map(|provider| {
                    let root = &response["provider_summaries"][provider]["root_provider_uuid"];
                    root.as_str().unwrap().parse::<Uuid>().unwrap()
                });
                let host = roots.find(|root| self.hosts.contains_key(root));
                candidates
                    .entry(host.unwrap())
                    .or_default()
                    .push(candidate.clone());
            }
            if !candidates.is_empty() {
                break;
            }
        }
        candidates
    }

    /// Whether a host passes the filters, which check facts that placement does not have.
    fn passes(&self, request: &RequestSpec, uuid: Uuid) -> bool {
        let host = &self.hosts[&uuid];
        let name = format!("host-{uuid}");
        let destination = request.requested_destination.as_ref();
        let wanted_cell = destination.and_then(|wanted| wanted.cell);
        let group = request.instance_group.as_ref();
        let satisfies_group = group.is_none_or(|group| {
            let members = self.members.get(&group.uuid);
            let hosts = members.map_or(&[][..], Vec::as_slice);
            match POLICIES[policy_index(group.uuid)] {
                "affinity" => hosts.iter().all(|other| *other == uuid),
                "anti-affinity" => !hosts.contains(&uuid),
                _ => true,
            }
        });
        host.is_usable
            && !request.ignore_hosts.contains(&name)
            && wanted_cell.is_none_or(|cell| cell == cell_uuid(host.cell))
            && satisfies_group
            && self.topology.satisfies_hard_rules(request, uuid)
    }

    /// The raw value of each weigher for a host.
    async fn raw_values(&self, request: &RequestSpec, uuid: Uuid) -> Vec<RawValue> {
        let host = &self.hosts[&uuid];
        let (mut memory, mut disk, mut cpus, mut used_cpus, mut ratio) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for provider in std::iter::once(&uuid).chain(&host.children) {
            let path = format!("/resource_providers/{provider}");
            let inventories = self
                .get_from_placement(&format!("{path}/inventories"))
                .await;
            let used = self.get_from_placement(&format!("{path}/usages")).await;
            for (class, inventory) in inventories["inventories"].as_object().unwrap() {
                let number = |value: &Value| value.as_f64().unwrap();
                let total = number(&inventory["total"]);
                let used = number(&used["usages"][class]) + number(&inventory["reserved"]);
                match class.as_str() {
                    "MEMORY_MB" => memory += total - used,
                    "DISK_GB" => disk += (total - used) * 1024.0,
                    _ => {
                        cpus += total;
                        used_cpus += used;
                        ratio = number(&inventory["allocation_ratio"]);
                    }
                }
            }
        }
        let group = request.instance_group.as_ref();
        let members_on_host = group.map_or(0, |group| {
            let members = self.members.get(&group.uuid).into_iter().flatten();
            members.filter(|other| **other == uuid).count()
        });
        let policy = group.map_or("", |group| POLICIES[policy_index(group.uuid)]);
        let group_value = match policy {
            "soft-affinity" => members_on_host as f64,
            "soft-anti-affinity" => -(members_on_host as f64),
            _ => 0.0,
        };
        // The multiplier, the value and the declared minimum of each weigher: free memory, free CPUs, free disk,
        // operations of I/O, server groups, failed builds, versions of hypervisors, and soft topology rules.
        let raw_values = [
            (1.0, memory, Some(0.0)),
            (1.0, cpus * ratio - used_cpus, Some(0.0)),
            (1.0, disk, Some(0.0)),
            (-1.0, f64::from(host.io_ops), Some(0.0)),
            (1.0, group_value, None),
            (-1e6, f64::from(host.failed_builds), None),
            (1.0, f64::from(host.hypervisor_version), None),
            (1.0, self.topology.soft_rules_value(request, uuid), None),
        ];
        raw_values
            .map(|(multiplier, value, declared_min)| RawValue {
                multiplier,
                value,
                declared_min,
            })
            .into()
    }

    /// The scores of hosts. `hosts` has to have all feasible hosts, because scores are relative to their range. A host
    /// that is alone has the score 0.
    async fn score_hosts(&self, request: &RequestSpec, hosts: &[Uuid]) -> BTreeMap<Uuid, f64> {
        let mut raw_values = Vec::new();
        for host in hosts {
            raw_values.push(self.raw_values(request, *host).await);
        }
        let mut scores: BTreeMap<Uuid, f64> = hosts.iter().map(|host| (*host, 0.0)).collect();
        if hosts.len() < 2 {
            return scores;
        }
        for (weigher, of_first_host) in raw_values[0].iter().enumerate() {
            let declared_min = of_first_host.declared_min;
            let clamped_value = |host: usize| {
                let value = raw_values[host][weigher].value;
                declared_min.map_or(value, |declared_min| value.max(declared_min))
            };
            let indexes = 0..hosts.len();
            let high = indexes.clone().map(clamped_value).fold(f64::MIN, f64::max);
            let low = indexes.clone().map(clamped_value).fold(f64::MAX, f64::min);
            let low = declared_min.unwrap_or(low);
            // A weigher that prefers none of the hosts does not count.
            if high == low {
                continue;
            }
            for host in indexes {
                let share = of_first_host.multiplier * (clamped_value(host) - low) / (high - low);
                *scores.get_mut(&hosts[host]).unwrap() += share;
            }
        }
        scores
    }
}

/// Generates a random request. Returns it and the topology rules that its flavor has in extra specs.
fn draw_request(choices: &mut RandomChoices, fleet: &Fleet) -> (Value, Value) {
    let mut extra_specs = json!({});
    if choices.one_in(3) {
        extra_specs[format!("trait:{}", choices.pick(&TRAITS))] =
            json!(choices.pick(&["required", "forbidden"]));
    }
    if choices.one_in(4) {
        extra_specs["resources:VCPU"] = json!("0");
        extra_specs["resources1:VCPU"] = json!("1");
        extra_specs["resources2:VCPU"] = json!((1 + choices.below(2)).to_string());
        extra_specs["group_policy"] = json!(choices.pick(&["none", "isolate"]));
    }
    let mut flavor_rules = json!([]);
    if choices.one_in(4) {
        let (rules, text) = fleet.topology.draw_flavor_rules(choices);
        if !text.is_empty() {
            extra_specs["placewright:topology"] = json!(text);
        }
        flavor_rules = rules;
    }
    let mut request = json!({
        "flavor": {"vcpus": 1 + choices.below(3), "memory_mb": 256 * (1 + choices.below(4)),
            "root_gb": choices.below(4), "extra_specs": extra_specs},
        "project_id": "p", "user_id": "u",
    });
    let hosts: Vec<Uuid> = fleet.hosts.keys().copied().collect();
    if choices.one_in(4) {
        request["availability_zone"] = json!(choices.pick(&ZONES));
    }
    if choices.one_in(4) {
        request["ignore_hosts"] = json!([format!("host-{}", choices.pick(&hosts))]);
    }
    if choices.one_in(6) {
        request["requested_destination"] =
            json!({"host": format!("host-{}", choices.pick(&hosts))});
    } else if choices.one_in(6) {
        request["requested_destination"] = json!({"cell": cell_uuid(choices.below(2))});
    }
    if choices.one_in(2) {
        let group = uuid(0x60, choices.below(8));
        let policy = POLICIES[policy_index(group)];
        let rules = Topology::rules_of_group(group);
        request["instance_group"] =
            json!({"uuid": group, "policy": policy, "topology_rules": rules});
    }
    if choices.one_in(2) {
        request["topology_rules"] = fleet.topology.draw_rules(choices);
    }
    (request, flavor_rules)
}

fn parse_provider(offer: &Value) -> Uuid {
    offer["provider"].as_str().unwrap().parse().unwrap()
}

/// Whether a score equals the expected one, except for rounding.
fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6
}

/// Sends a random request, and compares the response with the definition. `context` is the beginning of messages of
/// failures.
async fn compare(fleet: &mut Fleet, choices: &mut RandomChoices, number: u64, context: &str) {
    let (request_json, flavor_rules) = draw_request(choices, fleet);
    let context = format!("{context}, request {number}: {request_json}");
    let mut request: RequestSpec = request::read(&request_json).unwrap();
    let flavor_rules: Vec<TopologyRule> = request::read(&flavor_rules).unwrap();
    request.topology_rules.extend(flavor_rules);
    let candidates = fleet.candidates(&request).await;
    let feasible: Vec<Uuid> = candidates
        .keys()
        .copied()
        .filter(|host| fleet.passes(&request, *host))
        .collect();
    let scores = fleet.score_hosts(&request, &feasible).await;
    let alternates = usize::try_from(choices.below(4)).unwrap();
    let does_claim = !choices.one_in(3);
    let instance = uuid(0x10, number);
    let body = json!({"request": request_json, "instances": [instance], "alternates": alternates,
        "claim": does_claim});
    let response = call("POST", "/v1/destinations")
        .json(body.to_string())
        .send_to_scheduler(&fleet.scheduler)
        .await;
    if feasible.is_empty() {
        let error = response.json()["errors"][0].clone();
        assert_eq!(error["code"], "scheduler.no_capacity", "{context}: {error}");
        let explanation = &error["explanation"];
        assert_eq!(
            explanation["with_room"],
            candidates.len(),
            "{context}: {explanation}"
        );
        assert_eq!(explanation["left"], 0, "{context}: {explanation}");
        return;
    }
    assert_eq!(response.status, 200, "{context}: {}", response.text);
    let selection = response.json()["selections"][0].clone();
    check_hosts(fleet, &scores, &selection, alternates, &context);
    let offers = selection["alternates"].as_array().unwrap();
    for offer in std::iter::once(&selection["selected"]).chain(offers) {
        let other = parse_provider(offer);
        let score = offer["score"].as_f64().unwrap();
        assert!(
            is_close(score, scores[&other]),
            "{context}: {offer} of {scores:?}"
        );
        check_candidate(&candidates[&other], offer, &context);
    }
    if !does_claim {
        claim_through_placement(fleet, instance, &selection["selected"]).await;
    } else {
        check_claim(fleet, instance, &selection["selected"], &context).await;
        let host = parse_provider(&selection["selected"]);
        fleet.hosts.get_mut(&host).unwrap().io_ops += 1;
        let group = request.instance_group.as_ref().map(|group| group.uuid);
        fleet.topology.record_claim(instance, host, group);
        if let Some(group) = &request.instance_group {
            fleet.members.entry(group.uuid).or_default().push(host);
        }
    }
}

/// Checks that an offer is one of the candidates of its host, with mappings only if the request has suffixed groups.
fn check_candidate(candidates: &[Value], offer: &Value, context: &str) {
    let allocation_request = &offer["allocation_request"];
    let is_offered = |candidate: &Value| {
        let has_suffixed_groups = candidate["mappings"]
            .as_object()
            .unwrap()
            .keys()
            .any(|key| !key.is_empty());
        let has_mappings = allocation_request["mappings"] == candidate["mappings"];
        allocation_request["allocations"] == candidate["allocations"]
            && if has_suffixed_groups {
                has_mappings
            } else {
                allocation_request["mappings"].is_null()
            }
    };
    assert!(candidates.iter().any(is_offered), "{context}: {offer}");
}

/// Checks that the best host is selected, and that the alternates are the next best of its cell.
fn check_hosts(
    fleet: &Fleet,
    scores: &BTreeMap<Uuid, f64>,
    selection: &Value,
    alternates: usize,
    context: &str,
) {
    let host = parse_provider(&selection["selected"]);
    let best = scores.values().copied().fold(f64::MIN, f64::max);
    let mut best_hosts = scores.iter().filter(|(_, score)| is_close(**score, best));
    let first_best = best_hosts.next().map(|(host, _)| *host);
    assert_eq!(
        first_best,
        Some(host),
        "{context}: {selection} of {scores:?}"
    );
    let cell = fleet.hosts[&host].cell;
    let mut expected_scores: Vec<f64> = scores
        .iter()
        .filter(|(other, _)| **other != host && fleet.hosts[*other].cell == cell)
        .map(|(_, score)| *score)
        .collect();
    expected_scores.sort_by(|a, b| b.total_cmp(a));
    expected_scores.truncate(alternates);
    let offers = selection["alternates"].as_array().unwrap();
    assert_eq!(
        offers.len(),
        expected_scores.len(),
        "{context}: {selection} of {scores:?}"
    );
    let mut distinct = BTreeSet::from([host]);
    for (offer, expected) in offers.iter().zip(&expected_scores) {
        let other = parse_provider(offer);
        assert!(distinct.insert(other), "{context}: {selection}");
        assert_eq!(fleet.hosts[&other].cell, cell, "{context}: {selection}");
        assert!(
            is_close(scores[&other], *expected),
            "{context}: {selection} of {scores:?}"
        );
    }
}

/// Claims the selected candidate through the Placement API, and releases the claim.
async fn claim_through_placement(fleet: &Fleet, instance: Uuid, selected: &Value) {
    let mut body = selected["allocation_request"].clone();
    body["project_id"] = json!("p");
    body["user_id"] = json!("u");
    body["consumer_generation"] = Value::Null;
    body["consumer_type"] = json!("INSTANCE");
    let path = format!("/allocations/{instance}");
    fleet.send_to_placement("PUT", &path, &body).await;
    fleet.send_to_placement("DELETE", &path, &Value::Null).await;
}

/// Checks that the instance has the allocations of the selected candidate.
async fn check_claim(fleet: &Fleet, instance: Uuid, selected: &Value, context: &str) {
    let path = format!("/allocations/{instance}");
    let mut allocations = fleet.get_from_placement(&path).await["allocations"].clone();
    for allocation in allocations.as_object_mut().unwrap().values_mut() {
        allocation.as_object_mut().unwrap().remove("generation");
    }
    let expected = &selected["allocation_request"]["allocations"];
    assert_eq!(&allocations, expected, "{context}");
}

#[tokio::test]
async fn the_answer_is_that_of_the_placement_api_filtered_and_weighed_host_by_host() {
    let cases = std::env::var("CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    for seed in 0..cases.unwrap_or(FLEETS_DEFAULT) {
        let mut choices = RandomChoices(Rng(seed));
        let mut fleet = Fleet::new(&mut choices).await;
        for number in 0..REQUESTS_PER_FLEET {
            compare(&mut fleet, &mut choices, number, &format!("seed {seed}")).await;
        }
    }
}
