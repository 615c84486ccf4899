//! The constraints that each pre-filter adds, and its conditions.

use std::collections::BTreeMap;

use placewright_scheduler::prefilter::{
    self, AddedConstraints, Environment, Prefilter, PrefilterOptions, PrefilterRefusal,
};
use placewright_scheduler::prepare::{PrepareOptions, PrepareRefusal, prepare};
use placewright_scheduler::request::{self, RequestSpec};
use placewright_scheduler::translate::target::{ComputeNode, Target};
use placewright_scheduler::translate::{TranslateOptions, translate};
use serde_json::{Value, json};
use uuid::Uuid;

/// Aggregates 1 and 2 are in zone north, 3 is of tenant t, 4 is reserved for the trait AVX2, 5 for
/// AVX2 and SSD. The network segment 50 is in aggregates 51 and 52.
struct Fleet;

impl Environment for Fleet {
    fn each_aggregate(&self, visit: &mut dyn FnMut(Uuid, &BTreeMap<String, String>)) {
        let metadata = |pairs: &[(&str, &str)]| {
            let owned_pairs = pairs
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()));
            owned_pairs.collect::<BTreeMap<_, _>>()
        };
        let avx2 = ("trait:HW_CPU_X86_AVX2", "required");
        let rows = [
            metadata(&[("availability_zone", "north")]),
            metadata(&[("availability_zone", "north"), ("trait:CUSTOM_X", "no")]),
            metadata(&[("filter_tenant_id9", "t")]),
            metadata(&[avx2]),
            metadata(&[avx2, ("trait:STORAGE_DISK_SSD", "required")]),
        ];
        for (number, metadata) in (1..).zip(&rows) {
            visit(uuid(number), metadata);
        }
    }

    fn segment_aggregates(&self, segment: Uuid) -> Option<Vec<Uuid>> {
        (segment == uuid(50)).then(|| vec![uuid(51), uuid(52)])
    }

    fn compute_version_min(&self) -> u32 {
        73
    }

    fn compute_nodes(&self, _target: Target<'_>) -> Vec<ComputeNode> {
        Vec::new()
    }
}

fn uuid(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn all_disabled() -> PrefilterOptions {
    PrefilterOptions {
        map_az_to_placement_aggregate: false,
        compute_status_filter: false,
        accelerators_filter: false,
        packed_virtqueue_filter: false,
        remote_managed_ports_filter: false,
        ephemeral_encryption_filter: false,
        virtio_sound_filter: false,
        tpm_secret_security_filter: false,
        owner_nova_filter: false,
        ..PrefilterOptions::default()
    }
}

fn spec(fields: Value) -> RequestSpec {
    let mut request = json!({"flavor": {"vcpus": 1, "memory_mb": 64}});
    for (name, value) in fields.as_object().expect("an object") {
        request[name] = value.clone();
    }
    request::read(request).expect("a readable request")
}

fn apply(
    spec: &RequestSpec,
    options: &PrefilterOptions,
) -> Result<AddedConstraints, PrefilterRefusal> {
    let translation = translate(spec, &TranslateOptions::nova()).expect("a valid request");
    prefilter::apply(spec, &translation, options, &Fleet)
}

/// The host traits that one pre-filter requires.
fn root_traits(fields: Value, switch: impl Fn(&mut PrefilterOptions)) -> Vec<String> {
    let mut options = all_disabled();
    assert_eq!(
        apply(&spec(fields.clone()), &options),
        Ok(AddedConstraints::default()),
        "all pre-filters are disabled"
    );
    switch(&mut options);
    let added = apply(&spec(fields), &options).expect("accepted");
    added.root_required.into_iter().collect()
}

fn flavor(extra_specs: Value) -> Value {
    json!({"flavor": {"vcpus": 1, "memory_mb": 64, "extra_specs": extra_specs}})
}

#[test]
fn zones_tenants_and_isolation_become_aggregates() {
    let zone = spec(json!({"availability_zone": "north"}));
    let added = apply(&zone, &PrefilterOptions::default()).expect("accepted");
    assert_eq!(added.aggregates, [[uuid(1), uuid(2)]]);
    let default = spec(json!({"availability_zone": "nova"}));
    let added = apply(&default, &PrefilterOptions::default()).expect("accepted");
    assert!(
        added.aggregates.is_empty(),
        "the default zone restricts nothing"
    );
    let unknown = apply(
        &spec(json!({"availability_zone": "mars"})),
        &PrefilterOptions::default(),
    );
    assert_eq!(
        unknown.expect_err("an unknown zone").field(),
        Some("availability_zone")
    );

    let mut options = all_disabled();
    options.limit_tenants_to_placement_aggregate = true;
    let of_tenant = |project: &str, options: &PrefilterOptions| {
        apply(&spec(json!({"project_id": project})), options)
    };
    assert_eq!(
        of_tenant("t", &options).expect("accepted").aggregates,
        [[uuid(3)]]
    );
    assert!(
        of_tenant("u", &options)
            .expect("accepted")
            .aggregates
            .is_empty()
    );
    options.placement_aggregate_required_for_tenants = true;
    let project = "u".to_owned();
    let refusal = PrefilterRefusal::NoTenantAggregate { project };
    assert_eq!(of_tenant("u", &options), Err(refusal));

    let mut options = all_disabled();
    options.enable_isolated_aggregate_filtering = true;
    let forbidden_for = |fields| {
        apply(&spec(fields), &options)
            .expect("accepted")
            .forbidden_aggregates
    };
    assert_eq!(forbidden_for(json!({})), [uuid(4), uuid(5)].into());
    let avx2 = json!({"trait:HW_CPU_X86_AVX2": "required"});
    assert_eq!(forbidden_for(flavor(avx2.clone())), [uuid(5)].into());
    assert_eq!(
        forbidden_for(json!({"image": {"properties": avx2}})),
        [uuid(5)].into()
    );
}

#[test]
fn segments_of_routed_networks_become_aggregates() {
    let mut options = all_disabled();
    options.query_placement_for_routed_network_aggregates = true;
    let routed = |segments: Value| {
        let nic = json!({"network_id": uuid(60), "segments": segments});
        apply(
            &spec(json!({"requested_networks": [nic, {"segments": []}, nic]})),
            &options,
        )
    };
    let segment_aggregates = vec![uuid(51), uuid(52)];
    assert_eq!(
        routed(json!([uuid(50)])).expect("accepted").aggregates,
        [segment_aggregates.clone(), segment_aggregates]
    );
    let segment = uuid(49);
    let refusal = PrefilterRefusal::NoSegmentAggregate { segment };
    assert_eq!(routed(json!([uuid(50), uuid(49)])), Err(refusal));
}

#[test]
fn requirements_become_traits_of_the_host() {
    let image =
        |properties: Value| json!({"image": {"disk_format": "qcow2", "properties": properties}});
    type Switch = fn(&mut PrefilterOptions);
    let rows: [(Value, Switch, &[&str]); 8] = [
        (
            image(json!({})),
            |options| options.query_placement_for_image_type_support = true,
            &["COMPUTE_IMAGE_TYPE_QCOW2"],
        ),
        (
            image(
                json!({"hw_disk_bus": "virtio", "hw_vif_model": "spapr-vlan", "hw_video_model": "none",
                         "hw_viommu_model": "auto"}),
            ),
            |options| options.image_metadata_prefilter = true,
            &[
                "COMPUTE_GRAPHICS_MODEL_NONE",
                "COMPUTE_NET_VIF_MODEL_SPAPR_VLAN",
                "COMPUTE_STORAGE_BUS_VIRTIO",
                "COMPUTE_VIOMMU_MODEL_AUTO",
            ],
        ),
        (
            image(json!({"hw_virtio_packed_ring": "on"})),
            |options| options.packed_virtqueue_filter = true,
            &["COMPUTE_NET_VIRTIO_PACKED"],
        ),
        (
            json!({"requested_networks": [{"vnic_type": "remote-managed"}]}),
            |options| options.remote_managed_ports_filter = true,
            &["COMPUTE_REMOTE_MANAGED_PORTS"],
        ),
        (
            flavor(
                json!({"hw:ephemeral_encryption": "yes", "hw:ephemeral_encryption_format": "luks"}),
            ),
            |options| options.ephemeral_encryption_filter = true,
            &[
                "COMPUTE_EPHEMERAL_ENCRYPTION",
                "COMPUTE_EPHEMERAL_ENCRYPTION_LUKS",
            ],
        ),
        (
            flavor(json!({"hw:sound_model": "virtio"})),
            |options| options.virtio_sound_filter = true,
            &["COMPUTE_SOUND_MODEL_VIRTIO"],
        ),
        (
            flavor(json!({"hw:tpm_version": "2.0", "hw:tpm_secret_security": "host"})),
            |options| options.tpm_secret_security_filter = true,
            &["COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST"],
        ),
        (
            json!({}),
            |options| options.owner_nova_filter = true,
            &["OWNER_NOVA"],
        ),
    ];
    for (fields, switch, expected) in rows {
        assert_eq!(root_traits(fields, switch), expected);
    }
}

#[test]
fn an_unknown_device_model_does_not_affect_the_others() {
    let properties = json!({"hw_emulation_architecture": "sparc", "hw_vif_model": "virtio"});
    let mut options = all_disabled();
    options.image_metadata_prefilter = true;
    let image = spec(json!({"image": {"properties": properties}}));
    let added = apply(&image, &options).expect("accepted");
    assert_eq!(
        added.root_required,
        ["COMPUTE_NET_VIF_MODEL_VIRTIO".to_owned()].into()
    );
    assert_eq!(
        added.warnings[0].to_string(),
        "image.properties[\"hw_emulation_architecture\"] is ignored: there is no standard trait COMPUTE_ARCH_SPARC"
    );
}

#[test]
fn a_prepared_request_has_all_constraints() {
    let request = spec(json!({
        "flavor": {"vcpus": 1, "memory_mb": 64, "extra_specs": {"accel:device_profile": "fpga"}},
        "device_profiles": [{"name": "fpga", "groups": [{"resources:FPGA": 1}]}],
        "pci_requests": [{"request_id": "r", "count": 2, "spec": [{"resource_class": "CUSTOM_G"}]}],
        "availability_zone": "north",
    }));
    let prepared = prepare(&request, &PrepareOptions::default(), &Fleet).expect("accepted");
    let query = &prepared.query;
    assert_eq!(query.root_required, ["COMPUTE_ACCELERATORS", "OWNER_NOVA"]);
    assert_eq!(query.root_forbidden, ["COMPUTE_STATUS_DISABLED"]);
    assert_eq!(
        query.groups[0].member_of,
        [[uuid(1).to_string(), uuid(2).to_string()]]
    );
    let suffixes: Vec<_> = query.groups.iter().map(|group| &*group.suffix).collect();
    assert_eq!(suffixes, ["", "device_profile_0", "r-0", "r-1"]);
    let trait_counts: Vec<_> = query
        .groups
        .iter()
        .map(|group| group.required.len())
        .collect();
    assert_eq!(
        trait_counts,
        [0, 0, 1, 1],
        "devices have to belong to the compute service"
    );
    assert_eq!(
        prepared.prefilters,
        [
            Prefilter::MapAzToPlacementAggregate,
            Prefilter::ComputeStatus,
            Prefilter::Accelerators,
            Prefilter::OwnerNova,
        ]
    );
    let with_unknown_host = spec(json!({"force_hosts": ["gone"]}));
    let refused = prepare(&with_unknown_host, &PrepareOptions::default(), &Fleet);
    assert!(matches!(refused, Err(PrepareRefusal::NoSuchHost { .. })));
}
