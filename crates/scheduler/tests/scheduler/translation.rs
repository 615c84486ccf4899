//! The queries that flavors, images, ports and devices are translated to, as Nova's query strings.

use placewright_scheduler::request::{self, RequestSpec};
use placewright_scheduler::translate::pci::{PciAlias, PciAliases};
use placewright_scheduler::translate::{TranslateOptions, Translation, target, translate};
use serde_json::{Value, json};

fn spec(json: Value) -> RequestSpec {
    request::read(json).expect("a readable request")
}

/// A request for 4 VCPU, 2048 MiB and 10 GiB with these extra specs and image properties.
fn request_with(extra_specs: Value, properties: Value) -> RequestSpec {
    let flavor = json!({
        "vcpus": 4, "memory_mb": 2048, "root_gb": 10, "extra_specs": extra_specs,
    });
    spec(json!({"flavor": flavor, "image": {"properties": properties}}))
}

fn aliases() -> PciAliases {
    let alias = |json| serde_json::from_value::<PciAlias>(json).expect("an alias");
    [
        (
            "gpu".to_owned(),
            alias(json!({"spec": [{"vendor_id": "10de", "product_id": "1eb8"}]})),
        ),
        (
            "nic".to_owned(),
            alias(json!({
                "numa_policy": "required",
                "spec": [{"resource_class": "fast-nic", "traits": "HW_GPU_API_VULKAN,my trait"}],
            })),
        ),
    ]
    .into()
}

fn nova() -> TranslateOptions {
    TranslateOptions {
        pci_aliases: aliases(),
        ..TranslateOptions::nova()
    }
}

/// The query string of a request, without its limit and decoded.
fn query(spec: &RequestSpec, options: &TranslateOptions) -> String {
    let mut translation = translate(spec, options).expect("a valid request");
    target::apply(&mut translation.request, spec, |_| Vec::new()).expect("a target");
    decoded(&translation.request.to_query_string())
}

fn decoded(query: &str) -> String {
    query
        .replace("%3A", ":")
        .replace("%2C", ",")
        .replace("%21", "!")
        .replace("limit=1000&", "")
}

fn field_of_refusal(spec: &RequestSpec, options: &TranslateOptions) -> String {
    let error = match translate(spec, options) {
        Err(error) => error,
        Ok(translation) => translation.request.to_candidate_query().expect_err("wrong"),
    };
    assert!(error.to_string().contains(error.field()), "{error}");
    error.field().to_owned()
}

#[test]
fn flavors_and_images_become_queries() {
    let rows = [
        (
            json!({}),
            json!({}),
            "resources=DISK_GB:10,MEMORY_MB:2048,VCPU:4",
        ),
        // Amounts of extra specs in any group replace those of the flavor; 0 removes a class.
        (
            json!({"resources:VCPU": 0, "resources1:MEMORY_MB": 512, "resources:VGPU": 1}),
            json!({}),
            "resources=DISK_GB:10,VGPU:1&resources1=MEMORY_MB:512",
        ),
        (
            json!({
                "resources:VCPU": 0, "resources:MEMORY_MB": 0, "resources:DISK_GB": 0,
                "resources:CUSTOM_BAREMETAL": 1,
            }),
            json!({}),
            "resources=CUSTOM_BAREMETAL:1",
        ),
        (
            json!({"trait:CUSTOM_A": "required", "trait:CUSTOM_B": "forbidden"}),
            json!({"trait:CUSTOM_C": "required", "trait:CUSTOM_D": "forbidden"}),
            "required=CUSTOM_A,CUSTOM_C,!CUSTOM_B&resources=DISK_GB:10,MEMORY_MB:2048,VCPU:4",
        ),
        (
            json!({"resources_a:VGPU": 1, "resources_b:VGPU": 1, "group_policy": "isolate"}),
            json!({}),
            "group_policy=isolate&resources=DISK_GB:10,MEMORY_MB:2048,VCPU:4\
             &resources_a=VGPU:1&resources_b=VGPU:1",
        ),
        (
            json!({"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"}),
            json!({"hw_cpu_thread_policy": "isolate"}),
            "required=!HW_CPU_HYPERTHREADING&resources=DISK_GB:10,MEMORY_MB:2048,PCPU:5",
        ),
        (
            json!({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}),
            json!({}),
            "resources=DISK_GB:10,MEMORY_MB:2048,PCPU:3,VCPU:1",
        ),
        (
            json!({"hw:mem_encryption": true}),
            json!({"hw_firmware_type": "uefi", "hw_mem_encryption_model": "amd-sev-es"}),
            "required=HW_CPU_X86_AMD_SEV_ES\
             &resources=DISK_GB:10,MEMORY_MB:2048,MEM_ENCRYPTION_CONTEXT:1,VCPU:4",
        ),
        (
            json!({"hw:pmem": "big one, big-one,b"}),
            json!({}),
            "resources=CUSTOM_PMEM_NAMESPACE_B:1,CUSTOM_PMEM_NAMESPACE_BIG_ONE:2,\
             DISK_GB:10,MEMORY_MB:2048,VCPU:4",
        ),
        (
            json!({"hw:tpm_version": "2.0", "os:secure_boot": "required"}),
            json!({"hw_tpm_model": "tpm-crb", "hw_firmware_type": "uefi",
                   "hw_firmware_stateless": "yes", "hw_pci_numa_affinity_policy": "socket",
                   "hw_maxphysaddr_mode": "emulate"}),
            "required=COMPUTE_ADDRESS_SPACE_EMULATED,COMPUTE_SECURITY_STATELESS_FIRMWARE,\
             COMPUTE_SECURITY_TPM_2_0,COMPUTE_SECURITY_TPM_CRB,COMPUTE_SECURITY_UEFI_SECURE_BOOT,\
             COMPUTE_SOCKET_PCI_NUMA_AFFINITY&resources=DISK_GB:10,MEMORY_MB:2048,VCPU:4",
        ),
    ];
    for (extra_specs, properties, expected) in rows {
        let spec = request_with(extra_specs, properties);
        assert_eq!(query(&spec, &nova()), expected);
    }
}

#[test]
fn disks_count_local_storage_only() {
    let flavor = json!({
        "vcpus": 1, "memory_mb": 64, "root_gb": 10, "ephemeral_gb": 2, "swap_mb": 1025,
    });
    let local = spec(json!({"flavor": flavor}));
    assert_eq!(
        query(&local, &nova()),
        "resources=DISK_GB:14,MEMORY_MB:64,VCPU:1"
    );
    let volume = spec(json!({"flavor": flavor, "is_bfv": true}));
    assert_eq!(
        query(&volume, &nova()),
        "resources=DISK_GB:4,MEMORY_MB:64,VCPU:1"
    );
    let no_disk = json!({"vcpus": 1, "memory_mb": 64, "root_gb": 10});
    let no_disk = spec(json!({"flavor": no_disk, "is_bfv": true}));
    assert_eq!(query(&no_disk, &nova()), "resources=MEMORY_MB:64,VCPU:1");
}

#[test]
fn ports_devices_and_accelerators_become_groups() {
    let port = "8d6f0a58-3b5e-4f64-a6d3-0d5f6a7b8c90";
    let with_ports = json!({
        "flavor": {"vcpus": 1, "memory_mb": 64},
        "requested_networks": [
            {"port_id": port, "resource_request": {
                "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 9}, "required": ["CUSTOM_PHYSNET"]}},
            {"port_id": "00000000-0000-0000-0000-000000000002", "resource_request": {
                "request_groups": [
                    {"id": "a", "resources": {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 1}},
                    {"id": "b", "resources": {"NET_BW_IGR_KILOBIT_PER_SEC": 2}, "required": ["T"]}],
                "same_subtree": ["b", "a"]}},
        ],
    });
    assert_eq!(
        query(&spec(with_ports), &nova()),
        format!(
            "group_policy=none&required{port}=CUSTOM_PHYSNET&requiredb=T\
             &resources=MEMORY_MB:64,VCPU:1&resources{port}=NET_BW_EGR_KILOBIT_PER_SEC:9\
             &resourcesa=NET_PACKET_RATE_KILOPACKET_PER_SEC:1\
             &resourcesb=NET_BW_IGR_KILOBIT_PER_SEC:2&same_subtree=a,b"
        )
    );
    let profiles = json!([
        {"name": "fpga", "groups": [
            {"resources:FPGA": "1", "trait:CUSTOM_FAST": "required", "accel:bitstream": "x"}]},
    ]);
    let accelerated = json!({
        "flavor": {"vcpus": 1, "memory_mb": 64, "extra_specs": {"accel:device_profile": "fpga"}},
        "requested_networks": [{"port_id": port, "device_profile": "fpga"}],
        "device_profiles": profiles,
    });
    assert_eq!(
        query(&spec(accelerated), &nova()),
        format!(
            "group_policy=none&requireddevice_profile_0=CUSTOM_FAST\
             &requireddevice_profile_0{port}=CUSTOM_FAST&resources=MEMORY_MB:64,VCPU:1\
             &resourcesdevice_profile_0=FPGA:1&resourcesdevice_profile_0{port}=FPGA:1"
        )
    );
    let devices_by_filter = request_with(json!({"pci_passthrough:alias": "gpu:2"}), json!({}));
    assert_eq!(
        query(&devices_by_filter, &nova()),
        "resources=DISK_GB:10,MEMORY_MB:2048,VCPU:4"
    );
    let in_placement = TranslateOptions {
        pci_in_placement: true,
        ..nova()
    };
    let with_devices = request_with(json!({"pci_passthrough:alias": "gpu:2, nic:1"}), json!({}));
    assert_eq!(
        query(&with_devices, &in_placement),
        "group_policy=none&requiredpci_alias_1-0=CUSTOM_MY_TRAIT,HW_GPU_API_VULKAN\
         &resources=DISK_GB:10,MEMORY_MB:2048,VCPU:4&resourcespci_alias_0-0=CUSTOM_PCI_10DE_1EB8:1\
         &resourcespci_alias_0-1=CUSTOM_PCI_10DE_1EB8:1&resourcespci_alias_1-0=CUSTOM_FAST_NIC:1"
    );
}

#[test]
fn destinations_and_hints_affect_the_query() {
    let uuid = |number: u128| uuid::Uuid::from_u128(number).to_string();
    let with_destination = json!({
        "flavor": {"vcpus": 1, "memory_mb": 64},
        "requested_destination": {
            "host": "h", "aggregates": [[uuid(2), uuid(1)], [uuid(3)]],
            "forbidden_aggregates": [uuid(4)],
        },
        "force_hosts": ["other"], "force_nodes": ["n"],
        "scheduler_hints": {"same_host": uuid(9)},
    });
    let spec = spec(with_destination);
    let node = |number| target::ComputeNode {
        uuid: uuid::Uuid::from_u128(number),
        host: "h".to_owned(),
        node: "n".to_owned(),
    };
    let mut translation = translate(&spec, &nova()).expect("valid");
    let request = &mut translation.request;
    let find = |target: target::Target<'_>| {
        assert_eq!((target.host, target.node), (Some("h"), Some("n")));
        vec![node(7)]
    };
    target::apply(request, &spec, find).expect("found");
    assert_eq!(
        decoded(&request.to_query_string()),
        format!(
            "in_tree={}&member_of=!in:{}&member_of=in:{},{}&member_of=in:{}\
             &resources=MEMORY_MB:64,VCPU:1",
            uuid(7),
            uuid(4),
            uuid(1),
            uuid(2),
            uuid(3)
        ),
        "the destination overrides forced hosts, and the hint removes the limit"
    );
    let mut several = translate(&spec, &nova()).expect("valid").request;
    target::apply(&mut several, &spec, |_| vec![node(7), node(8)]).expect("found");
    assert_eq!(several.nodes.len(), 2);
    assert!(!several.to_query_string().contains("in_tree"));
    let refused = target::apply(&mut several, &spec, |_| Vec::new());
    assert_eq!(
        refused.expect_err("no such host").to_string(),
        "no such host - host: h node: n"
    );
}

fn flavor_field(key: &str) -> String {
    format!("flavor.extra_specs[{key:?}]")
}

fn image_field(name: &str) -> String {
    format!("image.properties[{name:?}]")
}

fn assert_fields_of_refusals<const ROWS: usize>(rows: [(Value, Value, String); ROWS]) {
    for (extra_specs, properties, field) in rows {
        let request = request_with(extra_specs, properties);
        assert_eq!(field_of_refusal(&request, &nova()), field);
    }
}

#[test]
fn contradictions_about_processors_name_their_field() {
    assert_fields_of_refusals([
        (
            json!({"hw:cpu_policy": "odd"}),
            json!({}),
            flavor_field("hw:cpu_policy"),
        ),
        (
            json!({"hw:cpu_policy": "shared"}),
            json!({"hw_cpu_policy": "dedicated"}),
            image_field("hw_cpu_policy"),
        ),
        (
            json!({"hw:cpu_policy": "mixed"}),
            json!({}),
            flavor_field("hw:cpu_dedicated_mask"),
        ),
        (
            json!({"hw:cpu_policy": "dedicated", "resources:PCPU": 4}),
            json!({}),
            flavor_field("resources:PCPU"),
        ),
        (
            json!({"resources:PCPU": 3}),
            json!({}),
            flavor_field("resources:PCPU"),
        ),
        (
            json!({"hw:numa_nodes": "3"}),
            json!({}),
            "flavor.vcpus".to_owned(),
        ),
        (
            json!({"hw:numa_nodes": "x"}),
            json!({}),
            flavor_field("hw:numa_nodes"),
        ),
        (
            json!({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3"}),
            json!({}),
            flavor_field("hw:numa_mem.0"),
        ),
    ]);
}

#[test]
fn other_contradictions_name_their_field() {
    assert_fields_of_refusals([
        (
            json!({}),
            json!({"hw_mem_page_size": "large"}),
            image_field("hw_mem_page_size"),
        ),
        (
            json!({"hw:tpm_version": "9"}),
            json!({}),
            flavor_field("hw:tpm_version"),
        ),
        (
            json!({"hw:mem_encryption": "1"}),
            json!({}),
            image_field("hw_firmware_type"),
        ),
        (
            json!({"accel:device_profile": "gone"}),
            json!({}),
            "device_profiles".to_owned(),
        ),
        (
            json!({"trait:CUSTOM_A": "forbidden"}),
            json!({"trait:CUSTOM_A": "required"}),
            "trait:CUSTOM_A".to_owned(),
        ),
        (
            json!({"resources:VCPU": 0, "resources:MEMORY_MB": 0, "resources:DISK_GB": 0}),
            json!({}),
            "flavor".to_owned(),
        ),
        (
            json!({"trait1:CUSTOM_A": "required"}),
            json!({}),
            "resources1".to_owned(),
        ),
    ]);
    let groups = request_with(
        json!({"resources1:VGPU": 1, "resources2:VGPU": 1}),
        json!({}),
    );
    let mut request = translate(&groups, &nova()).expect("a translation").request;
    let refused = target::apply(&mut request, &groups, |_| Vec::new());
    assert!(
        refused
            .expect_err("no group policy")
            .to_string()
            .contains("group_policy")
    );
}

#[test]
fn invalid_requests_are_refused_with_a_field() {
    let flavor = json!({"vcpus": 1, "memory_mb": 64});
    let uuid = "8d6f0a58-3b5e-4f64-a6d3-0d5f6a7b8c90";
    let group = json!({"requester_id": "g", "resources": {"VGPU": 1}});
    let rows = [
        (json!({"num_instances": 0}), "num_instances"),
        (
            json!({"num_instances": 2, "requested_networks": [{"port_id": uuid}]}),
            "requested_networks[0].port_id",
        ),
        (
            json!({"instance_group": {"uuid": uuid, "policy": "affinity", "max_server_per_host": 2}}),
            "instance_group.max_server_per_host",
        ),
        (
            json!({"requested_resources": [group, group]}),
            "requested_resources[1].requester_id",
        ),
        (
            json!({"requested_resources": [{"requester_id": "a b", "resources": {"VGPU": 1}}]}),
            "requested_resources[0].requester_id",
        ),
        (
            json!({"requested_resources": [{"requester_id": ""}]}),
            "requested_resources[0].requester_id",
        ),
        (
            json!({"request_level_params": {"same_subtree": [["gone"]]}}),
            "request_level_params.same_subtree",
        ),
        (
            json!({"requested_networks": [{"resource_request": {"resources": {"VGPU": 1}}}]}),
            "requested_networks[0].port_id",
        ),
    ];
    for (mut request, field) in rows {
        request["flavor"] = flavor.clone();
        assert_eq!(field_of_refusal(&spec(request), &nova()), field);
    }
}

#[test]
fn ignored_parts_of_a_request_get_a_warning() {
    let spec = request_with(
        json!({
            "resources:FOO": 1, "resources:VGPU": "-1", "resources1:VGPU": "many",
            "trait:CUSTOM_A": "maybe", "group_policy": "odd",
        }),
        json!({"hw_firmware_stateless": true}),
    );
    let translation = translate(&spec, &nova()).expect("valid");
    let warnings = translation.warnings.iter().map(ToString::to_string);
    let warnings: Vec<_> = warnings.collect();
    assert_eq!(
        warnings,
        [
            "flavor.extra_specs[\"group_policy\"] is ignored: \"odd\" is neither \"none\" nor \"isolate\"",
            "flavor.extra_specs[\"resources1:VGPU\"] is ignored: \"many\" is not a whole number of at least 0",
            "flavor.extra_specs[\"resources:FOO\"] is ignored: there is no resource class \"FOO\"",
            "flavor.extra_specs[\"resources:VGPU\"] is ignored: \"-1\" is not a whole number of at least 0",
            "flavor.extra_specs[\"trait:CUSTOM_A\"] is ignored: \"maybe\" is neither \"required\" nor \"forbidden\"",
            "image.properties[\"hw_firmware_stateless\"] is ignored: the image's hw_firmware_type is not \"uefi\"",
        ]
    );
    assert_eq!(
        decoded(&translation.request.to_query_string()),
        "resources=DISK_GB:10,MEMORY_MB:2048,VCPU:4"
    );
}

#[test]
fn a_request_for_dedicated_cpus_has_a_fallback_only_if_enabled() {
    let pinned = request_with(
        json!({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}),
        json!({}),
    );
    let fallback_query = |translation: &Translation| {
        let fallback = translation.fallback.as_ref();
        fallback.map(|request| decoded(&request.to_query_string()))
    };
    let with_fallback = translate(&pinned, &nova()).expect("valid");
    let vcpu = "resources=DISK_GB:10,MEMORY_MB:2048,VCPU:4";
    assert_eq!(fallback_query(&with_fallback).as_deref(), Some(vcpu));
    let without_fallback = translate(&pinned, &TranslateOptions::default()).expect("valid");
    assert_eq!(fallback_query(&without_fallback), None);
}

#[test]
fn very_large_guests_are_translated_or_refused() {
    let huge = json!({"vcpus": 4_000_000_000_u32, "memory_mb": 4_000_000_000_u32});
    let plain = spec(json!({"flavor": huge}));
    assert_eq!(
        query(&plain, &nova()),
        "resources=MEMORY_MB:4000000000,VCPU:4000000000"
    );
    for extra_specs in [
        json!({"hw:cpu_policy": "dedicated"}),
        json!({"hw:numa_nodes": "4000000000"}),
        json!({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-4000000000"}),
        json!({"pci_passthrough:alias": "gpu:4000000000"}),
    ] {
        let mut flavor = huge.clone();
        flavor["extra_specs"] = extra_specs;
        let options = TranslateOptions {
            pci_in_placement: true,
            ..nova()
        };
        field_of_refusal(&spec(json!({"flavor": flavor})), &options);
    }
}

#[test]
fn one_of_several_traits_can_be_required_if_that_is_possible() {
    let with_any_trait = json!({
        "resources_a:VGPU": 1, "placewright:any_trait_a": "CUSTOM_B, CUSTOM_A",
        "trait_a:CUSTOM_C": "required", "placewright:any_trait": "CUSTOM_D",
    });
    assert_eq!(
        query(&request_with(with_any_trait, json!({})), &nova()),
        "required=CUSTOM_D&required_a=CUSTOM_C&required_a=in:CUSTOM_A,CUSTOM_B\
         &resources=DISK_GB:10,MEMORY_MB:2048,VCPU:4&resources_a=VGPU:1"
    );
    let key = "placewright:any_trait_a";
    let in_group = |value: &str| {
        json!({
            "resources_a:VGPU": 1, "trait_a:CUSTOM_A": "forbidden",
            "trait_a:CUSTOM_B": "forbidden", key: value,
        })
    };
    let in_unsuffixed = json!({
        "placewright:any_trait": "CUSTOM_A,CUSTOM_B",
        "resources:VCPU": 0, "resources:MEMORY_MB": 0, "resources:DISK_GB": 0, "resources1:VGPU": 1,
    });
    assert_fields_of_refusals([
        (in_group(""), json!({}), flavor_field(key)),
        (in_group("CUSTOM_A,,CUSTOM_C"), json!({}), flavor_field(key)),
        (in_group("custom a"), json!({}), flavor_field(key)),
        (in_group("CUSTOM_A,CUSTOM_B"), json!({}), key.to_owned()),
        (in_unsuffixed, json!({}), "placewright:any_trait".to_owned()),
    ]);
    let possible = request_with(in_group("CUSTOM_A,CUSTOM_C"), json!({}));
    assert!(translate(&possible, &nova()).is_ok());
}
