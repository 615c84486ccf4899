//! What the scheduler answers, by its definition: the answer of the Placement API to the request's
//! query, filtered and weighed host by host.
//!
//! Random fleets with trees and shared disks, random requests. What this test knows of a host it
//! asks the Placement API, or has itself told the scheduler. `CASES` sets how many fleets.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod definition;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use definition::Places;
use placewright_api_placement::PlacementService;
use placewright_api_scheduler::{KeepOptions, SchedulerService};
use placewright_api_testing::{Parts, call, get};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::prefilter::Environment;
use placewright_scheduler::prepare::{PrepareOptions, prepare};
use placewright_scheduler::request::{self, RequestSpec};
use placewright_scheduler::select::Scheduler;
use placewright_scheduler::translate::target::{ComputeNode, Target};
use placewright_testing::random::Rng;
use serde_json::{Value, json};
use uuid::Uuid;

/// Random choices.
struct Dice(Rng);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0.number() % end
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

const TRAITS: [&str; 3] = ["HW_CPU_X86_AVX2", "HW_NIC_SRIOV", "STORAGE_DISK_SSD"];
const ZONES: [&str; 2] = ["north", "south"];
const POLICIES: [&str; 4] = [
    "affinity",
    "anti-affinity",
    "soft-affinity",
    "soft-anti-affinity",
];

fn uuid(kind: u32, number: u64) -> Uuid {
    format!("{kind:08x}-0000-4000-8000-{number:012x}")
        .parse()
        .unwrap()
}

fn host_uuid(number: u64) -> Uuid {
    uuid(0x40, number)
}

fn cell_uuid(number: u64) -> Uuid {
    uuid(0xc0, number)
}

fn zone_uuid(number: u64) -> Uuid {
    uuid(0xa0, number)
}

/// The state of a host that this test reported to the scheduler.
struct Host {
    cell: u64,
    is_usable: bool,
    /// The reported number, plus one for each instance that is on its way to the host.
    io_ops: u32,
    failed_builds: u32,
    version: u32,
    parts: Vec<Uuid>,
}

/// A fleet with both of its services, and what the test knows of it.
struct Fleet {
    placement: Arc<PlacementService>,
    scheduler: Arc<SchedulerService>,
    hosts: BTreeMap<Uuid, Host>,
    /// The members of each server group, with their hosts.
    members: BTreeMap<Uuid, Vec<Uuid>>,
    zones: BTreeMap<Uuid, BTreeMap<String, String>>,
    places: Places,
}

impl Environment for Fleet {
    fn each_aggregate(&self, visit: &mut dyn FnMut(Uuid, &BTreeMap<String, String>)) {
        for (uuid, metadata) in &self.zones {
            visit(*uuid, metadata);
        }
    }

    fn segment_aggregates(&self, _segment: Uuid) -> Option<Vec<Uuid>> {
        None
    }

    fn compute_version_min(&self) -> u32 {
        0
    }

    fn compute_nodes(&self, target: Target<'_>) -> Vec<ComputeNode> {
        let nodes = self.hosts.iter().map(|(uuid, host)| {
            let node = ComputeNode {
                uuid: *uuid,
                host: format!("host-{uuid}"),
                node: format!("node-{uuid}"),
            };
            (node, cell_uuid(host.cell))
        });
        nodes
            .filter(|(node, cell)| {
                target.host.is_none_or(|host| host == node.host)
                    && target.node.is_none_or(|name| name == node.node)
                    && target.cell.is_none_or(|wanted| wanted == *cell)
            })
            .map(|(node, _)| node)
            .collect()
    }
}

impl Fleet {
    async fn new(dice: &mut Dice) -> Self {
        let parts = Parts::new().await;
        let config = SchedulerConfig::default();
        let scheduler = Scheduler::new(config, PrepareOptions::default()).unwrap();
        let mut fleet = Self {
            scheduler: parts.scheduler(scheduler, KeepOptions::default()),
            placement: parts.service(),
            hosts: BTreeMap::new(),
            members: BTreeMap::new(),
            zones: BTreeMap::new(),
            places: Places::default(),
        };
        let topology = fleet.places.draw_topology(dice);
        for (number, zone) in (0..).zip(ZONES) {
            let metadata = BTreeMap::from([("availability_zone".to_owned(), zone.to_owned())]);
            let path = format!("/v1/aggregates/{}", zone_uuid(number));
            let body = json!({"name": zone, "metadata": metadata});
            fleet.tell("PUT", &path, &body).await;
            fleet.zones.insert(zone_uuid(number), metadata);
        }
        let has_shared_disk = dice.one_in(4);
        let count = 2 + dice.below(7);
        for number in 0..count {
            fleet.add_host(dice, number, has_shared_disk).await;
        }
        if has_shared_disk {
            let pool = uuid(0x50, 0);
            let disk = json!({"DISK_GB": {"total": 30}});
            fleet.add_provider(pool, None, disk).await;
            fleet
                .set(pool, &["MISC_SHARES_VIA_AGGREGATE"], &[zone_uuid(0)])
                .await;
        }
        fleet.tell("PUT", "/v1/topology", &topology).await;
        fleet
    }

    async fn place(&self, method: &str, path: &str, body: &Value) {
        let answer = call(method, path)
            .json(body.to_string())
            .send(&self.placement)
            .await;
        assert!(answer.status < 300, "{path}: {}", answer.text);
    }

    async fn tell(&self, method: &str, path: &str, body: &Value) {
        let answer = call(method, path)
            .json(body.to_string())
            .ask(&self.scheduler)
            .await;
        assert!(answer.status < 300, "{path}: {}", answer.text);
    }

    async fn ask_placement(&self, path: &str) -> Value {
        let answer = get(path).send(&self.placement).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.json()
    }

    async fn add_provider(&self, uuid: Uuid, parent: Option<Uuid>, inventories: Value) {
        let body = json!({"name": uuid, "uuid": uuid, "parent_provider_uuid": parent});
        self.place("POST", "/resource_providers", &body).await;
        let body = json!({"resource_provider_generation": 0, "inventories": inventories});
        let path = format!("/resource_providers/{uuid}/inventories");
        self.place("PUT", &path, &body).await;
    }

    async fn set(&self, uuid: Uuid, traits: &[&str], aggregates: &[Uuid]) {
        let path = format!("/resource_providers/{uuid}");
        for (part, values) in [("traits", json!(traits)), ("aggregates", json!(aggregates))] {
            let generation = self.ask_placement(&path).await["generation"].clone();
            let mut body = json!({"resource_provider_generation": generation});
            body[part] = values;
            self.place("PUT", &format!("{path}/{part}"), &body).await;
        }
    }

    async fn add_host(&mut self, dice: &mut Dice, number: u64, has_shared_disk: bool) {
        let uuid = host_uuid(number);
        let zone = dice.below(3);
        let mut own = json!({"MEMORY_MB": {
            "total": 1024 * (1 + dice.below(8)), "reserved": 256 * dice.below(2),
            "allocation_ratio": dice.pick(&[1.0, 1.5]),
        }});
        if !(has_shared_disk && zone == 0 && dice.one_in(2)) {
            own["DISK_GB"] = json!({"total": 5 + dice.below(20)});
        }
        let cpus = |dice: &mut Dice| {
            let ratio = dice.pick(&[1.0, 2.0]);
            json!({"total": 2 + dice.below(6), "allocation_ratio": ratio})
        };
        let mut parts = Vec::new();
        if dice.one_in(3) {
            self.add_provider(uuid, None, own).await;
            for part in 0..1 + dice.below(2) {
                let part = self::uuid(0x41 + u32::try_from(part).unwrap(), number);
                let inventories = json!({"VCPU": cpus(dice)});
                self.add_provider(part, Some(uuid), inventories).await;
                parts.push(part);
            }
        } else {
            own["VCPU"] = cpus(dice);
            self.add_provider(uuid, None, own).await;
        }
        let traits: Vec<&str> = TRAITS.into_iter().filter(|_| dice.one_in(2)).collect();
        let mut aggregates = self.places.draw_host(dice, uuid);
        aggregates.extend((zone < 2).then(|| zone_uuid(zone)));
        self.set(uuid, &traits, &aggregates).await;
        let host = Host {
            cell: dice.below(2),
            is_usable: !dice.one_in(6),
            io_ops: u32::try_from(dice.below(4)).unwrap(),
            failed_builds: u32::try_from(dice.below(12).saturating_sub(9)).unwrap(),
            version: dice.pick(&[1_000, 2_000]),
            parts,
        };
        let disabled = (!host.is_usable).then_some("why");
        let body = json!({"incarnation": 1, "sequence": 1, "update": {"full": {
            "facts": {
                "names": {"service_host": format!("host-{uuid}"), "node": format!("node-{uuid}"),
                    "cell": cell_uuid(host.cell)},
                "platform": {"hypervisor_version": host.version},
            },
            "load": {"io_ops": host.io_ops, "failed_builds": host.failed_builds},
            "disabled": disabled,
        }}});
        self.tell("POST", &format!("/v1/hosts/{uuid}/state"), &body)
            .await;
        self.hosts.insert(uuid, host);
    }

    /// The candidates of each host, from the Placement API.
    async fn candidates(&self, request: &RequestSpec) -> BTreeMap<Uuid, Vec<Value>> {
        let prepared = prepare(request, &PrepareOptions::default(), self).unwrap();
        assert!(prepared.translation.rules.is_empty(), "{request:?}");
        let forms = [
            Some(&prepared.translation.request),
            prepared.translation.fallback.as_ref(),
        ];
        let mut found: BTreeMap<Uuid, Vec<Value>> = BTreeMap::new();
        for form in forms.into_iter().flatten() {
            let path = format!("/allocation_candidates?{}", form.to_query_string());
            let told = self.ask_placement(&path).await;
            for one in told["allocation_requests"].as_array().unwrap() {
                let providers = one["allocations"].as_object().unwrap().keys();
                let roots = providers.map(|provider| {
                    let root = &told["provider_summaries"][provider]["root_provider_uuid"];
                    root.as_str().unwrap().parse::<Uuid>().unwrap()
                });
                let mut roots = roots;
                let host = roots.find(|root| self.hosts.contains_key(root));
                found.entry(host.unwrap()).or_default().push(one.clone());
            }
            if !found.is_empty() {
                break;
            }
        }
        found
    }

    /// Whether a host passes the filters for properties that placement does not have.
    fn passes(&self, request: &RequestSpec, uuid: Uuid) -> bool {
        let host = &self.hosts[&uuid];
        let name = format!("host-{uuid}");
        let destination = request.requested_destination.as_ref();
        let wanted_cell = destination.and_then(|wanted| wanted.cell);
        let group = request.instance_group.as_ref();
        let keeps_group = group.is_none_or(|group| {
            let members = self.members.get(&group.uuid);
            let hosts = members.map_or(&[][..], Vec::as_slice);
            match POLICIES[policy_of(group.uuid)] {
                "affinity" => hosts.iter().all(|other| *other == uuid),
                "anti-affinity" => !hosts.contains(&uuid),
                _ => true,
            }
        });
        host.is_usable
            && !request.ignore_hosts.contains(&name)
            && wanted_cell.is_none_or(|cell| cell == cell_uuid(host.cell))
            && keeps_group
            && self.places.keeps(request, uuid)
    }

    /// The raw values of a host's weighers: each with its multiplier and its declared minimum.
    async fn numbers(&self, request: &RequestSpec, uuid: Uuid) -> Vec<(f64, f64, Option<f64>)> {
        let host = &self.hosts[&uuid];
        let (mut memory, mut disk, mut cpus, mut taken, mut ratio) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for provider in std::iter::once(&uuid).chain(&host.parts) {
            let path = format!("/resource_providers/{provider}");
            let has = self.ask_placement(&format!("{path}/inventories")).await;
            let used = self.ask_placement(&format!("{path}/usages")).await;
            for (class, inventory) in has["inventories"].as_object().unwrap() {
                let number = |value: &Value| value.as_f64().unwrap();
                let total = number(&inventory["total"]);
                let used = number(&used["usages"][class]) + number(&inventory["reserved"]);
                match class.as_str() {
                    "MEMORY_MB" => memory += total - used,
                    "DISK_GB" => disk += (total - used) * 1024.0,
                    _ => {
                        cpus += total;
                        taken += used;
                        ratio = number(&inventory["allocation_ratio"]);
                    }
                }
            }
        }
        let group = request.instance_group.as_ref();
        let mates = group.map_or(0, |group| {
            let members = self.members.get(&group.uuid).into_iter().flatten();
            members.filter(|other| **other == uuid).count()
        });
        let policy = group.map_or("", |group| POLICIES[policy_of(group.uuid)]);
        let soft = match policy {
            "soft-affinity" => mates as f64,
            "soft-anti-affinity" => -(mates as f64),
            _ => 0.0,
        };
        vec![
            (1.0, memory, Some(0.0)),
            (1.0, cpus * ratio - taken, Some(0.0)),
            (1.0, disk, Some(0.0)),
            (-1.0, f64::from(host.io_ops), Some(0.0)),
            (1.0, soft, None),
            (-1e6, f64::from(host.failed_builds), None),
            (1.0, f64::from(host.version), None),
            (1.0, self.places.wish(request, uuid), None),
        ]
    }

    /// The feasible hosts, each with its score.
    async fn weigh(&self, request: &RequestSpec, hosts: &[Uuid]) -> BTreeMap<Uuid, f64> {
        let mut numbers = Vec::new();
        for host in hosts {
            numbers.push(self.numbers(request, *host).await);
        }
        let mut weights: BTreeMap<Uuid, f64> = hosts.iter().map(|host| (*host, 0.0)).collect();
        if hosts.len() < 2 {
            return weights;
        }
        for (weigher, (_, _, declared)) in numbers[0].iter().enumerate() {
            let of = |host: usize| {
                let (_, number, low) = numbers[host][weigher];
                low.map_or(number, |low| number.max(low))
            };
            let all = 0..hosts.len();
            let high = all.clone().map(of).fold(f64::MIN, f64::max);
            let low = all.clone().map(of).fold(f64::MAX, f64::min);
            let low = declared.unwrap_or(low);
            if high == low {
                continue;
            }
            for host in all {
                let share = numbers[host][weigher].0 * (of(host) - low) / (high - low);
                *weights.get_mut(&hosts[host]).unwrap() += share;
            }
        }
        weights
    }
}

fn policy_of(group: Uuid) -> usize {
    usize::from(group.as_bytes()[15]) % POLICIES.len()
}

fn draw(dice: &mut Dice, fleet: &Fleet) -> Value {
    let mut extra = json!({});
    if dice.one_in(3) {
        extra[format!("trait:{}", dice.pick(&TRAITS))] =
            json!(dice.pick(&["required", "forbidden"]));
    }
    if dice.one_in(4) {
        extra["resources:VCPU"] = json!("0");
        extra["resources1:VCPU"] = json!("1");
        extra["resources2:VCPU"] = json!((1 + dice.below(2)).to_string());
        extra["group_policy"] = json!(dice.pick(&["none", "isolate"]));
    }
    let mut request = json!({
        "flavor": {"vcpus": 1 + dice.below(3), "memory_mb": 256 * (1 + dice.below(4)),
            "root_gb": dice.below(4), "extra_specs": extra},
        "project_id": "p", "user_id": "u",
    });
    let known: Vec<Uuid> = fleet.hosts.keys().copied().collect();
    if dice.one_in(4) {
        request["availability_zone"] = json!(dice.pick(&ZONES));
    }
    if dice.one_in(4) {
        request["ignore_hosts"] = json!([format!("host-{}", dice.pick(&known))]);
    }
    if dice.one_in(6) {
        request["requested_destination"] = json!({"host": format!("host-{}", dice.pick(&known))});
    } else if dice.one_in(6) {
        request["requested_destination"] = json!({"cell": cell_uuid(dice.below(2))});
    }
    if dice.one_in(2) {
        let group = uuid(0x60, dice.below(8));
        let policy = POLICIES[policy_of(group)];
        let rules = Places::rules_of_group(group);
        request["instance_group"] =
            json!({"uuid": group, "policy": policy, "topology_rules": rules});
    }
    if dice.one_in(2) {
        request["topology_rules"] = fleet.places.draw_rules(dice);
    }
    request
}

fn provider_of(offer: &Value) -> Uuid {
    offer["provider"].as_str().unwrap().parse().unwrap()
}

/// Whether a score equals the expected one, except for rounding.
fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6
}

async fn compare(fleet: &mut Fleet, dice: &mut Dice, number: u64, what: &str) {
    let text = draw(dice, fleet);
    let what = format!("{what}, request {number}: {text}");
    let request: RequestSpec = request::read(&text).unwrap();
    let candidates = fleet.candidates(&request).await;
    let left: Vec<Uuid> = candidates.keys().copied().collect();
    let left: Vec<Uuid> = left
        .into_iter()
        .filter(|host| fleet.passes(&request, *host))
        .collect();
    let weights = fleet.weigh(&request, &left).await;
    let alternates = usize::try_from(dice.below(4)).unwrap();
    let does_claim = !dice.one_in(3);
    let instance = uuid(0x10, number);
    let body = json!({"request": text, "instances": [instance], "alternates": alternates,
        "claim": does_claim});
    let answer = call("POST", "/v1/destinations")
        .json(body.to_string())
        .ask(&fleet.scheduler)
        .await;
    if left.is_empty() {
        let error = answer.json()["errors"][0].clone();
        assert_eq!(error["code"], "scheduler.no_capacity", "{what}: {error}");
        let why = &error["explanation"];
        assert_eq!(why["with_room"], candidates.len(), "{what}: {why}");
        assert_eq!(why["left"], 0, "{what}: {why}");
        return;
    }
    assert_eq!(answer.status, 200, "{what}: {}", answer.text);
    let told = answer.json()["selections"][0].clone();
    check_hosts(fleet, &weights, &told, alternates, &what);
    let offers = told["alternates"].as_array().unwrap();
    for offer in std::iter::once(&told["selected"]).chain(offers) {
        let other = provider_of(offer);
        let score = offer["score"].as_f64().unwrap();
        assert!(
            is_close(score, weights[&other]),
            "{what}: {offer} of {weights:?}"
        );
        let way = &offer["allocation_request"];
        let is_one = |one: &Value| {
            let is_granular = one["mappings"]
                .as_object()
                .unwrap()
                .keys()
                .any(|key| !key.is_empty());
            let says_mappings = way["mappings"] == one["mappings"];
            way["allocations"] == one["allocations"]
                && if is_granular {
                    says_mappings
                } else {
                    way["mappings"].is_null()
                }
        };
        assert!(candidates[&other].iter().any(is_one), "{what}: {offer}");
    }
    if !does_claim {
        claim_by_hand(fleet, instance, &told["selected"]).await;
    } else {
        check_claim(fleet, instance, &told["selected"], &what).await;
        let host = provider_of(&told["selected"]);
        fleet.hosts.get_mut(&host).unwrap().io_ops += 1;
        let group = request.instance_group.as_ref().map(|group| group.uuid);
        fleet.places.claimed(instance, host, group);
        if let Some(group) = &request.instance_group {
            fleet.members.entry(group.uuid).or_default().push(host);
        }
    }
}

/// Checks that the best host is selected, and that the alternates are the next best of its cell.
fn check_hosts(
    fleet: &Fleet,
    weights: &BTreeMap<Uuid, f64>,
    told: &Value,
    alternates: usize,
    what: &str,
) {
    let host = provider_of(&told["selected"]);
    let best = weights.values().copied().fold(f64::MIN, f64::max);
    let mut equals = weights
        .iter()
        .filter(|(_, weight)| is_close(**weight, best));
    let first = equals.next().map(|(host, _)| *host);
    assert_eq!(first, Some(host), "{what}: {told} of {weights:?}");
    let cell = fleet.hosts[&host].cell;
    let mut mates: Vec<f64> = weights
        .iter()
        .filter(|(other, _)| **other != host && fleet.hosts[*other].cell == cell)
        .map(|(_, weight)| *weight)
        .collect();
    mates.sort_by(|a, b| b.total_cmp(a));
    mates.truncate(alternates);
    let offers = told["alternates"].as_array().unwrap();
    assert_eq!(offers.len(), mates.len(), "{what}: {told} of {weights:?}");
    let mut seen = BTreeSet::from([host]);
    for (offer, wanted) in offers.iter().zip(&mates) {
        let other = provider_of(offer);
        assert!(seen.insert(other), "{what}: {told}");
        assert_eq!(fleet.hosts[&other].cell, cell, "{what}: {told}");
        assert!(
            is_close(weights[&other], *wanted),
            "{what}: {told} of {weights:?}"
        );
    }
}

/// Claims what was returned through the Placement API, and releases it.
async fn claim_by_hand(fleet: &Fleet, instance: Uuid, selected: &Value) {
    let mut body = selected["allocation_request"].clone();
    body["project_id"] = json!("p");
    body["user_id"] = json!("u");
    body["consumer_generation"] = Value::Null;
    body["consumer_type"] = json!("INSTANCE");
    let path = format!("/allocations/{instance}");
    fleet.place("PUT", &path, &body).await;
    fleet.place("DELETE", &path, &Value::Null).await;
}

/// Checks that the instance holds what was returned.
async fn check_claim(fleet: &Fleet, instance: Uuid, selected: &Value, what: &str) {
    let path = format!("/allocations/{instance}");
    let mut held = fleet.ask_placement(&path).await["allocations"].clone();
    for one in held.as_object_mut().unwrap().values_mut() {
        one.as_object_mut().unwrap().remove("generation");
    }
    let way = &selected["allocation_request"]["allocations"];
    assert_eq!(&held, way, "{what}");
}

#[tokio::test]
async fn the_answer_is_that_of_the_placement_api_filtered_and_weighed_host_by_host() {
    let cases = std::env::var("CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    for seed in 0..cases.unwrap_or(20u64) {
        let mut dice = Dice(Rng(seed));
        let mut fleet = Fleet::new(&mut dice).await;
        for number in 0..15 {
            compare(&mut fleet, &mut dice, number, &format!("seed {seed}")).await;
        }
    }
}
