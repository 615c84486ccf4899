//! A fleet with the Placement API and the scheduler API, and the requests that tests send to them.
#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::collections::BTreeSet;
use std::sync::Arc;

use placewright_api_placement::PlacementService;
use placewright_api_scheduler::{KeepOptions, SchedulerService};
use placewright_api_testing::{Answer, ApiParts, call, get};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use serde_json::{Value, json};

pub(crate) const CELL_1: &str = "c0000000-0000-0000-0000-000000000001";
pub(crate) const CELL_2: &str = "c0000000-0000-0000-0000-000000000002";
pub(crate) const GROUP: &str = "60000000-0000-0000-0000-000000000001";
pub(crate) const RACK_1: &str = "ac000000-0000-0000-0000-000000000001";
pub(crate) const RACK_2: &str = "ac000000-0000-0000-0000-000000000002";

/// The UUID of a host, which is that of its root provider.
pub(crate) fn host(number: u32) -> String {
    format!("40000000-0000-0000-0000-{number:012}")
}

/// The UUID of an instance.
pub(crate) fn instance(number: u32) -> String {
    format!("10000000-0000-0000-0000-{number:012}")
}

/// The two services of a fleet.
pub(crate) struct Fleet {
    pub(crate) placement: Arc<PlacementService>,
    pub(crate) scheduler: Arc<SchedulerService>,
}

impl Fleet {
    pub(crate) async fn empty(keep_options: KeepOptions) -> Self {
        Self::on_parts(&ApiParts::new().await, keep_options)
    }

    pub(crate) fn on_parts(parts: &ApiParts, keep_options: KeepOptions) -> Self {
        let config = SchedulerConfig::default();
        let scheduler = Scheduler::new(config, PrepareOptions::default()).unwrap();
        let scheduler = parts.scheduler(scheduler, keep_options);
        Self {
            placement: parts.service(),
            scheduler,
        }
    }

    /// A fleet with hosts from number 1 on, with 4 CPUs each. Those with even numbers are in the
    /// second cell.
    pub(crate) async fn with_hosts(hosts: u32) -> Self {
        let fleet = Self::empty(KeepOptions::default()).await;
        for number in 1..=hosts {
            fleet.add_host(number).await;
        }
        fleet
    }

    pub(crate) async fn add_host(&self, number: u32) {
        let uuid = host(number);
        let body = json!({"name": format!("node-{number}"), "uuid": uuid});
        self.send_to_placement("POST", "/resource_providers", &body)
            .await;
        let inventories = json!({"resource_provider_generation": 0, "inventories": {
            "VCPU": {"total": 4}, "MEMORY_MB": {"total": 8192}, "DISK_GB": {"total": 100},
        }});
        let path = format!("/resource_providers/{uuid}/inventories");
        self.send_to_placement("PUT", &path, &inventories).await;
        let names = json!({"service_host": format!("host-{number}"), "node": format!("node-{number}"),
            "cell": if number % 2 == 1 { CELL_1 } else { CELL_2 }});
        let update = json!({"full": {"facts": {"names": names}}});
        // The first update of the agent's first start.
        let response = self.send_update(number, 1, 1, update).await;
        assert_eq!(
            (response.status, response.json()["receipt"].as_str()),
            (200, Some("applied"))
        );
    }

    /// Sends an update of the host as its agent does. `incarnation` numbers the starts of the agent, and `sequence` the
    /// updates since its start.
    pub(crate) async fn send_update(
        &self,
        number: u32,
        incarnation: u64,
        sequence: u64,
        update: Value,
    ) -> Answer {
        let path = format!("/v1/hosts/{}/state", host(number));
        let body = json!({"incarnation": incarnation, "sequence": sequence, "update": update});
        self.post(&path, &body).await
    }

    pub(crate) async fn send_to_placement(&self, method: &str, path: &str, body: &Value) {
        let response = call(method, path)
            .json(body.to_string())
            .send(&self.placement)
            .await;
        assert!(response.status < 300, "{path}: {}", response.text);
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        call("POST", path)
            .json(body.to_string())
            .send_to_scheduler(&self.scheduler)
            .await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        call("PUT", path)
            .json(body.to_string())
            .send_to_scheduler(&self.scheduler)
            .await
    }

    pub(crate) async fn select(&self, body: &Value) -> Answer {
        self.post("/v1/destinations", body).await
    }

    /// Sends a `GET` request to the scheduler API.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        get(path).send_to_scheduler(&self.scheduler).await
    }

    /// Sends a `DELETE` request to the scheduler API.
    pub(crate) async fn delete(&self, path: &str) -> Answer {
        call("DELETE", path)
            .send_to_scheduler(&self.scheduler)
            .await
    }

    /// A host, as the scheduler API shows it.
    pub(crate) async fn get_host(&self, uuid: &str) -> Value {
        self.get(&format!("/v1/hosts/{uuid}")).await.json()
    }

    /// The providers of which an instance has allocations.
    pub(crate) async fn allocated_providers(&self, number: u32) -> Vec<String> {
        let path = format!("/allocations/{}", instance(number));
        let body = get(&path).send(&self.placement).await.json();
        body["allocations"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    }

    /// The number of consumers with allocations on the first `hosts` hosts.
    pub(crate) async fn count_consumers(&self, hosts: u32) -> usize {
        let mut consumers = BTreeSet::new();
        for number in 1..=hosts {
            let path = format!("/resource_providers/{}/allocations", host(number));
            let body = get(&path).send(&self.placement).await.json();
            consumers.extend(body["allocations"].as_object().unwrap().keys().cloned());
        }
        consumers.len()
    }
}

/// The body of `POST /v1/destinations` for instances with this number of CPUs.
pub(crate) fn destinations_body(vcpus: u32, instances: &[u32]) -> Value {
    let instances: Vec<String> = instances.iter().map(|number| instance(*number)).collect();
    json!({
        "request": {
            "flavor": {"vcpus": vcpus, "memory_mb": 1024, "root_gb": 1},
            "project_id": "p", "user_id": "u",
        },
        "instances": instances, "alternates": 0, "claim": true,
    })
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}
