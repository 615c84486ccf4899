//! Random fleets in the Placement API and in the scheduler API.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_api_placement::PlacementService;
use placewright_api_scheduler::{KeepOptions, SchedulerService};
use placewright_api_testing::{ApiParts, call, get};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::prefilter::Environment;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use placewright_scheduler::translate::target::{ComputeNode, Target};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Topology;
use super::random_choices::{RandomChoices, cell_uuid, host_uuid, uuid, zone_uuid};

pub(crate) const TRAITS: [&str; 3] = ["HW_CPU_X86_AVX2", "HW_NIC_SRIOV", "STORAGE_DISK_SSD"];
pub(crate) const ZONES: [&str; 2] = ["north", "south"];
pub(crate) const POLICIES: [&str; 4] = [
    "affinity",
    "anti-affinity",
    "soft-affinity",
    "soft-anti-affinity",
];

/// The index in [`POLICIES`] of a group's policy.
pub(crate) fn policy_index(group: Uuid) -> usize {
    usize::from(group.as_bytes()[15]) % POLICIES.len()
}

/// The state of a host that this test reported to the scheduler.
pub(crate) struct Host {
    pub(crate) cell: u64,
    pub(crate) is_usable: bool,
    /// The reported number, plus one for each pending instance.
    pub(crate) io_ops: u32,
    pub(crate) failed_builds: u32,
    pub(crate) hypervisor_version: u32,
    /// The nested providers, which have the host's CPUs; empty if its root provider has them.
    pub(crate) children: Vec<Uuid>,
}

/// A fleet with its two services, and the part of its state that placement does not have.
pub(crate) struct Fleet {
    pub(crate) placement: Arc<PlacementService>,
    pub(crate) scheduler: Arc<SchedulerService>,
    pub(crate) hosts: BTreeMap<Uuid, Host>,
    /// The hosts of the members of each server group.
    pub(crate) members: BTreeMap<Uuid, Vec<Uuid>>,
    /// The metadata of the aggregate of each zone.
    pub(crate) zones: BTreeMap<Uuid, BTreeMap<String, String>>,
    pub(crate) topology: Topology,
}

impl Environment for Fleet {
    fn each_aggregate(&self, visit: &mut dyn FnMut(Uuid, &BTreeMap<String, String>)) {
        for (uuid, metadata) in &self.zones {
            visit(*uuid, metadata);
        }
    }

    fn segment_aggregates(&self, _segment: Uuid) -> Option<Vec<Uuid>> {
        None
    }

    fn compute_version_min(&self) -> u32 {
        0
    }

    fn compute_nodes(&self, target: Target<'_>) -> Vec<ComputeNode> {
        let nodes = self.hosts.iter().map(|(uuid, host)| {
            let node = ComputeNode {
                uuid: *uuid,
                host: format!("host-{uuid}"),
                node: format!("node-{uuid}"),
            };
            (node, cell_uuid(host.cell))
        });
        nodes
            .filter(|(node, cell)| {
                target.host.is_none_or(|host| host == node.host)
                    && target.node.is_none_or(|name| name == node.node)
                    && target.cell.is_none_or(|wanted| wanted == *cell)
            })
            .map(|(node, _)| node)
            .collect()
    }
}

impl Fleet {
    pub(crate) async fn new(choices: &mut RandomChoices) -> Self {
        let parts = ApiParts::new().await;
        let config = SchedulerConfig::default();
        let scheduler = Scheduler::new(config, PrepareOptions::default()).unwrap();
        let mut fleet = Self {
            scheduler: parts.scheduler(scheduler, KeepOptions::default()),
            placement: parts.service(),
            hosts: BTreeMap::new(),
            members: BTreeMap::new(),
            zones: BTreeMap::new(),
            topology: Topology::default(),
        };
        let topology = fleet.topology.draw_topology(choices);
        for (number, zone) in (0..).zip(ZONES) {
            let metadata = BTreeMap::from([("availability_zone".to_owned(), zone.to_owned())]);
            let path = format!("/v1/aggregates/{}", zone_uuid(number));
            let body = json!({"name": zone, "metadata": metadata});
            fleet.send("PUT", &path, &body).await;
            fleet.zones.insert(zone_uuid(number), metadata);
        }
        // Some hosts of the first zone then have no disk of their own, and use that of a provider that shares it.
        let has_shared_disk = choices.one_in(4);
        let count = 2 + choices.below(7);
        for number in 0..count {
            fleet.add_host(choices, number, has_shared_disk).await;
        }
        if has_shared_disk {
            let pool = uuid(0x50, 0);
            let disk = json!({"DISK_GB": {"total": 30}});
            fleet.add_provider(pool, None, disk).await;
            fleet
                .set_traits_and_aggregates(pool, &["MISC_SHARES_VIA_AGGREGATE"], &[zone_uuid(0)])
                .await;
        }
        fleet.send("PUT", "/v1/topology", &topology).await;
        fleet
    }

    pub(crate) async fn send_to_placement(&self, method: &str, path: &str, body: &Value) {
        let response = call(method, path)
            .json(body.to_string())
            .send(&self.placement)
            .await;
        assert!(response.status < 300, "{path}: {}", response.text);
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &Value) {
        let response = call(method, path)
            .json(body.to_string())
            .send_to_scheduler(&self.scheduler)
            .await;
        assert!(response.status < 300, "{path}: {}", response.text);
    }

    pub(crate) async fn get_from_placement(&self, path: &str) -> Value {
        let response = get(path).send(&self.placement).await;
        assert_eq!(response.status, 200, "{path}: {}", response.text);
        response.json()
    }

    pub(crate) async fn add_provider(&self, uuid: Uuid, parent: Option<Uuid>, inventories: Value) {
        let body = json!({"name": uuid, "uuid": uuid, "parent_provider_uuid": parent});
        self.send_to_placement("POST", "/resource_providers", &body)
            .await;
        let body = json!({"resource_provider_generation": 0, "inventories": inventories});
        let path = format!("/resource_providers/{uuid}/inventories");
        self.send_to_placement("PUT", &path, &body).await;
    }

    pub(crate) async fn set_traits_and_aggregates(
        &self,
        uuid: Uuid,
        traits: &[&str],
        aggregates: &[Uuid],
    ) {
        let path = format!("/resource_providers/{uuid}");
        for (part, values) in [("traits", json!(traits)), ("aggregates", json!(aggregates))] {
            let generation = self.get_from_placement(&path).await["generation"].clone();
            let mut body = json!({"resource_provider_generation": generation});
            body[part] = values;
            self.send_to_placement("PUT", &format!("{path}/{part}"), &body)
                .await;
        }
    }

    pub(crate) async fn add_host(
        &mut self,
        choices: &mut RandomChoices,
        number: u64,
        has_shared_disk: bool,
    ) {
        let uuid = host_uuid(number);
        // The zones have the numbers 0 and 1; a host with 2 is in no zone.
        let zone_number = choices.below(3);
        let mut root_inventories = json!({"MEMORY_MB": {
            "total": 1024 * (1 + choices.below(8)), "reserved": 256 * choices.below(2),
            "allocation_ratio": choices.pick(&[1.0, 1.5]),
        }});
        if !(has_shared_disk && zone_number == 0 && choices.one_in(2)) {
            root_inventories["DISK_GB"] = json!({"total": 5 + choices.below(20)});
        }
        let cpus = |choices: &mut RandomChoices| {
            let ratio = choices.pick(&[1.0, 2.0]);
            json!({"total": 2 + choices.below(6), "allocation_ratio": ratio})
        };
        let mut children = Vec::new();
        if choices.one_in(3) {
            self.add_provider(uuid, None, root_inventories).await;
            for child in 0..1 + choices.below(2) {
                let child = self::uuid(0x41 + u32::try_from(child).unwrap(), number);
                let cpu_inventories = json!({"VCPU": cpus(choices)});
                self.add_provider(child, Some(uuid), cpu_inventories).await;
                children.push(child);
            }
        } else {
            root_inventories["VCPU"] = cpus(choices);
            self.add_provider(uuid, None, root_inventories).await;
        }
        let traits: Vec<&str> = TRAITS.into_iter().filter(|_| choices.one_in(2)).collect();
        let mut aggregates = self.topology.draw_host(choices, uuid);
        aggregates.extend((zone_number < 2).then(|| zone_uuid(zone_number)));
        self.set_traits_and_aggregates(uuid, &traits, &aggregates)
            .await;
        let host = Host {
            cell: choices.below(2),
            is_usable: !choices.one_in(6),
            io_ops: u32::try_from(choices.below(4)).unwrap(),
            // Most hosts have none, the others have 1 or 2.
            failed_builds: u32::try_from(choices.below(12).saturating_sub(9)).unwrap(),
            hypervisor_version: choices.pick(&[1_000, 2_000]),
            children,
        };
        let disabled = (!host.is_usable).then_some("why");
        let body = json!({"incarnation": 1, "sequence": 1, "update": {"full": {
            "facts": {
                "names": {"service_host": format!("host-{uuid}"), "node": format!("node-{uuid}"),
                    "cell": cell_uuid(host.cell)},
                "platform": {"hypervisor_version": host.hypervisor_version},
            },
            "load": {"io_ops": host.io_ops, "failed_builds": host.failed_builds},
            "disabled": disabled,
        }}});
        self.send("POST", &format!("/v1/hosts/{uuid}/state"), &body)
            .await;
        self.hosts.insert(uuid, host);
    }
}
