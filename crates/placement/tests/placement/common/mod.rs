//! Random commands about few objects, so that many commands concern the same object.

use placewright_placement::group::{Distance, Level, Relation, Rule, RuleScope};
use placewright_placement::{
    AllocationRequest, Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid, Intent,
    IntentCandidate, IntentRule, Inventory, InventoryReplacement, ParentChange, State, Timestamp,
};
use proptest::prelude::*;
use uuid::Uuid;

/// Resource classes in commands. The custom ones do not exist until a command creates them.
pub(crate) const CLASSES: [&str; 5] = ["VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_A", "CUSTOM_B"];
const TRAITS: [&str; 4] = [
    "HW_CPU_X86_AVX",
    "MISC_SHARES_VIA_AGGREGATE",
    "CUSTOM_GOLD",
    "CUSTOM_UNKNOWN",
];

pub(crate) fn provider_uuid(number: u8) -> Uuid {
    Uuid::from_u128(0xa000 + u128::from(number))
}

fn consumer_uuid(number: u8) -> ConsumerUuid {
    ConsumerUuid::from_uuid(Uuid::from_u128(0xc000 + u128::from(number)))
}

fn provider() -> impl Strategy<Value = Uuid> {
    (0u8..6).prop_map(provider_uuid)
}

fn class() -> impl Strategy<Value = String> {
    prop::sample::select(&CLASSES[..]).prop_map(str::to_owned)
}

fn inventory() -> impl Strategy<Value = Inventory> {
    (
        1i32..40,
        0i32..6,
        1i32..3,
        1i32..30,
        1i32..3,
        prop::sample::select(vec![1.0, 1.5, 4.0, 0.5]),
    )
        .prop_map(
            |(total, reserved, min_unit, max_unit, step_size, allocation_ratio)| Inventory {
                total,
                reserved,
                min_unit,
                max_unit: max_unit.max(min_unit),
                step_size,
                allocation_ratio,
            },
        )
}

/// Inventories of distinct classes, as a JSON object would hold them.
fn inventories() -> impl Strategy<Value = Vec<(String, Inventory)>> {
    prop::collection::btree_map(class(), inventory(), 0..4)
        .prop_map(|inventories| inventories.into_iter().collect())
}

fn at() -> impl Strategy<Value = Timestamp> {
    (0i64..1_000).prop_map(Timestamp::from_seconds)
}

/// A generation that is often the correct one, because there are few of them.
fn generation() -> impl Strategy<Value = u64> {
    0u64..5
}

fn claim() -> impl Strategy<Value = ConsumerClaim> {
    let resources = prop::collection::btree_map(class(), 1i64..12, 1..3);
    let allocations = prop::collection::btree_map(provider(), resources, 0..3);
    let generation = prop_oneof![
        4 => Just(ConsumerGeneration::Any),
        1 => prop::option::of(0u64..3).prop_map(ConsumerGeneration::Is)
    ];
    (
        0u8..8,
        generation,
        "[pq]",
        "[uv]",
        prop::option::of("[A-B]"),
        allocations,
    )
        .prop_map(
            |(consumer, generation, project, user, consumer_type, allocations)| ConsumerClaim {
                consumer: consumer_uuid(consumer),
                generation,
                project,
                user,
                consumer_type,
                allocations: allocations
                    .into_iter()
                    .map(|(provider, resources)| AllocationRequest {
                        provider,
                        resources: resources.into_iter().collect(),
                    })
                    .collect(),
            },
        )
}

fn claims(min_count: usize) -> impl Strategy<Value = Vec<ConsumerClaim>> {
    prop::collection::vec(claim(), min_count..3).prop_map(|mut claims| {
        claims.sort_by_key(|claim| claim.consumer);
        claims.dedup_by_key(|claim| claim.consumer);
        claims
    })
}

fn parent() -> impl Strategy<Value = ParentChange> {
    prop_oneof![
        Just(ParentChange::Keep),
        prop::option::of(provider()).prop_map(ParentChange::SetOnce),
        prop::option::of(provider()).prop_map(ParentChange::Move),
    ]
}

fn group_uuid() -> impl Strategy<Value = Uuid> {
    (0u8..2).prop_map(|number| Uuid::from_u128(0xe000 + u128::from(number)))
}

fn rule() -> impl Strategy<Value = Rule> {
    let scope = prop::sample::select(vec![RuleScope::Host, RuleScope::Level("rack".into())]);
    let relation = prop::sample::select(vec![
        Relation::Same,
        Relation::FewerThan(1),
        Relation::FewerThan(2),
        Relation::Spread(1),
        Relation::Spread(2),
    ]);
    (scope, relation).prop_map(|(scope, relation)| Rule { scope, relation })
}

fn intent() -> impl Strategy<Value = Intent> {
    let candidate = (provider(), 1i64..12).prop_map(|(host, amount)| IntentCandidate {
        host,
        allocations: [AllocationRequest {
            provider: host,
            resources: vec![("VCPU".into(), amount)],
        }]
        .into(),
    });
    let candidates = prop::collection::vec(candidate, 0..4);
    (
        claim(),
        prop::option::of(group_uuid()),
        candidates,
        prop::option::weighted(0.2, (rule(), any::<bool>())),
    )
        .prop_map(|(claim, group, candidates, rule)| Intent {
            consumer: claim.consumer,
            generation: claim.generation,
            project: claim.project,
            user: claim.user,
            consumer_type: claim.consumer_type,
            group,
            rules: rule
                .into_iter()
                .map(|(rule, includes_group)| IntentRule {
                    rule,
                    others: vec![consumer_uuid(0)],
                    includes_group,
                })
                .collect(),
            candidates,
            alongside: Vec::new(),
        })
}

fn replacement() -> impl Strategy<Value = InventoryReplacement> {
    (provider(), generation(), inventories()).prop_map(|(provider, generation, inventories)| {
        InventoryReplacement {
            provider,
            generation,
            inventories,
        }
    })
}

/// A level of one or two aggregates. A name of no aggregate of the level is dropped.
fn level(has_two_aggregates: bool) -> Level {
    if !has_two_aggregates {
        return Level::unnamed("rack", vec!["x".into()]);
    }
    Level {
        name: "rack".into(),
        aggregates: vec!["y".into(), "x".into()],
        names: [("y".into(), "r1".into()), ("z".into(), "r2".into())].into(),
    }
}

/// Generates commands of every kind, valid and invalid.
pub(crate) fn command() -> impl Strategy<Value = Command> {
    let names = prop::sample::subsequence(TRAITS.map(str::to_owned).to_vec(), 0..4);
    let aggregates = prop::sample::subsequence(vec!["x".to_owned(), "y".to_owned()], 0..3);
    let custom_class = || prop::sample::select(vec!["CUSTOM_A", "CUSTOM_B", "VCPU"]);
    prop_oneof![
        4 => (provider(), "[a-g]", prop::option::of(provider()), at())
            .prop_map(|(uuid, name, parent, at)| Command::CreateProvider { uuid, name, parent, at }),
        2 => (provider(), "[a-g]", parent(), at())
            .prop_map(|(uuid, name, parent, at)| Command::UpdateProvider { uuid, name, parent, at }),
        1 => provider().prop_map(|uuid| Command::DeleteProvider { uuid }),
        6 => (provider(), prop::option::weighted(0.2, generation()), inventories(), any::<bool>(), at())
            .prop_map(|(provider, generation, inventories, may_reserve_all, at)| {
                Command::SetInventories { provider, generation, inventories, may_reserve_all, at }
            }),
        2 => (provider(), class(), inventory(), at()).prop_map(|(provider, class, inventory, at)| {
            Command::AddInventory { provider, class, inventory, may_reserve_all: true, at }
        }),
        1 => (provider(), generation(), class(), inventory(), at()).prop_map(
            |(provider, generation, class, inventory, at)| Command::UpdateInventory {
                provider, generation, class, inventory, may_reserve_all: false, at,
            }
        ),
        1 => (provider(), class(), at())
            .prop_map(|(provider, class, at)| Command::DeleteInventory { provider, class, at }),
        2 => (provider(), names, at()).prop_map(|(provider, traits, at)| {
            Command::SetTraits { provider, generation: None, traits, at }
        }),
        2 => (provider(), prop::option::of(generation()), aggregates, at()).prop_map(
            |(provider, generation, aggregates, at)| Command::SetAggregates {
                provider, generation, aggregates, at,
            }
        ),
        1 => (custom_class(), any::<bool>(), at())
            .prop_map(|(name, exist_ok, at)| Command::CreateClass { name: name.into(), exist_ok, at }),
        1 => (custom_class(), custom_class(), at()).prop_map(|(name, new_name, at)| {
            Command::RenameClass { name: name.into(), new_name: new_name.into(), at }
        }),
        1 => custom_class().prop_map(|name| Command::DeleteClass { name: name.into() }),
        1 => at().prop_map(|at| Command::EnsureTrait { name: "CUSTOM_GOLD".into(), at }),
        1 => Just(Command::DeleteTrait { name: "CUSTOM_GOLD".into() }),
        10 => (claims(1), at()).prop_map(|(consumers, at)| Command::Claim { consumers, at }),
        4 => (prop::collection::vec(intent(), 1..3), 0usize..3, at()).prop_map(
            |(mut intents, least, at)| {
                intents.sort_by_key(|intent| intent.consumer);
                intents.dedup_by_key(|intent| intent.consumer);
                Command::ClaimFirst { intents, least, at }
            }
        ),
        2 => (group_uuid(), prop::collection::vec(rule(), 0..2))
            .prop_map(|(group, rules)| Command::SetGroup { group, rules }),
        1 => group_uuid().prop_map(|group| Command::DeleteGroup { group }),
        1 => (any::<bool>(), prop::option::of(1u32..4)).prop_map(|(has_two_aggregates, distance)| Command::SetLevels {
            levels: vec![level(has_two_aggregates)],
            // Refused if there is only one aggregate.
            distances: distance.into_iter().map(|distance| Distance {
                from: "y".into(),
                to: "x".into(),
                distance,
            }).collect(),
        }),
        1 => (0u8..8).prop_map(|number| Command::Release { consumer: consumer_uuid(number) }),
        3 => (prop::collection::vec(replacement(), 0..3), claims(0), at()).prop_map(
            |(mut inventories, consumers, at)| {
                inventories.sort_by_key(|replacement| replacement.provider);
                inventories.dedup_by_key(|replacement| replacement.provider);
                Command::Reshape { inventories, consumers, at }
            }
        ),
    ]
}

/// A state with the standard resource classes and traits only.
pub(crate) fn initial_state() -> State {
    let mut state = State::default();
    let mut changes = Vec::new();
    let sync = Command::SyncStandardNames {
        at: Timestamp::default(),
    };
    placewright_placement::decide(&state, &sync, &mut changes).expect("always accepted");
    for change in &changes {
        state.apply(change);
    }
    state
}
