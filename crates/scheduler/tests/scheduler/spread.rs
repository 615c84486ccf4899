//! Hard spread rules are not violated by concurrent schedulers, even if their copies of the state
//! are stale.

use std::collections::{BTreeMap, BTreeSet};

use placewright_placement::group::Level;
use placewright_placement::{
    Command, ConsumerGeneration, ConsumerUuid, Intent, Inventory, Outcome, State, Timestamp, decide,
};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::host_state::{HostReport, HostUpdate};
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::request::group::{TopologyRelation, TopologyRule};
use placewright_scheduler::request::{RequestSpec, ServerGroup};
use placewright_scheduler::select::rules::{hard_group_rules, hard_topology_rules};
use placewright_scheduler::select::{Scheduler, Scope};
use proptest::prelude::*;
use uuid::Uuid;

const HOSTS: u32 = 24;
const ROOMS: u32 = 4;
const SCHEDULERS: usize = 5;

fn host_uuid(number: u32) -> Uuid {
    Uuid::from_u128(0x1000 + u128::from(number))
}

fn room_uuid(room: u32) -> Uuid {
    Uuid::from_u128(0xacc0 + u128::from(room))
}

fn group_uuid() -> Uuid {
    Uuid::from_u128(0xe1)
}

/// The room of a host. The rooms have different numbers of hosts.
fn room_of(host: u32) -> u32 {
    (host % 7).min(ROOMS - 1)
}

fn execute(state: &mut State, command: &Command) -> Option<Outcome> {
    let mut changes = Vec::new();
    let outcome = decide(state, command, &mut changes).ok()?;
    changes.iter().for_each(|change| drop(state.apply(change)));
    Some(outcome)
}

fn fleet(sizes: &[u8]) -> State {
    let at = Timestamp::from_seconds(1);
    let mut state = State::default();
    execute(&mut state, &Command::SyncStandardNames { at }).unwrap();
    for (number, size) in (0u32..).zip(sizes) {
        let provider = host_uuid(number);
        let create = Command::CreateProvider {
            uuid: provider,
            name: format!("host{number}"),
            parent: None,
            at,
        };
        execute(&mut state, &create).unwrap();
        let total = i32::from(*size % 4) + 1;
        let inventory = Inventory::new(total, 1.0);
        let inventories = ["VCPU", "MEMORY_MB", "DISK_GB"].map(|class| (class.into(), inventory));
        let set = Command::SetInventories {
            provider,
            generation: None,
            inventories: inventories.into(),
            may_reserve_all: true,
            at,
        };
        execute(&mut state, &set).unwrap();
        let set = Command::SetAggregates {
            provider,
            generation: None,
            aggregates: vec![room_uuid(room_of(number)).to_string()],
            at,
        };
        execute(&mut state, &set).unwrap();
    }
    // A room without hosts does not count for the rule.
    let aggregates = (0..=ROOMS).map(|room| room_uuid(room).to_string());
    let levels = vec![Level::unnamed("room", aggregates.collect())];
    let distances = Vec::new();
    execute(&mut state, &Command::SetLevels { levels, distances }).unwrap();
    state
}

/// Where the rule is stated, and how it names the other instances.
#[derive(Clone, Copy, Debug)]
enum RuleSource {
    /// The rules belong to the server group.
    Group,
    /// Each request has the rule, for the members of its group.
    Request,
    /// Each request has the rule, with the UUIDs of all other instances.
    Uuids,
}

fn request(rule_source: RuleSource, max_skew: u32) -> RequestSpec {
    let mut request = RequestSpec::new(Flavor {
        vcpus: 1,
        memory_mb: 1,
        root_gb: 1,
        ..Flavor::default()
    });
    let mut rule = TopologyRule::hard("room", TopologyRelation::Spread);
    rule.max_skew = Some(max_skew);
    let mut group = ServerGroup {
        uuid: group_uuid(),
        policy: None,
        max_server_per_host: None,
        members: BTreeSet::new(),
        hosts: BTreeSet::new(),
        topology_rules: Vec::new(),
    };
    match rule_source {
        RuleSource::Group => group.topology_rules.push(rule),
        RuleSource::Request => request.topology_rules.push(rule),
        RuleSource::Uuids => {
            rule.to = (0..60u8).map(instance).collect();
            request.topology_rules.push(rule);
            return request;
        }
    }
    request.instance_group = Some(group);
    request
}

fn instance(number: u8) -> Uuid {
    Uuid::from_u128(0xc000 + u128::from(number))
}

/// A step of one of the schedulers.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The scheduler ranks hosts by its copy of the state, and claims on the state itself.
    Claim(u8),
    /// The scheduler gets a new copy of the state.
    Refresh,
    /// An instance is deleted, even if that makes the spread uneven.
    Release(u8),
}

fn event() -> impl Strategy<Value = (usize, Event)> {
    let event = prop_oneof![
        12 => (0u8..60).prop_map(Event::Claim),
        2 => Just(Event::Refresh),
        2 => (0u8..60).prop_map(Event::Release),
    ];
    (0..SCHEDULERS, event)
}

/// The number of instances in each room with hosts, counted from the allocations.
fn instances_by_room(state: &State) -> BTreeMap<u32, usize> {
    let mut counts: BTreeMap<u32, usize> = (0..HOSTS).map(|host| (room_of(host), 0)).collect();
    for number in 0..60 {
        let consumer = state.consumer(ConsumerUuid::from_uuid(instance(number)));
        let allocation = consumer.and_then(|consumer| consumer.allocations.first());
        let Some(allocation) = allocation else {
            continue;
        };
        let uuid = state.provider(allocation.provider).unwrap().uuid;
        let host = u32::try_from(uuid.as_u128() - 0x1000).unwrap();
        *counts.get_mut(&room_of(host)).unwrap() += 1;
    }
    counts
}

fn skew(counts: &BTreeMap<u32, usize>) -> usize {
    counts.values().max().unwrap() - counts.values().min().unwrap()
}

/// The rooms with a free host in which one more instance would satisfy the rule.
fn open_rooms(state: &State, max_skew: u32) -> BTreeSet<u32> {
    let counts = instances_by_room(state);
    let minimum = *counts.values().min().unwrap();
    let vcpu = state.class_id("VCPU").unwrap();
    let free_hosts = (0..HOSTS).filter(|host| {
        let provider = state.provider_by_uuid(host_uuid(*host)).unwrap();
        let mut rows = provider.inventories.iter();
        let row = rows.find(|row| row.class == vcpu).unwrap();
        row.used < row.inventory.capacity()
    });
    free_hosts
        .map(room_of)
        .filter(|room| counts[room] + 1 - minimum <= max_skew as usize)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn no_claim_breaks_a_hard_spread(
        sizes in prop::collection::vec(any::<u8>(), HOSTS as usize),
        rule_source in prop_oneof![Just(RuleSource::Group), Just(RuleSource::Request), Just(RuleSource::Uuids)],
        max_skew in 1u32..4,
        events in prop::collection::vec(event(), 1..120),
    ) {
        let now = Timestamp::from_seconds(100);
        let mut state = fleet(&sizes);
        let request = request(rule_source, max_skew);
        if let Some(group) = &request.instance_group {
            let rules = hard_group_rules(group);
            execute(&mut state, &Command::SetGroup { group: group.uuid, rules }).unwrap();
        }
        let mut scheduler =
            Scheduler::new(SchedulerConfig::default(), PrepareOptions::default()).unwrap();
        for number in 0..HOSTS {
            let mut report = HostReport::default();
            report.facts.names.service_host = format!("host{number}");
            report.facts.names.node = format!("host{number}");
            let full = HostUpdate::Full(Box::new(report));
            scheduler.hosts_mut().apply(host_uuid(number), now, &full);
        }
        let mut schedulers: Vec<(Scheduler, State)> =
            (0..SCHEDULERS).map(|_| (scheduler.fork(), state.clone())).collect();
        // By scheduler: whether its copy is up to date.
        let mut is_fresh = [true; SCHEDULERS];
        for (index, event) in events {
            let (scheduler, copy) = &mut schedulers[index];
            match event {
                Event::Refresh => {
                    *copy = state.clone();
                    is_fresh[index] = true;
                }
                Event::Release(number) => {
                    let consumer = ConsumerUuid::from_uuid(instance(number));
                    if execute(&mut state, &Command::Release { consumer }).is_some() {
                        is_fresh = [false; SCHEDULERS];
                    }
                }
                Event::Claim(number) => {
                    let consumer = ConsumerUuid::from_uuid(instance(number));
                    if state.consumer(consumer).is_some() {
                        continue;
                    }
                    scheduler.observe(copy, now);
                    let prepared = scheduler.prepare_cached(copy, &request).unwrap();
                    let scope = Scope {
                        instance: instance(number),
                        count: HOSTS as usize,
                        ..Scope::default()
                    };
                    let ranked = scheduler.rank(copy, &request, &prepared, &scope).unwrap();
                    if is_fresh[index] {
                        // With an up-to-date copy, the ranked hosts are in exactly these rooms.
                        let ranked_rooms: BTreeSet<u32> =
                            ranked.iter().map(|host| room_of(number_of(copy, host.slot))).collect();
                        prop_assert_eq!(ranked_rooms, open_rooms(&state, max_skew));
                    }
                    let candidates = ranked.iter().flat_map(|host| {
                        scheduler.candidates(copy, &prepared, host.slot, 1).unwrap()
                    });
                    let intent = Intent {
                        consumer,
                        generation: ConsumerGeneration::Is(None),
                        project: "p".into(),
                        user: "u".into(),
                        consumer_type: None,
                        group: request.instance_group.as_ref().map(|group| group.uuid),
                        rules: hard_topology_rules(&request).collect(),
                        candidates: candidates.collect(),
                        alongside: Vec::new(),
                    };
                    let before = skew(&instances_by_room(&state));
                    let command = Command::ClaimFirst { intents: vec![intent], least: 1, at: now };
                    if execute(&mut state, &command).is_some() {
                        is_fresh = [false; SCHEDULERS];
                        // Deletions can make the spread uneven; a claim must not make it worse.
                        let after = skew(&instances_by_room(&state));
                        prop_assert!(after <= before.max(max_skew as usize), "{after}");
                    }
                }
            }
        }
    }
}

/// The number of the host in a slot.
fn number_of(state: &State, slot: u32) -> u32 {
    let uuid = state
        .provider(placewright_placement::ProviderId(slot))
        .unwrap()
        .uuid;
    u32::try_from(uuid.as_u128() - 0x1000).unwrap()
}
