//! Random requests, most of them invalid, are either refused with the name of a field or become valid
//! queries.
//!
//! `PROPTEST_CASES` sets the number of requests that are tried (default 256).

use std::collections::BTreeMap;

use placewright_scheduler::prefilter::{Environment, PrefilterOptions};
use placewright_scheduler::prepare::{PrepareOptions, PrepareRefusal, prepare};
use placewright_scheduler::request::{self, RequestSpec};
use placewright_scheduler::translate::TranslateOptions;
use placewright_scheduler::translate::target::{ComputeNode, Target};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// An environment without hosts and aggregates.
struct EmptyFleet;

impl Environment for EmptyFleet {
    fn each_aggregate(&self, _visit: &mut dyn FnMut(Uuid, &BTreeMap<String, String>)) {}
    fn segment_aggregates(&self, _segment: Uuid) -> Option<Vec<Uuid>> {
        None
    }
    fn compute_version_min(&self) -> u32 {
        99
    }
    fn compute_nodes(&self, _target: Target<'_>) -> Vec<ComputeNode> {
        Vec::new()
    }
}

const KEYS: [&str; 34] = [
    "hw:cpu_policy",
    "hw:cpu_dedicated_mask",
    "hw:cpu_realtime",
    "hw:cpu_realtime_mask",
    "hw:cpu_thread_policy",
    "hw:emulator_threads_policy",
    "hw:numa_nodes",
    "hw:numa_cpus.0",
    "hw:numa_cpus.1",
    "hw:numa_mem.0",
    "hw:numa_mem.1",
    "hw:mem_page_size",
    "hw:mem_encryption",
    "hw:mem_encryption_model",
    "hw:locked_memory",
    "hw:pmem",
    "hw:tpm_version",
    "hw:tpm_model",
    "hw:tpm_secret_security",
    "hw:maxphysaddr_mode",
    "hw:pci_numa_affinity_policy",
    "hw:virtio_packed_ring",
    "hw:ephemeral_encryption",
    "hw:ephemeral_encryption_format",
    "hw:sound_model",
    "os:secure_boot",
    "pci_passthrough:alias",
    "accel:device_profile",
    "group_policy",
    "resources:VCPU",
    "resources:PCPU",
    "resources_NUMA0:VGPU",
    "trait:HW_CPU_HYPERTHREADING",
    "trait1:CUSTOM_A",
];

const WORDS: [&str; 30] = [
    "",
    "0",
    "1",
    "2",
    "4",
    "-1",
    "99999999999999999999",
    "4294967296",
    "1_0",
    "true",
    "no",
    "dedicated",
    "mixed",
    "shared",
    "isolate",
    "require",
    "required",
    "forbidden",
    "none",
    "0-1",
    "^0",
    "0-65536",
    "0-18446744073709551615",
    "2MB",
    "1e309GB",
    "2.0",
    "tpm-crb",
    "a:1,b",
    "\u{0}",
    "\u{1F600}:\u{661}",
];

fn word() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => prop::sample::select(&WORDS[..]).prop_map(|word| json!(word)),
        1 => any::<i64>().prop_map(|number| json!(number)),
        1 => any::<bool>().prop_map(|flag| json!(flag)),
        1 => "\\PC{0,12}".prop_map(|text| json!(text)),
        1 => Just(json!([["x"], {}])),
        1 => Just(Value::Null),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(&KEYS[..]).prop_map(str::to_owned),
        1 => "(resources|trait)[a-z0-9:_-]{0,4}:[A-Z_]{0,6}",
    ]
}

/// The name of an image property: mostly that of an extra spec with `_` in place of the colon.
fn property() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => key().prop_map(|key| key.replacen(':', "_", 1)),
        1 => key(),
        1 => Just("traits_required".to_owned()),
        1 => Just("hw_numa_cpus".to_owned()),
    ]
}

fn object(name: impl Strategy<Value = String>) -> impl Strategy<Value = Value> {
    prop::collection::vec((name, word()), 0..5)
        .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>()))
}

fn amount() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (0u32..9).prop_map(|number| json!(number)),
        1 => Just(json!(u32::MAX)),
        1 => word(),
    ]
}

fn request() -> impl Strategy<Value = Value> {
    let flavor = (amount(), amount(), amount(), object(key())).prop_map(
        |(vcpus, memory_mb, swap, extra_specs)| {
            json!({"vcpus": vcpus, "memory_mb": memory_mb, "swap": swap,
                   "extra_specs": extra_specs})
        },
    );
    let fields = [
        "num_instances",
        "requested_networks",
        "requested_resources",
        "request_level_params",
        "requested_destination",
        "instance_group",
        "pci_requests",
        "scheduler_hints",
        "topology_rules",
        "availability_zone",
        "force_hosts",
        "nonsense",
    ];
    let extra_field = (prop::sample::select(fields.to_vec()), word());
    let group = (word(), amount())
        .prop_map(|(name, amount)| json!([{"requester_id": name, "resources": {"VGPU": amount}}]));
    let extra_field = prop::option::weighted(0.2, extra_field);
    let group = prop::option::weighted(0.3, group);
    (flavor, object(property()), extra_field, group).prop_map(
        |(flavor, properties, extra_field, group)| {
            let mut request = json!({"flavor": flavor, "image": {"properties": properties}});
            if let Some(group) = group {
                request["requested_resources"] = group;
            }
            if let Some((name, value)) = extra_field {
                request[name] = value;
            }
            request
        },
    )
}

fn options(numa_in_placement: bool) -> PrepareOptions {
    let translate = if numa_in_placement {
        TranslateOptions::default()
    } else {
        TranslateOptions::nova()
    };
    let prefilter = PrefilterOptions {
        query_placement_for_image_type_support: true,
        enable_isolated_aggregate_filtering: true,
        image_metadata_prefilter: true,
        ..PrefilterOptions::default()
    };
    PrepareOptions {
        translate,
        prefilter,
    }
}

proptest! {
    #[test]
    fn every_request_is_valid_or_refused_with_a_field(json in request(), numa_in_placement in any::<bool>()) {
        let spec: RequestSpec = match request::read(json) {
            Ok(spec) => spec,
            Err(error) => {
                prop_assert!(!error.field.is_empty() && !error.message.is_empty());
                return Ok(());
            }
        };
        match prepare(&spec, &options(numa_in_placement), &EmptyFleet) {
            Ok(prepared) => {
                let query = &prepared.query;
                let suffixes: Vec<_> = query.groups.iter().map(|group| &group.suffix).collect();
                let amounts = query.groups.iter().flat_map(|group| &group.resources);
                prop_assert!(amounts.clone().count() > 0);
                prop_assert!(amounts.clone().all(|(_, amount)| *amount > 0));
                let mut in_subtree = query.same_subtree.iter().flatten();
                prop_assert!(in_subtree.all(|suffix| suffixes.contains(&suffix)));
                prop_assert!(suffixes.len() < 3 || query.group_policy.is_some());
            }
            Err(PrepareRefusal::BadRequest(refusal)) => {
                prop_assert!(!refusal.field().is_empty());
                prop_assert!(refusal.to_string().starts_with(refusal.field()));
            }
            Err(PrepareRefusal::NoSuchHost { .. } | PrepareRefusal::Prefilter(_)) => {}
        }
        let written = serde_json::to_value(&spec).expect("written");
        prop_assert_eq!(request::read::<RequestSpec, _>(written).expect("readable"), spec);
    }
}
