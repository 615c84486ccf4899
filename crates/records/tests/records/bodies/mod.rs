//! A body with a value in every field. This body is in the golden files, so its values never change; a field
//! that is added gets its default here.

use std::collections::{BTreeMap, BTreeSet};

use placewright_conductor::Spec;
use placewright_conductor::super_conductor::GroupTopology;
use placewright_records::server;
use placewright_types::flavor::Flavor;
use placewright_types::image::{Image, ImageProperties};
use placewright_types::request::device::{
    DeviceGroup, DeviceProfile, PciDeviceSpec, PciNumaPolicy, PciRequest, PortRequestGroup,
    PortResourceRequest, RequestedNetwork,
};
use placewright_types::request::group::Strength;
use placewright_types::request::{
    Destination, GroupPolicy, RequestGroup, RequestLevelParams, RequestSpec, ServerGroup,
    TopologyRelation, TopologyRule,
};
use placewright_types::server::{
    NetworkRequest, Networks, NetworksKeyword, OwnFields, ScalarValue, ServerBody, ServerFields,
};

use crate::values::{self, OTHER};

pub(crate) fn rule() -> TopologyRule {
    TopologyRule {
        level: Some("rack".into()),
        relation: TopologyRelation::Spread,
        strength: Strength::Soft,
        to: [OTHER].into(),
        max_skew: Some(2),
        weight: Some(3),
        place: BTreeSet::new(),
    }
}

/// A rule with a value in its added field.
pub(crate) fn rule_with_place() -> TopologyRule {
    TopologyRule {
        place: ["north/r1".to_owned()].into(),
        ..rule()
    }
}

pub(crate) fn topology() -> GroupTopology {
    GroupTopology {
        rules: vec![rule()],
    }
}

fn set_of(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn map_of(key: &str, value: &str) -> BTreeMap<String, String> {
    [(key.to_owned(), value.to_owned())].into()
}

pub(crate) fn image() -> Image {
    let properties = [
        ("hw_disk_bus", "virtio"),
        ("trait:CUSTOM_A", "required"),
        ("hw_numa_cpus.0", "0-1"),
        ("hw_numa_mem.0", "512"),
        ("mine", "x"),
    ];
    let properties = properties.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Image {
        id: Some("i".into()),
        name: Some("n".into()),
        disk_format: Some("qcow2".into()),
        properties: ImageProperties::new(properties).unwrap(),
    }
}

pub(crate) fn network() -> RequestedNetwork {
    let group = PortRequestGroup {
        id: "g".into(),
        resources: [("NET_BW_EGR_KILOBIT_PER_SEC".to_owned(), 1000)].into(),
        required: set_of(&["CUSTOM_B"]),
    };
    RequestedNetwork {
        port_id: Some(OTHER),
        network_id: Some(OTHER),
        vnic_type: Some("direct".into()),
        physical_network: Some("p".into()),
        tunneled: true,
        segments: vec![OTHER],
        resource_request: Some(PortResourceRequest {
            resources: [("NET_BW_IGR_KILOBIT_PER_SEC".to_owned(), 300)].into(),
            required: set_of(&["CUSTOM_C"]),
            request_groups: Some(vec![group]),
            same_subtree: set_of(&["g"]),
        }),
        device_profile: Some("d".into()),
    }
}

pub(crate) fn device() -> PciRequest {
    PciRequest {
        request_id: "r".into(),
        count: 2,
        alias_name: Some("a".into()),
        from_port: true,
        numa_policy: PciNumaPolicy::Socket,
        spec: vec![PciDeviceSpec {
            vendor_id: Some("8086".into()),
            product_id: Some("1572".into()),
            dev_type: Some("type-PF".into()),
            resource_class: Some("CUSTOM_NIC".into()),
            traits: Some("CUSTOM_D".into()),
            live_migratable: Some(true),
        }],
    }
}

pub(crate) fn profile() -> DeviceProfile {
    DeviceProfile {
        name: "fpga".into(),
        groups: vec![DeviceGroup {
            properties: map_of("resources:FPGA", "1"),
        }],
    }
}

pub(crate) fn resources() -> RequestGroup {
    RequestGroup {
        requester_id: "x".into(),
        resources: [("VGPU".to_owned(), 1)].into(),
        required_traits: set_of(&["CUSTOM_E"]),
        any_traits: vec![set_of(&["CUSTOM_F", "CUSTOM_G"])],
        forbidden_traits: set_of(&["CUSTOM_H"]),
        aggregates: vec![vec![OTHER]],
        forbidden_aggregates: [OTHER].into(),
        in_tree: Some(OTHER),
    }
}

pub(crate) fn request() -> RequestSpec {
    RequestSpec {
        flavor: Flavor {
            name: "f".into(),
            vcpus: 2,
            memory_mb: 4096,
            root_gb: 20,
            ephemeral_gb: 1,
            swap_mb: 512,
            extra_specs: map_of("hw:cpu_policy", "dedicated"),
        },
        image: Some(image()),
        is_bfv: true,
        project_id: "p".into(),
        user_id: "u".into(),
        availability_zone: Some("z".into()),
        num_instances: 3,
        ignore_hosts: vec!["h1".into()],
        force_hosts: vec!["h2".into()],
        force_nodes: vec!["h3".into()],
        requested_destination: Some(Destination {
            host: Some("h4".into()),
            node: Some("n4".into()),
            cell: Some(OTHER),
            aggregates: vec![vec![OTHER]],
            forbidden_aggregates: [OTHER].into(),
            allow_cross_cell_move: true,
        }),
        scheduler_hints: [("same_host".to_owned(), vec!["s".to_owned()])].into(),
        instance_group: Some(ServerGroup {
            uuid: OTHER,
            policy: Some(GroupPolicy::SoftAntiAffinity),
            max_server_per_host: Some(2),
            members: [OTHER].into(),
            hosts: set_of(&["h5"]),
            topology_rules: vec![rule()],
        }),
        requested_resources: vec![resources()],
        group_policy: None,
        request_level_params: RequestLevelParams {
            root_required: set_of(&["CUSTOM_I"]),
            root_forbidden: set_of(&["CUSTOM_J"]),
            same_subtree: vec![set_of(&["x"])],
        },
        pci_requests: vec![device()],
        requested_networks: vec![network()],
        device_profiles: vec![profile()],
        topology_rules: vec![rule()],
        siblings: BTreeSet::new(),
    }
}

pub(crate) fn scalar_values() -> Vec<ScalarValue> {
    vec![
        ScalarValue::Null,
        ScalarValue::Boolean(true),
        ScalarValue::Integer(-300),
        ScalarValue::Unsigned(u64::MAX),
        ScalarValue::Float(0.5),
        ScalarValue::Text("volume".into()),
    ]
}

pub(crate) fn networks() -> Vec<Networks> {
    let network_request = NetworkRequest {
        uuid: Some(OTHER.to_string()),
        port: Some("q".into()),
        fixed_ip: Some("192.0.2.7".into()),
        tag: Some("t".into()),
    };
    vec![
        Networks::List(vec![network_request]),
        Networks::Keyword(NetworksKeyword::Auto),
        Networks::Keyword(NetworksKeyword::None),
    ]
}

pub(crate) fn body() -> ServerBody {
    let names = ["a", "b", "c", "d", "e", "source_type"];
    let block_device = names.map(str::to_owned).into_iter().zip(scalar_values());
    ServerBody {
        request: request(),
        min_count: Some(2),
        server: ServerFields {
            flavor_id: "1".into(),
            image: Some("i".into()),
            reservation_id: "r-1".into(),
            description: Some("d".into()),
            metadata: map_of("k", "v"),
            tags: vec!["t".into()],
            key_name: Some("key".into()),
            public_key: Some("ssh".into()),
            user_data: Some("eA==".into()),
            config_drive: true,
            networks: Some(networks().remove(0)),
            block_device_mapping_v2: vec![block_device.collect()],
            security_groups: vec!["web".into()],
            admin_pass: Some("s".into()),
            access_ip_v4: Some("192.0.2.1".into()),
            access_ip_v6: Some("2001:db8::1".into()),
            trusted_image_certificates: Some(vec!["c".into()]),
            disk_config: "AUTO".into(),
            secrets_mark: None,
            request_id: None,
            traceparent: None,
        },
        own: OwnFields {
            launch_index: 7,
            hostname: "host-7".into(),
        },
    }
}

/// A spec whose body is a row.
pub(crate) fn spec() -> Spec {
    Spec {
        body: server::write(&body()),
        ..values::spec()
    }
}

/// A spec with a value also in each field that was added to specs later.
pub(crate) fn spec_with_added_fields() -> Spec {
    Spec {
        usage: values::quotas::usage(),
        build_secrets: "build".into(),
        secrets: "kept".into(),
        ..spec()
    }
}
