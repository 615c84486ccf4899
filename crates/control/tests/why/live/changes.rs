//! Random changes of the fleet.

use placewright_conductor::{HostId, InstanceId};
use placewright_control::{now, submit_placement};
use placewright_placement::{self as placement, ConsumerUuid};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::host_state::{HostUpdate, Load, Metric};
use placewright_testing::random::Rng;
use serde_json::json;
use uuid::Uuid;

use super::{Live, TRAITS, ZONES};

impl Live {
    /// Changes something that decisions depend on.
    pub(crate) async fn change(&mut self) {
        let id = self.hosts[self.rng.below(self.hosts.len())];
        match self.rng.below(8) {
            0 => self.set_inventories(id).await,
            1 => {
                let name = TRAITS[self.rng.below(TRAITS.len())].to_owned();
                self.set_traits(id, vec![name]).await;
            }
            2 => self.delete().await,
            3 => {
                let load = self.draw_load(id);
                self.say(id, HostUpdate::Load(load));
            }
            4 => {
                let metrics = self.draw_metrics();
                self.say(id, HostUpdate::Metrics(metrics));
            }
            5 => self.claim_by_others(id).await,
            6 => {
                let reason = self.rng.one_in(3).then(|| "maintenance".to_owned());
                self.say(id, HostUpdate::Disabled(reason));
            }
            _ => self.report_instances(),
        }
    }

    /// Most hosts report the instances that they got.
    fn report_instances(&mut self) {
        for (instance, (host, report)) in std::mem::take(&mut self.unreported) {
            if self.rng.one_in(4) {
                self.unreported.insert(instance, (host, report));
                continue;
            }
            let load = self.loads[&host];
            self.say(host, HostUpdate::InstanceCame(Box::new(report), load));
        }
    }

    /// An instance that its host has reported goes, and its claim with it.
    async fn delete(&mut self) {
        let reported = self.settled.iter();
        let reported: Vec<InstanceId> = reported
            .filter(|instance| !self.unreported.contains_key(instance))
            .copied()
            .collect();
        if reported.is_empty() || self.rng.below(2) > 0 {
            return;
        }
        let gone = reported[self.rng.below(reported.len())];
        self.settled.retain(|instance| *instance != gone);
        let host = self.engine.read_now(|machine| {
            let mapping = &machine.state.conductor.mappings()[&gone];
            mapping.decisions.last().unwrap().host
        });
        self.submit_to_placement(placement::Command::Release {
            consumer: gone.consumer(),
        })
        .await;
        let load = self.loads[&host];
        self.say(host, HostUpdate::InstanceWent(gone.0, load));
    }

    /// Another system claims something of a host.
    async fn claim_by_others(&mut self, id: HostId) {
        let consumer = ConsumerUuid::from_uuid(Uuid::from_u128(
            0x9090_0000 + u128::from(self.rng.number() % 1000),
        ));
        let claim = placement::ConsumerClaim {
            consumer,
            generation: placement::ConsumerGeneration::Any,
            project: "other".into(),
            user: "other".into(),
            consumer_type: None,
            allocations: vec![placement::AllocationRequest {
                provider: id.0,
                resources: vec![("VCPU".into(), 1), ("MEMORY_MB".into(), 512)],
            }],
        };
        let command = placement::Command::Claim {
            consumers: vec![claim],
            at: now(),
        };
        // The host may be full.
        drop(submit_placement(&self.engine, command).await.unwrap());
    }

    pub(super) fn draw_load(&mut self, id: HostId) -> Load {
        let load = Load {
            io_ops: u32::try_from(self.rng.below(4)).unwrap(),
            running_builds: 0,
            failed_builds: u32::try_from(self.rng.below(5) / 4).unwrap(),
        };
        self.loads.insert(id, load);
        load
    }

    pub(super) fn draw_metrics(&mut self) -> Vec<Metric> {
        vec![Metric {
            name: "watts".into(),
            value: self.rng.below(1000) as f64 / 8.0,
        }]
    }

    /// A random request: its server group, and the body of its specification.
    pub(super) fn draw_request(&mut self) -> (Option<Uuid>, String) {
        let sizes = [1, 1, 2, 2, 4, 8, 40];
        let vcpus = sizes[self.rng.below(sizes.len())];
        let mut request = json!({
            "flavor": {"vcpus": vcpus, "memory_mb": 1024 * vcpus, "root_gb": 10},
            "project_id": "p",
            "user_id": "u",
        });
        if self.rng.one_in(3) {
            let name = format!("trait:{}", TRAITS[self.rng.below(TRAITS.len())]);
            request["flavor"]["extra_specs"] = json!({name: "required"});
        }
        if self.rng.one_in(4) {
            request["availability_zone"] = json!(ZONES[self.rng.below(ZONES.len())]);
        }
        let group = match self.rng.one_in(3) {
            true => Some(self.groups[self.rng.below(self.groups.len())]),
            false => None,
        };
        if let Some((uuid, policy)) = group {
            request["instance_group"] = json!({"uuid": uuid, "policy": policy});
        }
        let body = json!({"request": request});
        (group.map(|(uuid, _)| uuid), body.to_string())
    }
}

pub(super) fn draw_config(rng: &mut Rng) -> SchedulerConfig {
    let mut multiplier = |choices: [f64; 4]| choices[rng.below(4)];
    let mut config = SchedulerConfig {
        // An hour, so that no host becomes silent while the test waits for the machine.
        service_down_time_s: 3600,
        ram_weight_multiplier: multiplier([1.0, 1.0, -1.0, 0.5]),
        cpu_weight_multiplier: multiplier([1.0, 1.0, -1.0, 2.0]),
        num_instances_weight_multiplier: multiplier([0.0, 0.0, 1.0, -1.0]),
        ..SchedulerConfig::default()
    };
    if multiplier([0.0, 0.0, 0.0, 1.0]) > 0.0 {
        config.metrics.weight_setting = vec!["watts=-1.5".into()];
    }
    config
}
