//! Random small fleets with everything that candidates depend on, and random queries for them.

/// The crate whose types these are, for its unit tests: they are built with types of their own.
pub use placewright_placement;
use placewright_placement::{
    AllocationRequest, CandidateQuery, Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid,
    GroupPolicy, Inventory, ParentChange, ProviderQuery, RequestGroup, SearchOptions, State,
    Timestamp, decide,
};
use proptest::prelude::*;
use uuid::Uuid;

/// Classes that inventories and queries name.
pub const CLASSES: [&str; 4] = ["VCPU", "MEMORY_MB", "DISK_GB", "VGPU"];
/// Traits of providers and queries.
pub const TRAITS: [&str; 4] = [
    "HW_CPU_X86_AVX",
    "CUSTOM_GOLD",
    "CUSTOM_NUMA",
    "MISC_SHARES_VIA_AGGREGATE",
];
/// The trait of sharing providers.
pub const SHARING: &str = TRAITS[3];
/// Names that do not exist.
const NO_CLASS: &str = "CUSTOM_NO_CLASS";
const NO_TRAIT: &str = "CUSTOM_NO_TRAIT";

/// An inventory with its usage.
#[derive(Clone, Debug)]
pub struct Stock {
    pub class: &'static str,
    pub inventory: Inventory,
    pub used: i64,
}

/// One provider of a fleet.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its parent's place in the fleet; always an earlier one.
    pub parent: Option<usize>,
    pub stocks: Vec<Stock>,
    pub traits: Vec<&'static str>,
    pub aggregates: Vec<String>,
}

/// Providers in the order of their slots.
pub type Fleet = Vec<Member>;

/// The UUID of the provider at an index.
pub fn uuid_at(place: usize) -> Uuid {
    Uuid::from_u128(0xfee7_0000 + place as u128)
}

/// An aggregate by number.
pub fn aggregate(number: usize) -> String {
    Uuid::from_u128(0xa66_0000 + number as u128).to_string()
}

fn stock() -> impl Strategy<Value = (Inventory, i64)> {
    (
        1i32..9,
        0i32..2,
        1i32..3,
        1i32..9,
        1i32..3,
        0usize..8,
        0i64..5,
    )
        .prop_map(
            |(total, reserved, min_unit, max_unit, step_size, ratio, used)| {
                let plain = used % 2 == 0;
                let inventory = Inventory {
                    total,
                    reserved: reserved.min(total),
                    min_unit: if plain { 1 } else { min_unit },
                    max_unit: if plain { i32::MAX } else { max_unit },
                    step_size: if plain { 1 } else { step_size },
                    allocation_ratio: [1.0, 1.0, 1.0, 1.0, 1.0, 1.5, 2.0, 0.5][ratio],
                };
                (inventory, used)
            },
        )
}

fn member(place: usize, nested: bool) -> impl Strategy<Value = Member> {
    let parent = if nested && place > 0 {
        prop::option::weighted(0.7, 0..place).boxed()
    } else {
        Just(None).boxed()
    };
    let stocks = prop::collection::btree_map(0..CLASSES.len(), stock(), 2..9);
    let traits = prop::collection::btree_set(0usize..TRAITS.len() - 1, 0..3);
    let aggregates = prop::collection::btree_set(0usize..3, 0..2);
    (
        parent,
        stocks,
        traits,
        prop::bool::weighted(0.15),
        aggregates,
    )
        .prop_map(|(parent, stocks, traits, shares, aggregates)| Member {
            parent,
            stocks: stocks
                .into_iter()
                .map(|(class, (inventory, used))| Stock {
                    class: CLASSES[class],
                    inventory,
                    used,
                })
                .collect(),
            traits: (traits.into_iter().map(|index| TRAITS[index]))
                .chain(shares.then_some(SHARING))
                .collect(),
            aggregates: aggregates.into_iter().map(aggregate).collect(),
        })
}

/// A fleet of up to eight providers, sometimes without trees.
pub fn fleet() -> impl Strategy<Value = Fleet> {
    (1usize..9, prop::bool::weighted(0.8)).prop_flat_map(|(count, nested)| {
        (0..count)
            .map(|place| member(place, nested))
            .collect::<Vec<_>>()
    })
}

fn names(
    known: &'static [&'static str],
    unknown: &'static str,
    most: usize,
) -> impl Strategy<Value = Vec<String>> {
    (
        prop::collection::btree_set(prop::sample::select(known), 0..=most),
        prop::bool::weighted(0.01),
    )
        .prop_map(move |(known, oops)| {
            (known.into_iter().map(str::to_owned))
                .chain(oops.then(|| unknown.to_owned()))
                .collect()
        })
}

/// Lists of alternatives, of which one member each is required.
fn any_of_traits() -> impl Strategy<Value = Vec<Vec<String>>> {
    prop::collection::vec(
        names(&TRAITS, NO_TRAIT, 2).prop_filter("empty", |list| !list.is_empty()),
        0..2,
    )
}

fn any_of_aggregates() -> impl Strategy<Value = Vec<Vec<String>>> {
    let list = prop::collection::btree_set(0usize..4, 1..3);
    prop::collection::vec(
        list.prop_map(|list| list.into_iter().map(aggregate).collect()),
        0..3,
    )
    .prop_map(|mut lists: Vec<Vec<String>>| {
        // Usually none, because every list removes most of so small a fleet.
        lists.truncate(lists.len().saturating_sub(1));
        lists
    })
}

fn resources() -> impl Strategy<Value = Vec<(String, i64)>> {
    (
        prop::collection::btree_map(
            prop::sample::select(&CLASSES[..]),
            prop_oneof![4 => Just(1i64), 2 => Just(2), 1 => Just(3)],
            1..3,
        ),
        prop::bool::weighted(0.01),
    )
        .prop_map(|(resources, oops)| {
            (resources.into_iter())
                .chain(oops.then_some((NO_CLASS, 1)))
                .map(|(class, amount)| (class.to_owned(), amount))
                .collect()
        })
}

fn in_tree() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(
        0.1,
        (0usize..9).prop_map(|place| uuid_at(place).to_string()),
    )
}

fn group(suffix: String) -> impl Strategy<Value = RequestGroup> {
    (
        resources(),
        prop::option::weighted(0.2, any_of_traits()),
        prop::option::weighted(0.1, names(&TRAITS[..3], NO_TRAIT, 1)),
        prop::option::weighted(0.2, any_of_aggregates()),
        prop::option::weighted(0.06, (0usize..4).prop_map(aggregate)),
        in_tree(),
    )
        .prop_map(
            move |(resources, required, forbidden, member_of, bad, in_tree)| RequestGroup {
                suffix: suffix.clone(),
                resources,
                required: required.unwrap_or_default(),
                forbidden: forbidden.unwrap_or_default(),
                member_of: member_of.unwrap_or_default(),
                forbidden_aggregates: bad.into_iter().collect(),
                in_tree,
            },
        )
}

/// A query with up to four groups that uses every part of the language.
pub fn query() -> impl Strategy<Value = CandidateQuery> {
    let suffixes = prop_oneof![
        2 => Just(1usize..=2),
        1 => Just(1..=4)
    ]
    .prop_flat_map(|count| {
        prop::sample::subsequence(vec!["", "1", "2", "_X"], count).prop_shuffle()
    });
    let groups = suffixes.prop_flat_map(|suffixes| {
        suffixes
            .into_iter()
            .map(|suffix| group(suffix.to_owned()))
            .collect::<Vec<_>>()
    });
    let policy = prop::option::weighted(
        0.7,
        prop::sample::select(vec![GroupPolicy::None, GroupPolicy::Isolate]),
    );
    let root_names = || prop::option::weighted(0.06, names(&TRAITS, NO_TRAIT, 1));
    (
        groups,
        policy,
        prop::bool::weighted(0.4),
        prop::bool::weighted(0.4),
        root_names(),
        root_names(),
        prop::bool::weighted(0.85),
    )
        .prop_map(
            |(mut groups, group_policy, subtree, bare, required, forbidden, nested)| {
                let mut same_subtree = Vec::new();
                let suffixed: Vec<String> = (groups.iter().map(|group| &group.suffix))
                    .filter(|suffix| !suffix.is_empty())
                    .cloned()
                    .collect();
                if nested && subtree && !suffixed.is_empty() {
                    let few = suffixed.iter().take(2).cloned().collect();
                    same_subtree.push(few);
                    if suffixed.len() > 2 && bare {
                        same_subtree.push(suffixed[1..].to_vec());
                    }
                    let last = suffixed.last().filter(|_| bare && groups.len() > 1);
                    for group in &mut groups {
                        if Some(&group.suffix) == last
                            && same_subtree
                                .iter()
                                .any(|set: &Vec<_>| set.contains(&group.suffix))
                        {
                            group.resources.clear();
                        }
                    }
                }
                CandidateQuery {
                    groups,
                    group_policy,
                    same_subtree,
                    root_required: required.unwrap_or_default(),
                    root_forbidden: forbidden.unwrap_or_default(),
                    limit: None,
                    nested,
                    options: SearchOptions::default(),
                }
            },
        )
}

fn device(parent: usize) -> impl Strategy<Value = Member> {
    let plenty = |total: i32| Inventory::new(total, 1.0);
    let traits = prop::collection::btree_set(0usize..2, 0..2);
    (1i32..5, prop::option::of(1i32..5), traits, 0..=parent).prop_map(
        move |(vgpu, disk, traits, parent)| Member {
            parent: Some(parent),
            stocks: ([("VGPU", Some(vgpu)), ("DISK_GB", disk)].into_iter())
                .filter_map(|(class, total)| {
                    Some(Stock {
                        class,
                        inventory: plenty(total?),
                        used: 0,
                    })
                })
                .collect(),
            traits: traits.into_iter().map(|index| TRAITS[index]).collect(),
            aggregates: Vec::new(),
        },
    )
}

/// One tree: a host, two NUMA nodes, and devices below any of them that are hard to tell apart.
pub fn device_tree() -> impl Strategy<Value = Fleet> {
    let node = |parent: Option<usize>, traits: &[&'static str]| Member {
        parent,
        stocks: Vec::new(),
        traits: traits.to_vec(),
        aggregates: Vec::new(),
    };
    let top = vec![
        node(None, &[]),
        node(Some(0), &TRAITS[2..3]),
        node(Some(0), &TRAITS[2..3]),
    ];
    prop::collection::vec(device(2), 2..7).prop_map(move |devices| {
        let mut fleet = top.clone();
        fleet.extend(devices);
        fleet
    })
}

/// Many groups that compete for the devices of one tree, alone, in pairs with a NUMA node each, or
/// with a group without suffix.
pub fn device_query() -> impl Strategy<Value = CandidateQuery> {
    let amounts = || (1i64..4, prop::option::weighted(0.3, 1i64..4));
    let wants = || prop::option::weighted(0.3, prop::sample::select(&TRAITS[..2]));
    let groups = prop::collection::vec((amounts(), wants(), prop::bool::weighted(0.3)), 1..5);
    let shared = prop::option::weighted(0.5, (amounts(), prop::collection::vec(wants(), 0..3)));
    (groups, shared, prop::bool::ANY, prop::bool::weighted(0.9)).prop_map(
        |(groups, unsuffixed, isolate, nested)| {
            let group = |suffix: String, (vgpu, disk): (i64, Option<i64>)| RequestGroup {
                suffix,
                resources: ([("VGPU", Some(vgpu)), ("DISK_GB", disk)].into_iter())
                    .filter_map(|(class, amount)| Some((class.to_owned(), amount?)))
                    .collect(),
                ..RequestGroup::default()
            };
            let mut query = CandidateQuery {
                nested,
                group_policy: Some(if isolate {
                    GroupPolicy::Isolate
                } else {
                    GroupPolicy::None
                }),
                ..CandidateQuery::default()
            };
            if let Some((amounts, traits)) = unsuffixed {
                let mut group = group(String::new(), amounts);
                let wanted = traits.into_iter().flatten();
                group.required = wanted.map(|name| vec![name.to_owned()]).collect();
                query.groups.push(group);
            }
            for (number, (amounts, wanted, on_node)) in groups.into_iter().enumerate() {
                let mut device = group(format!("_D{number}"), amounts);
                device.required = wanted.iter().map(|name| vec![(*name).to_owned()]).collect();
                if on_node && nested {
                    let node = RequestGroup {
                        suffix: format!("_N{number}"),
                        required: vec![vec![TRAITS[2].to_owned()]],
                        ..RequestGroup::default()
                    };
                    query
                        .same_subtree
                        .push(vec![node.suffix.clone(), device.suffix.clone()]);
                    query.groups.push(node);
                }
                query.groups.push(device);
            }
            query
        },
    )
}

/// Filters for the list of providers.
pub fn provider_query() -> impl Strategy<Value = ProviderQuery> {
    let place = || prop::option::weighted(0.15, 0usize..9);
    (
        place(),
        place(),
        in_tree(),
        group(String::new()),
        prop::bool::ANY,
    )
        .prop_map(|(name, uuid, in_tree, group, resources)| ProviderQuery {
            name: name.map(|place| format!("p{place}")),
            uuid: uuid.map(|place| uuid_at(place).to_string()),
            in_tree,
            required: group.required,
            forbidden: group.forbidden,
            member_of: group.member_of,
            forbidden_aggregates: group.forbidden_aggregates,
            resources: if resources {
                group.resources
            } else {
                Vec::new()
            },
        })
}

/// Decides and applies a command; returns whether it was accepted.
pub fn run(state: &mut State, command: &Command) -> bool {
    let mut changes = Vec::new();
    let accepted = decide(state, command, &mut changes).is_ok();
    if accepted {
        for change in &changes {
            state.apply(change);
        }
    }
    accepted
}

/// A state with the names that fleets use and nothing else.
static NAMED: std::sync::LazyLock<State> = std::sync::LazyLock::new(|| {
    let at = Timestamp::default();
    let mut state = State::default();
    run(&mut state, &Command::SyncStandardNames { at });
    for name in &TRAITS[1..3] {
        let name = (*name).to_owned();
        run(&mut state, &Command::EnsureTrait { name, at });
    }
    state
});

/// Builds a fleet through commands. The usage of each inventory is what could be claimed when it
/// was larger by ten.
pub fn build(fleet: &mut Fleet) -> State {
    let at = Timestamp::default();
    let mut state = NAMED.clone();
    for (place, member) in fleet.iter_mut().enumerate() {
        let uuid = uuid_at(place);
        let name = format!("p{place}");
        let create = Command::CreateProvider {
            uuid,
            name: name.clone(),
            parent: None,
            at,
        };
        run(&mut state, &create);
        if let Some(parent) = member.parent {
            let parent = ParentChange::Move(Some(uuid_at(parent)));
            let update = Command::UpdateProvider {
                uuid,
                name,
                parent,
                at,
            };
            assert!(run(&mut state, &update));
        }
        stock_up(&mut state, uuid, &mut member.stocks, at);
        let traits = Command::SetTraits {
            provider: uuid,
            generation: None,
            traits: member
                .traits
                .iter()
                .map(|name| (*name).to_owned())
                .collect(),
            at,
        };
        assert!(run(&mut state, &traits));
        let aggregates = Command::SetAggregates {
            provider: uuid,
            generation: None,
            aggregates: member.aggregates.clone(),
            at,
        };
        assert!(run(&mut state, &aggregates));
    }
    state
}

fn stock_up(state: &mut State, provider: Uuid, stocks: &mut [Stock], at: Timestamp) {
    let set = |state: &mut State, stocks: &[Stock], more: i32| {
        let inventories = stocks
            .iter()
            .map(|stock| {
                let mut inventory = stock.inventory;
                inventory.total += more;
                (stock.class.to_owned(), inventory)
            })
            .collect();
        let command = Command::SetInventories {
            provider,
            generation: None,
            inventories,
            may_reserve_all: true,
            at,
        };
        assert!(run(state, &command));
    };
    set(state, stocks, 10);
    for (number, stock) in stocks.iter_mut().enumerate() {
        if stock.used == 0 {
            continue;
        }
        let consumer = Uuid::from_u128(provider.as_u128() * 16 + number as u128);
        let claim = ConsumerClaim {
            consumer: ConsumerUuid::from_uuid(consumer),
            generation: ConsumerGeneration::Any,
            project: "p".into(),
            user: "u".into(),
            consumer_type: None,
            allocations: vec![AllocationRequest {
                provider,
                resources: vec![(stock.class.to_owned(), stock.used)],
            }],
        };
        let consumers = vec![claim];
        if !run(state, &Command::Claim { consumers, at }) {
            stock.used = 0;
        }
    }
    set(state, stocks, 0);
}
