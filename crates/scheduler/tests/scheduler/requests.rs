//! Requests as JSON: how they are parsed, and which field an error names.

use std::collections::{BTreeMap, BTreeSet};

use placewright_scheduler::request::{self, RequestSpec};
use placewright_scheduler::translate::{TranslateOptions, translate};
use serde_json::{Value, json};

fn parse(json: Value) -> Result<RequestSpec, request::RequestParseError> {
    request::read(json)
}

fn request_with(field: &str, value: Value) -> Value {
    let mut request = json!({"flavor": {"vcpus": 1, "memory_mb": 64}});
    request[field] = value;
    request
}

#[test]
fn errors_name_the_field() {
    let rows = [
        (json!({"flavor": {"vcpus": 1}}), "flavor"),
        (
            json!({"flavor": {"vcpus": -1, "memory_mb": 1}}),
            "flavor.vcpus",
        ),
        (
            json!({"flavor": {"vcpus": 1.5, "memory_mb": 1}}),
            "flavor.vcpus",
        ),
        (request_with("flavour", json!(1)), "flavour"),
        (request_with("is_bfv", json!("yes")), "is_bfv"),
        (
            request_with("image", json!({"properties": []})),
            "image.properties",
        ),
        (request_with("ignore_hosts", json!([1])), "ignore_hosts[0]"),
        (
            request_with("scheduler_hints", json!({"group": {"a": 1}})),
            "scheduler_hints.group",
        ),
        (
            request_with("requested_destination", json!({"aggregates": [["x"]]})),
            "requested_destination.aggregates[0][0]",
        ),
        (
            request_with(
                "requested_resources",
                json!([{"requester_id": "a", "resources": {"VGPU": -1}}]),
            ),
            "requested_resources[0].resources.VGPU",
        ),
        (
            request_with(
                "topology_rules",
                json!([{"level": "rack", "relation": "beside"}]),
            ),
            "topology_rules[0].relation",
        ),
        (
            request_with("instance_group", json!({"uuid": "x", "policy": "affinity"})),
            "instance_group.uuid",
        ),
    ];
    for (json, field) in rows {
        let text = json.to_string();
        let error = parse(json).expect_err(&text);
        assert_eq!(error.field, field, "{error} in {text}");
    }
    let nulls = json!({"flavor": {"vcpus": 1, "memory_mb": 1, "extra_specs": {"a": null}}});
    assert_eq!(
        parse(nulls).expect_err("null").field,
        "flavor.extra_specs.a"
    );
}

#[test]
fn a_request_without_flavor_and_resources_is_refused() {
    let options = TranslateOptions::default();
    let nothing = parse(json!({})).unwrap();
    let refused = translate(&nothing, &options).unwrap_err();
    assert_eq!(refused.field(), "flavor");
    let group = json!({"resources": {"CUSTOM_GOLD": 1}, "required_traits": ["HW_CPU_X86_AVX"]});
    let spec = parse(json!({"requested_resources": [group]})).unwrap();
    let translation = translate(&spec, &options).unwrap();
    let group = translation.request.unsuffixed.unwrap();
    assert_eq!(
        group.resources,
        BTreeMap::from([("CUSTOM_GOLD".to_owned(), 1)])
    );
    assert_eq!(
        group.required_traits,
        BTreeSet::from(["HW_CPU_X86_AVX".to_owned()])
    );
    assert!(translation.request.suffixed.is_empty());
}

#[test]
fn image_properties_are_normalised() {
    let spec = parse(request_with(
        "image",
        json!({"properties": {
            "architecture": "amd64", "hypervisor_type": "XAPI", "hw_vm_mode": "HV",
            "hw_vif_model": "VirtualVmxnet3", "vmware_adaptertype": "lsiLogicsas",
            "hw_boot_menu": "Yes", "hw_numa_nodes": " 2 ", "os_type": "Linux", "mine": "As It Is",
            "img_hv_requested_version": ">=2.6, <9", "hw_disk_bus": "virtio",
            "trait:CUSTOM_A": "required", "trait:CUSTOM_B": "no",
            "hw_numa_cpus.0": "0-1", "hw_numa_cpus.1": "2", "hw_numa_mem.0": 64,
            "hw_numa_mem.1": "32", "img_mappings": [{"virtual": "ami"}],
        }}),
    ))
    .expect("readable");
    let properties = &spec.image.as_ref().expect("an image").properties;
    for (name, value) in [
        ("hw_architecture", "x86_64"),
        ("img_hv_type", "xen"),
        ("hw_vm_mode", "hvm"),
        ("hw_vif_model", "vmxnet3"),
        ("hw_scsi_model", "lsisas1068"),
        ("hw_boot_menu", "true"),
        ("hw_numa_nodes", "2"),
        ("os_type", "linux"),
        ("hw_disk_bus", "virtio"),
    ] {
        assert_eq!(properties.get(name), Some(value), "{name}");
    }
    assert_eq!(
        (properties.get("mine"), properties.raw("mine")),
        (None, Some("As It Is"))
    );
    assert_eq!(
        properties.traits_required().collect::<Vec<_>>(),
        ["CUSTOM_A"]
    );
    assert_eq!(properties.numa_cpus().expect("cells")[0], [0, 1].into());
    assert_eq!(properties.numa_memory_mb(), Some(&[64, 32][..]));
    let parsed_again = parse(serde_json::to_value(&spec).expect("written"));
    assert_eq!(parsed_again.expect("readable"), spec);
}

#[test]
fn a_group_that_only_names_a_tree_is_kept() {
    let tree = "8d6f0a58-3b5e-4f64-a6d3-0d5f6a7b8c90";
    for group in [
        json!({"in_tree": tree}),
        json!({"in_tree": tree, "resources": {"VGPU": 0}}),
    ] {
        let spec = parse(request_with("requested_resources", json!([group])));
        let translation = translate(&spec.expect("readable"), &TranslateOptions::nova());
        let query = translation.expect("valid").request.to_query_string();
        assert!(query.contains(&format!("in_tree={tree}")), "{query}");
    }
    // Of a flavor without amounts nothing but the tree is left.
    let flavor = json!({"vcpus": 1, "memory_mb": 64, "extra_specs": {
        "resources:VCPU": 0, "resources:MEMORY_MB": 0, "resources1:VGPU": 1}});
    let spec = json!({"flavor": flavor, "requested_resources": [{"in_tree": tree}]});
    let translation = translate(&parse(spec).expect("readable"), &TranslateOptions::nova());
    let query = translation.expect("valid").request.to_query_string();
    assert!(query.contains(&format!("in_tree={tree}")), "{query}");
}

#[test]
fn invalid_image_properties_are_refused() {
    for (name, value) in [
        ("hw_architecture", "vax"),
        ("hw_disk_bus", "floppy"),
        ("hw_numa_nodes", "two"),
        ("img_hv_requested_version", "about 3"),
        ("vm_mode", "odd"),
        ("hw_numa_mem.0", "-1"),
        ("hw_numa_cpus.0", "3-1"),
        // As text, each node has a property of its own.
        ("hw_numa_mem", "512"),
        ("hw_numa_cpus", "0-1"),
    ] {
        let error =
            parse(request_with("image", json!({"properties": {name: value}}))).expect_err(name);
        assert!(
            error
                .message
                .contains(&format!("image.properties[{name:?}]")),
            "{error}"
        );
    }
}

#[test]
fn defaults_hints_and_ignored_hosts() {
    let spec = parse(request_with(
        "scheduler_hints",
        json!({"query": "[\"=\"]", "different_host": ["a", "b"], "none": []}),
    ))
    .expect("readable");
    assert_eq!(spec.hint("different_host"), Some("a"));
    assert_eq!(spec.hints("different_host").len(), 2);
    assert_eq!(
        (spec.hint("query"), spec.hint("none")),
        (Some("[\"=\"]"), None)
    );
    assert_eq!(
        (spec.num_instances, spec.is_bfv, spec.is_forced()),
        (1, false, false)
    );
    let spec = parse(request_with("ignore_hosts", json!(["Host1"]))).expect("readable");
    assert!(spec.ignores_host("hOST1") && !spec.ignores_host("host2"));
}
