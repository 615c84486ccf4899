//! Guest NUMA cells and devices as request groups, with candidates from placement's search.

use placewright_placement::{
    Command, Inventory, ProviderId, State, Timestamp, decide, find_candidates,
};
use placewright_scheduler::prefilter::Environment;
use placewright_scheduler::prefilter::PrefilterOptions;
use placewright_scheduler::prepare::{PrepareOptions, Prepared, prepare};
use placewright_scheduler::request::{self, Destination, RequestSpec};
use placewright_scheduler::translate::TranslateOptions;
use placewright_scheduler::translate::pci::PciAlias;
use placewright_scheduler::translate::target::{ComputeNode, Target};
use placewright_trace::flavor::flavor;
use placewright_trace::provider::providers;
use placewright_trace::{nodes, tasks};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use uuid::Uuid;

/// An environment without aggregates, in which every host has one node of the same name.
struct WithoutAggregates;

impl Environment for WithoutAggregates {
    fn each_aggregate(&self, _visit: &mut dyn FnMut(Uuid, &BTreeMap<String, String>)) {}
    fn segment_aggregates(&self, _segment: Uuid) -> Option<Vec<Uuid>> {
        None
    }
    fn compute_version_min(&self) -> u32 {
        0
    }
    fn compute_nodes(&self, target: Target<'_>) -> Vec<ComputeNode> {
        let host = target.host.unwrap_or_default();
        vec![ComputeNode {
            uuid: uuid_of(host),
            host: host.to_owned(),
            node: host.to_owned(),
        }]
    }
}

struct Fleet {
    state: State,
}

impl Fleet {
    fn new() -> Self {
        let mut fleet = Self {
            state: State::default(),
        };
        let at = Timestamp::from_seconds(1);
        fleet.execute(&Command::SyncStandardNames { at });
        let name = "CUSTOM_GPU".to_owned();
        fleet.execute(&Command::CreateClass {
            name,
            exist_ok: true,
            at,
        });
        fleet
    }

    fn execute(&mut self, command: &Command) {
        let mut changes = Vec::new();
        decide(&self.state, command, &mut changes).expect("accepted");
        for change in &changes {
            self.state.apply(change);
        }
    }

    /// Adds a provider. Its UUID is made of its name by [`uuid_of`].
    fn add_provider(
        &mut self,
        name: &str,
        parent: Option<&str>,
        totals: &[(&str, i32)],
        traits: &[&str],
    ) {
        let at = Timestamp::from_seconds(1);
        let uuid = uuid_of(name);
        let parent = parent.map(uuid_of);
        self.execute(&Command::CreateProvider {
            uuid,
            name: name.to_owned(),
            parent,
            at,
        });
        for (class, total) in totals {
            let inventory = Inventory::new(*total, 1.0);
            self.execute(&Command::AddInventory {
                provider: uuid,
                class: (*class).to_owned(),
                inventory,
                may_reserve_all: true,
                at,
            });
        }
        let traits = traits.iter().map(|name| (*name).to_owned()).collect();
        self.execute(&Command::SetTraits {
            provider: uuid,
            generation: None,
            traits,
            at,
        });
    }

    fn set_aggregate(&mut self, name: &str, aggregate: Uuid) {
        self.execute(&Command::SetAggregates {
            provider: uuid_of(name),
            generation: None,
            aggregates: vec![aggregate.to_string()],
            at: Timestamp::from_seconds(1),
        });
    }

    /// A host of two NUMA nodes with 4 PCPU, 4 VCPU and 1024 MiB each, and a GPU below the second.
    fn add_numa_host(&mut self, name: &str) {
        self.add_provider(name, None, &[("DISK_GB", 100)], &["HW_CPU_X86_AVX2"]);
        for node in 0..2 {
            let totals = [("PCPU", 4), ("VCPU", 4), ("MEMORY_MB", 1024)];
            let child = format!("{name}{node}");
            self.add_provider(&child, Some(name), &totals, &["HW_NUMA_ROOT"]);
        }
        let gpu = format!("{name}g");
        self.add_provider(&gpu, Some(&format!("{name}1")), &[("CUSTOM_GPU", 1)], &[]);
    }

    /// A host without NUMA nodes, with a GPU.
    fn add_host_without_nodes(&mut self, name: &str) {
        let totals = [
            ("PCPU", 8),
            ("VCPU", 8),
            ("MEMORY_MB", 2048),
            ("DISK_GB", 100),
        ];
        self.add_provider(name, None, &totals, &["HW_CPU_X86_AVX2"]);
        let gpu = format!("{name}g");
        self.add_provider(&gpu, Some(name), &[("CUSTOM_GPU", 1)], &[]);
    }

    /// For every candidate that satisfies the rules: which providers serve each group, as `suffix=provider`.
    fn candidates(&self, prepared: &Prepared) -> Vec<String> {
        let state = &self.state;
        let query = &prepared.query;
        let offered = find_candidates(state, query).expect("known names");
        let rules = &prepared.translation.rules;
        let satisfying = offered.iter().filter(|candidate| {
            rules
                .iter()
                .all(|rule| rule.admits(state, query, *candidate))
        });
        let name = |id: &ProviderId| &*state.provider(*id).expect("there").name;
        let mut texts: Vec<_> = satisfying
            .map(|candidate| {
                let groups = query.groups.iter().zip(candidate.mappings());
                let text = groups.map(|(group, serving)| {
                    let serving: Vec<_> = serving.iter().map(name).collect();
                    format!("{}={}", group.suffix, serving.join("+"))
                });
                text.collect::<Vec<_>>().join(" ")
            })
            .collect();
        texts.sort_unstable();
        texts
    }
}

/// The UUID whose bytes are the letters of a name.
fn uuid_of(name: &str) -> Uuid {
    Uuid::from_u128(
        name.bytes()
            .fold(0, |sum, byte| sum * 256 + u128::from(byte)),
    )
}

fn options() -> PrepareOptions {
    let gpu = |policy: &str| {
        let json = json!({"numa_policy": policy, "spec": [{"resource_class": "gpu"}]});
        serde_json::from_value::<PciAlias>(json).expect("an alias")
    };
    let policies = ["required", "legacy", "preferred"];
    let aliases = policies.map(|policy| (policy.to_owned(), gpu(policy)));
    PrepareOptions {
        translate: TranslateOptions {
            pci_aliases: aliases.into(),
            ..TranslateOptions::default()
        },
        prefilter: PrefilterOptions::default(),
    }
}

/// A request for 4 CPUs, 1024 MiB and a root disk of this size. With a size of 0, a guest whose CPUs and memory are in
/// groups of NUMA cells has no unsuffixed group.
fn spec(root_gb: u32, extra_specs: Value) -> RequestSpec {
    let flavor = json!({
        "vcpus": 4, "memory_mb": 1024, "root_gb": root_gb, "extra_specs": extra_specs,
    });
    request::read(json!({"flavor": flavor})).expect("readable")
}

fn candidates(fleet: &Fleet, spec: &RequestSpec) -> Vec<String> {
    fleet.candidates(&prepare(spec, &options(), &WithoutAggregates).expect("valid"))
}

/// A host `n` with NUMA nodes `n0` and `n1` and a GPU `ng`, and a flat one `f` with a GPU `fg`.
fn fleet_with_and_without_nodes() -> Fleet {
    let mut fleet = Fleet::new();
    fleet.add_numa_host("n");
    fleet.add_host_without_nodes("f");
    fleet
}

#[test]
fn one_guest_cell_is_served_by_one_numa_node_or_by_a_host_without_nodes() {
    let extra_specs = json!({"hw:cpu_policy": "dedicated", "trait:HW_CPU_X86_AVX2": "required"});
    assert_eq!(
        candidates(&fleet_with_and_without_nodes(), &spec(1, extra_specs)),
        ["=f _NUMA0=f", "=n _NUMA0=n0", "=n _NUMA0=n1"]
    );
    let avx512 = json!({"hw:cpu_policy": "dedicated", "trait:HW_CPU_X86_AVX512F": "required"});
    assert!(candidates(&fleet_with_and_without_nodes(), &spec(1, avx512)).is_empty());
}

#[test]
fn different_guest_cells_are_on_different_nodes() {
    let extra_specs = json!({"hw:numa_nodes": 2, "hw:cpu_policy": "mixed",
                             "hw:cpu_dedicated_mask": "0-1"});
    assert_eq!(
        candidates(
            &fleet_with_and_without_nodes(),
            &spec(1, extra_specs.clone())
        ),
        ["=n _NUMA0=n0 _NUMA1=n1", "=n _NUMA0=n1 _NUMA1=n0"]
    );
    let mut with_device_group = extra_specs;
    with_device_group["resources_x:CUSTOM_GPU"] = json!(1);
    with_device_group["group_policy"] = json!("none");
    assert_eq!(
        candidates(&fleet_with_and_without_nodes(), &spec(1, with_device_group)),
        [
            "=n _x=ng _NUMA0=n0 _NUMA1=n1",
            "=n _x=ng _NUMA0=n1 _NUMA1=n0"
        ],
        "also if other groups may share providers"
    );
}

#[test]
fn devices_are_on_the_numa_nodes_that_their_policy_allows() {
    let with_policy = |policy: &str| {
        let mut extra_specs = json!({"hw:cpu_policy": "dedicated"});
        extra_specs["pci_passthrough:alias"] = json!(format!("{policy}:1"));
        candidates(&fleet_with_and_without_nodes(), &spec(1, extra_specs))
    };
    let without_nodes = "=f pci_alias_0-0=fg _NUMA0=f";
    let same_node = "=n pci_alias_0-0=ng _NUMA0=n1";
    let other_node = "=n pci_alias_0-0=ng _NUMA0=n0";
    assert_eq!(with_policy("required"), [without_nodes, same_node]);
    assert_eq!(with_policy("legacy"), [without_nodes, same_node]);
    assert_eq!(
        with_policy("preferred"),
        [without_nodes, other_node, same_node]
    );

    // A host whose GPU is below no NUMA node.
    let mut fleet = Fleet::new();
    fleet.add_provider("m", None, &[("DISK_GB", 100)], &[]);
    fleet.add_provider(
        "m0",
        Some("m"),
        &[("PCPU", 4), ("MEMORY_MB", 1024)],
        &["HW_NUMA_ROOT"],
    );
    fleet.add_provider("mg", Some("m"), &[("CUSTOM_GPU", 1)], &[]);
    let count_outside_nodes = |policy: &str| {
        let alias = format!("{policy}:1");
        let extra_specs = json!({"hw:cpu_policy": "dedicated", "pci_passthrough:alias": alias});
        candidates(&fleet, &spec(1, extra_specs)).len()
    };
    assert_eq!(
        (
            count_outside_nodes("required"),
            count_outside_nodes("legacy")
        ),
        (0, 1)
    );
}

#[test]
fn hosts_can_be_named_if_the_unsuffixed_group_has_no_resources() {
    let mut fleet = fleet_with_and_without_nodes();
    let aggregate = Uuid::from_u128(77);
    fleet.set_aggregate("n", aggregate);
    let mut pinned = spec(0, json!({"hw:cpu_policy": "dedicated"}));
    assert_eq!(candidates(&fleet, &pinned).len(), 3);
    pinned.requested_destination = Some(Destination {
        aggregates: vec![vec![aggregate]],
        ..Destination::default()
    });
    assert_eq!(
        candidates(&fleet, &pinned),
        ["_NUMA0=n0", "_NUMA0=n1"],
        "aggregates apply to the host, which serves no resources itself"
    );
    pinned.requested_destination = Some(Destination {
        forbidden_aggregates: [aggregate].into(),
        ..Destination::default()
    });
    assert_eq!(candidates(&fleet, &pinned), ["_NUMA0=f"]);
    pinned.requested_destination = Some(Destination {
        host: Some("n".to_owned()),
        ..Destination::default()
    });
    assert_eq!(candidates(&fleet, &pinned), ["_NUMA0=n0", "_NUMA0=n1"]);
}

#[test]
fn tasks_of_a_trace_get_the_gpu_models_that_they_accept() {
    let nodes = "sn,cpu_milli,memory_mib,gpu,model\n\
        t,64000,1000,2,T4\na,64000,1000,2,A10\np,64000,1000,1,P100\nc,64000,1000,0,\n";
    let nodes = nodes::parse(Path::new("nodes.csv"), nodes.as_bytes()).expect("valid");
    let mut fleet = Fleet::new();
    let at = Timestamp::from_seconds(1);
    for name in [placewright_trace::MILLI_CPU, placewright_trace::GPU_MILLI] {
        let name = name.to_owned();
        let exist_ok = true;
        fleet.execute(&Command::CreateClass { name, exist_ok, at });
    }
    for node in &nodes {
        let providers = providers(node);
        for provider in &providers {
            let totals = provider.inventories.iter();
            let totals: Vec<_> = totals
                .map(|(class, total)| (*class, i32::try_from(*total).expect("in range")))
                .collect();
            for name in &provider.traits {
                let name = name.clone();
                fleet.execute(&Command::EnsureTrait { name, at });
            }
            let traits: Vec<_> = provider.traits.iter().map(String::as_str).collect();
            let parent = provider.parent.map(|index| &*providers[index].name);
            fleet.add_provider(&provider.name, parent, &totals, &traits);
        }
    }
    // The columns `num_gpu`, `gpu_milli` and `gpu_spec` of a task, and how many candidates it has.
    let rows = [
        ("0,0,", 4),
        ("1,460,", 5),
        ("2,1000,", 4),
        ("1,460,T4", 2),
        ("1,460,P100|T4", 3),
        ("2,1000,A10|P100|T4", 4),
        ("2,1000,P100", 0),
        ("3,1000,T4", 0),
    ];
    for (gpus, expected_count) in rows {
        let task = format!(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time\nx,64000,1000,{gpus},0\n"
        );
        let task = tasks::parse(Path::new("tasks.csv"), task.as_bytes()).expect("valid");
        let flavor = flavor(&task[0]);
        let flavor = json!({
            "vcpus": flavor.vcpus, "memory_mb": flavor.memory_mib, "extra_specs": flavor.extra_specs,
        });
        let spec = request::read(json!({"flavor": flavor})).expect("readable");
        assert_eq!(
            candidates(&fleet, &spec).len(),
            expected_count,
            "{gpus}: {:?}",
            candidates(&fleet, &spec)
        );
    }
}
