//! The time of a command is linear in the number of its entries, so that no client can delay others
//! with a single command: ten times as many entries take about ten times as long, not a hundred times.

#![expect(
    clippy::disallowed_methods,
    reason = "how long a command takes is what is tested here; the core itself reads no clock"
)]

use std::time::Instant;

use placewright_placement::{
    AllocationRequest, Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid, Inventory,
    InventoryReplacement, State, Timestamp, decide,
};
use uuid::Uuid;

const FEW: u32 = 400;
const TIMES: u32 = 10;
const MANY: u32 = TIMES * FEW;
/// The maximum of the measured time divided by that of linear growth. Quadratic growth gives 10.
const FACTOR_MAX: f64 = 4.0;

fn provider(number: u32) -> Uuid {
    Uuid::from_u128(0xa000_0000 + u128::from(number))
}

fn consumer(number: u32) -> ConsumerUuid {
    ConsumerUuid::from_uuid(Uuid::from_u128(0xc000_0000 + u128::from(number)))
}

fn at() -> Timestamp {
    Timestamp::from_seconds(1)
}

fn run(state: &mut State, command: &Command) {
    let mut changes = Vec::new();
    decide(state, command, &mut changes).expect("accepted");
    for change in &changes {
        state.apply(change);
    }
}

fn inventory() -> Inventory {
    Inventory {
        total: 1_000_000,
        reserved: 0,
        min_unit: 1,
        max_unit: i32::MAX,
        step_size: 1,
        allocation_ratio: 1.0,
    }
}

fn class(number: u32) -> String {
    format!("CUSTOM_{number:05}")
}

/// A state with a number of providers that have one inventory each.
fn state(count: u32) -> State {
    let mut state = State::default();
    run(&mut state, &Command::SyncStandardNames { at: at() });
    for number in 0..count {
        let create = Command::CreateProvider {
            uuid: provider(number),
            name: format!("host-{number}"),
            parent: None,
            at: at(),
        };
        run(&mut state, &create);
        let add = Command::AddInventory {
            provider: provider(number),
            class: "VCPU".to_owned(),
            inventory: inventory(),
            may_reserve_all: true,
            at: at(),
        };
        run(&mut state, &add);
    }
    state
}

fn with_classes(count: u32) -> State {
    let mut state = state(2);
    for number in 0..count {
        let create = Command::CreateClass {
            name: class(number),
            exist_ok: false,
            at: at(),
        };
        run(&mut state, &create);
    }
    state
}

fn claim(consumer: ConsumerUuid, allocations: Vec<AllocationRequest>) -> ConsumerClaim {
    ConsumerClaim {
        consumer,
        generation: ConsumerGeneration::Any,
        project: "p".to_owned(),
        user: "u".to_owned(),
        consumer_type: None,
        allocations,
    }
}

fn one_unit_of(provider: Uuid, class: &str) -> AllocationRequest {
    AllocationRequest {
        provider,
        resources: vec![(class.to_owned(), 1)],
    }
}

fn claim_on_many(count: u32) -> Command {
    let all = (0..count).map(|number| one_unit_of(provider(number), "VCPU"));
    Command::Claim {
        consumers: vec![claim(consumer(0), all.collect())],
        at: at(),
    }
}

/// Compares ten commands with few entries with one command with ten times as many entries. It takes
/// the shortest of several runs of each, so that other load on the machine has little influence.
fn check(what: &str, mut few: impl FnMut(), mut many: impl FnMut()) {
    let time = |work: &mut dyn FnMut(), times| {
        let began = Instant::now();
        for _ in 0..times {
            work();
        }
        began.elapsed().as_secs_f64()
    };
    let (mut shortest_few, mut shortest_many) = (f64::MAX, f64::MAX);
    for _ in 0..9 {
        shortest_few = shortest_few.min(time(&mut few, TIMES));
        shortest_many = shortest_many.min(time(&mut many, 1));
    }
    let factor = shortest_many / shortest_few;
    println!("{what}: {shortest_few:.6} s, {shortest_many:.6} s, {factor:.1} times");
    assert!(factor < FACTOR_MAX, "{what}: {factor:.1} times as long");
}

/// Runs commands on a state repeatedly.
fn repeat(mut state: State, commands: Vec<Command>) -> impl FnMut() {
    move || {
        for command in &commands {
            run(&mut state, command);
        }
    }
}

#[test]
fn claims_on_many_providers() {
    let work = |count| {
        let release = Command::Claim {
            consumers: vec![claim(consumer(0), Vec::new())],
            at: at(),
        };
        repeat(
            state(count),
            vec![claim_on_many(count), claim_on_many(count), release],
        )
    };
    check("one consumer on many providers", work(FEW), work(MANY));
}

#[test]
fn claims_of_many_consumers() {
    let work = |count| {
        let claim_of = |number| {
            let provider = provider(number % 100);
            claim(consumer(number), vec![one_unit_of(provider, "VCPU")])
        };
        let command = Command::Claim {
            consumers: (0..count).map(claim_of).collect(),
            at: at(),
        };
        repeat(state(100), vec![command])
    };
    check("many consumers on some providers", work(FEW), work(MANY));
}

#[test]
fn claims_of_many_classes_that_their_providers_lack() {
    // The provider has an inventory of the last class only. The claim is refused for another class after
    // all classes were looked up.
    let work = |count: u32| {
        let mut resources: Vec<_> = (0..count).map(|number| (class(number), 1)).collect();
        resources.push(("VCPU".to_owned(), 1));
        let all = AllocationRequest {
            provider: provider(0),
            resources,
        };
        let command = Command::Claim {
            consumers: vec![claim(consumer(0), vec![all])],
            at: at(),
        };
        let state = with_classes(count);
        move || assert!(decide(&state, &command, &mut Vec::new()).is_err())
    };
    check("many classes that are not there", work(FEW), work(MANY));
}

#[test]
fn claims_and_inventories_of_many_classes() {
    let work = |count: u32| {
        // Sets the inventories of each class whose number is a multiple of `step`.
        let set_every = |step: usize| {
            let numbers = (0..count).step_by(step);
            Command::SetInventories {
                provider: provider(0),
                generation: None,
                inventories: numbers.map(|number| (class(number), inventory())).collect(),
                may_reserve_all: true,
                at: at(),
            }
        };
        let claim_of = |resources| {
            let all = AllocationRequest {
                provider: provider(0),
                resources,
            };
            Command::Claim {
                consumers: vec![claim(consumer(0), vec![all])],
                at: at(),
            }
        };
        let all = claim_of((0..count).map(|number| (class(number), 1)).collect());
        // With this claim the consumer keeps only one class, so that inventories of others can be removed.
        let only_first = claim_of(vec![(class(0), 1)]);
        let commands = vec![set_every(1), all, only_first, set_every(2)];
        repeat(with_classes(count), commands)
    };
    check("one provider, many classes", work(FEW), work(MANY));
}

#[test]
fn reshapes_of_many_providers() {
    let work = |count| {
        let reshape = move |generation| {
            let replacement = |number| InventoryReplacement {
                provider: provider(number),
                generation,
                inventories: vec![("MEMORY_MB".to_owned(), inventory())],
            };
            let all = (0..count).map(|number| one_unit_of(provider(number), "MEMORY_MB"));
            Command::Reshape {
                inventories: (0..count).map(replacement).collect(),
                consumers: vec![claim(consumer(0), all.collect())],
                at: at(),
            }
        };
        let mut state = state(count);
        move || {
            let host = state.provider_by_uuid(provider(0));
            let generation = host.map(|provider| provider.generation);
            run(
                &mut state,
                &reshape(generation.expect("the provider exists")),
            );
        }
    };
    check("a reshape of many providers", work(FEW), work(MANY));
}

#[test]
fn lists_of_many_aggregates() {
    let work = |count: u32| {
        // Lists of different kinds have no aggregate in common.
        let list = |kind: u32| {
            let uuid = |number| Uuid::from_u128(u128::from(kind) << 64 | u128::from(number));
            Command::SetAggregates {
                provider: provider(0),
                generation: None,
                aggregates: (0..count).map(|number| uuid(number).to_string()).collect(),
                at: at(),
            }
        };
        repeat(state(1), vec![list(1), list(1), list(2)])
    };
    check("many aggregates", work(FEW), work(MANY));
}
