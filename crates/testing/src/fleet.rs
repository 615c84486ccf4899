//! Random small fleets of resource providers with everything that allocation candidates depend on, and random queries
//! for them.

mod build;

pub use build::{build, run};
/// The crate of the types in this module. Unit tests of that crate need it by this path, because
/// they are compiled with a second copy of those types.
pub use placewright_placement;
use placewright_placement::{
    CandidateQuery, GroupPolicy, Inventory, ProviderQuery, RequestGroup, SearchOptions,
};
use proptest::prelude::*;
use uuid::Uuid;

/// The resource classes of inventories and queries.
pub const CLASSES: [&str; 4] = ["VCPU", "MEMORY_MB", "DISK_GB", "VGPU"];
/// Traits of providers and queries. In fleets of [`device_tree`] the third one is the trait of NUMA nodes.
pub const TRAITS: [&str; 4] = [
    "HW_CPU_X86_AVX",
    "CUSTOM_GOLD",
    "CUSTOM_NUMA",
    "MISC_SHARES_VIA_AGGREGATE",
];
/// The trait of sharing providers.
pub const SHARING: &str = TRAITS[3];
/// A class that no fleet has.
const NO_CLASS: &str = "CUSTOM_NO_CLASS";
/// A trait that no fleet has.
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
    /// The index of the parent in the fleet, always smaller than that of the member.
    pub parent: Option<usize>,
    pub stocks: Vec<Stock>,
    pub traits: Vec<&'static str>,
    pub aggregates: Vec<String>,
}

/// Providers in the order in which they are created, hence of their slots.
pub type Fleet = Vec<Member>;

/// The UUID of the provider at an index.
pub fn uuid_at(index: usize) -> Uuid {
    Uuid::from_u128(0xfee7_0000 + index as u128)
}

/// The UUID of the aggregate with this number.
pub fn aggregate(number: usize) -> String {
    Uuid::from_u128(0xa66_0000 + number as u128).to_string()
}

/// An inventory and the usage that it should have.
fn inventory_with_usage() -> impl Strategy<Value = (Inventory, i64)> {
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
            |(total, reserved, min_unit, max_unit, step_size, ratio_index, used)| {
                // Three of five inventories have no limits of amounts. Which ones does not matter, so the parity of the
                // usage decides.
                let is_unrestricted = used % 2 == 0;
                let inventory = Inventory {
                    total,
                    reserved: reserved.min(total),
                    min_unit: if is_unrestricted { 1 } else { min_unit },
                    max_unit: if is_unrestricted { i32::MAX } else { max_unit },
                    step_size: if is_unrestricted { 1 } else { step_size },
                    allocation_ratio: [1.0, 1.0, 1.0, 1.0, 1.0, 1.5, 2.0, 0.5][ratio_index],
                };
                (inventory, used)
            },
        )
}

/// The provider at an index. If `nested` is set, it may have a parent among those before it.
fn member(index: usize, nested: bool) -> impl Strategy<Value = Member> {
    let parent = if nested && index > 0 {
        prop::option::weighted(0.7, 0..index).boxed()
    } else {
        Just(None).boxed()
    };
    let stocks = prop::collection::btree_map(0..CLASSES.len(), inventory_with_usage(), 2..9);
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

/// A fleet of up to eight providers. In a fifth of the fleets no provider may have a parent; in the others, most
/// providers after the first have one.
pub fn fleet() -> impl Strategy<Value = Fleet> {
    (1usize..9, prop::bool::weighted(0.8)).prop_flat_map(|(count, nested)| {
        (0..count)
            .map(|index| member(index, nested))
            .collect::<Vec<_>>()
    })
}

/// Up to `max_count` of the choices; in one of a hundred cases the unknown name, too.
fn names(
    choices: &'static [&'static str],
    unknown: &'static str,
    max_count: usize,
) -> impl Strategy<Value = Vec<String>> {
    (
        prop::collection::btree_set(prop::sample::select(choices), 0..=max_count),
        prop::bool::weighted(0.01),
    )
        .prop_map(move |(choices, with_unknown)| {
            (choices.into_iter().map(str::to_owned))
                .chain(with_unknown.then(|| unknown.to_owned()))
                .collect()
        })
}

/// Lists of traits; a provider needs one trait of each list.
fn any_of_traits() -> impl Strategy<Value = Vec<Vec<String>>> {
    prop::collection::vec(
        names(&TRAITS, NO_TRAIT, 2).prop_filter("empty", |list| !list.is_empty()),
        0..2,
    )
}

/// Lists of aggregates; a provider needs one aggregate of each list.
fn any_of_aggregates() -> impl Strategy<Value = Vec<Vec<String>>> {
    let list = prop::collection::btree_set(0usize..4, 1..3);
    prop::collection::vec(
        list.prop_map(|list| list.into_iter().map(aggregate).collect()),
        0..3,
    )
    .prop_map(|mut lists: Vec<Vec<String>>| {
        // Mostly no list remains, because every list excludes most providers of so small a fleet.
        lists.truncate(lists.len().saturating_sub(1));
        lists
    })
}

/// Small amounts of one or two classes; in one of a hundred cases of the unknown class, too.
fn resources() -> impl Strategy<Value = Vec<(String, i64)>> {
    (
        prop::collection::btree_map(
            prop::sample::select(&CLASSES[..]),
            prop_oneof![4 => Just(1i64), 2 => Just(2), 1 => Just(3)],
            1..3,
        ),
        prop::bool::weighted(0.01),
    )
        .prop_map(|(resources, with_unknown)| {
            (resources.into_iter())
                .chain(with_unknown.then_some((NO_CLASS, 1)))
                .map(|(class, amount)| (class.to_owned(), amount))
                .collect()
        })
}

/// The UUID of a provider whose tree has to serve a group. A small fleet may have no such provider.
fn in_tree() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(
        0.1,
        (0usize..9).prop_map(|index| uuid_at(index).to_string()),
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
            move |(resources, required, forbidden, member_of, forbidden_aggregate, in_tree)| {
                RequestGroup {
                    suffix: suffix.clone(),
                    resources,
                    required: required.unwrap_or_default(),
                    forbidden: forbidden.unwrap_or_default(),
                    member_of: member_of.unwrap_or_default(),
                    forbidden_aggregates: forbidden_aggregate.into_iter().collect(),
                    in_tree,
                }
            },
        )
}

/// A query with up to four groups, one of which may be empty: without resources. Every kind of constraint occurs in
/// some of the queries.
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
            |(mut groups, policy, with_subtrees, with_empty_group, required, forbidden, nested)| {
                let mut same_subtree = Vec::new();
                let suffixed: Vec<String> = (groups.iter().map(|group| &group.suffix))
                    .filter(|suffix| !suffix.is_empty())
                    .cloned()
                    .collect();
                if nested && with_subtrees && !suffixed.is_empty() {
                    let pair = suffixed.iter().take(2).cloned().collect();
                    same_subtree.push(pair);
                    // Queries with an empty group have a second set, too, if there are enough groups.
                    if suffixed.len() > 2 && with_empty_group {
                        same_subtree.push(suffixed[1..].to_vec());
                    }
                    let empty_group = suffixed
                        .last()
                        .filter(|_| with_empty_group && groups.len() > 1);
                    for group in &mut groups {
                        if Some(&group.suffix) == empty_group
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
                    group_policy: policy,
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

/// A device whose parent is one of the members up to the index `last_parent`.
fn device(last_parent: usize) -> impl Strategy<Value = Member> {
    let inventory = |total: i32| Inventory::new(total, 1.0);
    let traits = prop::collection::btree_set(0usize..2, 0..2);
    (1i32..5, prop::option::of(1i32..5), traits, 0..=last_parent).prop_map(
        move |(vgpu, disk, traits, parent)| Member {
            parent: Some(parent),
            stocks: ([("VGPU", Some(vgpu)), ("DISK_GB", disk)].into_iter())
                .filter_map(|(class, total)| {
                    Some(Stock {
                        class,
                        inventory: inventory(total?),
                        used: 0,
                    })
                })
                .collect(),
            traits: traits.into_iter().map(|index| TRAITS[index]).collect(),
            aggregates: Vec::new(),
        },
    )
}

/// One tree: a host, two NUMA nodes, and devices below any of these three. The devices differ little.
pub fn device_tree() -> impl Strategy<Value = Fleet> {
    let provider_without_stocks = |parent: Option<usize>, traits: &[&'static str]| Member {
        parent,
        stocks: Vec::new(),
        traits: traits.to_vec(),
        aggregates: Vec::new(),
    };
    let top = vec![
        provider_without_stocks(None, &[]),
        provider_without_stocks(Some(0), &TRAITS[2..3]),
        provider_without_stocks(Some(0), &TRAITS[2..3]),
    ];
    prop::collection::vec(device(2), 2..7).prop_map(move |devices| {
        let mut fleet = top.clone();
        fleet.extend(devices);
        fleet
    })
}

/// Groups that compete for the devices of one tree. Some of them have to be served below a NUMA node, and sometimes
/// there is a group without suffix.
pub fn device_query() -> impl Strategy<Value = CandidateQuery> {
    let amounts = || (1i64..4, prop::option::weighted(0.3, 1i64..4));
    let required_trait = || prop::option::weighted(0.3, prop::sample::select(&TRAITS[..2]));
    let groups = prop::collection::vec(
        (amounts(), required_trait(), prop::bool::weighted(0.3)),
        1..5,
    );
    let unsuffixed_group = prop::option::weighted(
        0.5,
        (amounts(), prop::collection::vec(required_trait(), 0..3)),
    );
    (
        groups,
        unsuffixed_group,
        prop::bool::ANY,
        prop::bool::weighted(0.9),
    )
        .prop_map(|(groups, unsuffixed, is_isolated, nested)| {
            let group = |suffix: String, (vgpu, disk): (i64, Option<i64>)| RequestGroup {
                suffix,
                resources: ([("VGPU", Some(vgpu)), ("DISK_GB", disk)].into_iter())
                    .filter_map(|(class, amount)| Some((class.to_owned(), amount?)))
                    .collect(),
                ..RequestGroup::default()
            };
            let mut query = CandidateQuery {
                nested,
                group_policy: Some(if is_isolated {
                    GroupPolicy::Isolate
                } else {
                    GroupPolicy::None
                }),
                ..CandidateQuery::default()
            };
            if let Some((amounts, traits)) = unsuffixed {
                let mut group = group(String::new(), amounts);
                let trait_names = traits.into_iter().flatten();
                group.required = trait_names.map(|name| vec![name.to_owned()]).collect();
                query.groups.push(group);
            }
            for (number, (amounts, trait_names, on_node)) in groups.into_iter().enumerate() {
                let mut device = group(format!("_D{number}"), amounts);
                device.required = trait_names
                    .iter()
                    .map(|name| vec![(*name).to_owned()])
                    .collect();
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
        })
}

/// A query for the list of providers.
pub fn provider_query() -> impl Strategy<Value = ProviderQuery> {
    let index = || prop::option::weighted(0.15, 0usize..9);
    (
        index(),
        index(),
        in_tree(),
        group(String::new()),
        prop::bool::ANY,
    )
        .prop_map(
            |(name, uuid, in_tree, group, with_resources)| ProviderQuery {
                name: name.map(|index| format!("p{index}")),
                uuid: uuid.map(|index| uuid_at(index).to_string()),
                in_tree,
                required: group.required,
                forbidden: group.forbidden,
                member_of: group.member_of,
                forbidden_aggregates: group.forbidden_aggregates,
                resources: if with_resources {
                    group.resources
                } else {
                    Vec::new()
                },
            },
        )
}
