//! Control at work on a random fleet. What the scheduler knows and the journal does not have is recorded beside it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use placewright_conductor::control::{Change, ControlState};
use placewright_conductor::super_conductor::{self, Command, NewBuild, ServerGroup};
use placewright_conductor::{HostId, InstanceId, MigrationId, MoveKind, Spec};
use placewright_control::placer::Contention;
use placewright_control::{
    ControlHandle, ControlMachine, Options, Runtime, SchedulerHandle, now, submit_placement,
};
use placewright_engine::{Engine, Machine as _};
use placewright_journal::MemoryJournal;
use placewright_placement::group::{Relation, Rule, RuleScope};
use placewright_placement::{self as placement, Inventory};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::host_state::{
    HostFacts, HostNames, HostReport, HostUpdate, InstanceReport, Load,
};
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use placewright_testing::random::Rng;
use placewright_testing::site::{cell, host, instance};
use placewright_testing::world;
use uuid::Uuid;

mod changes;

use changes::draw_config;

const TRAITS: [&str; 2] = ["HW_CPU_X86_AVX2", "STORAGE_DISK_SSD"];
const ZONES: [&str; 2] = ["north", "south"];
const POLICIES: [&str; 3] = ["anti-affinity", "soft-anti-affinity", "soft-affinity"];
const POLLS_MAX: usize = 5000;

/// Control on a fleet.
pub(crate) struct Live {
    rng: Rng,
    config: SchedulerConfig,
    engine: Engine<ControlMachine>,
    runtime: Arc<Runtime>,
    hosts: Vec<HostId>,
    groups: Vec<(Uuid, &'static str)>,
    /// Instances that have a host, are known to their cell and not moved.
    settled: Vec<InstanceId>,
    /// Instances that were placed on a host whose agent has not reported them.
    unreported: BTreeMap<InstanceId, (HostId, InstanceReport)>,
    loads: BTreeMap<HostId, Load>,
    host_updates: Vec<(HostId, HostUpdate)>,
    requests: Vec<Request>,
    /// How often other claims have recently taken the selected hosts first.
    contention: Contention,
    pub(crate) placed: usize,
    pub(crate) tries: usize,
    next_instance: usize,
}

/// A request that was placed, and what the scheduler knew that is not in the journal.
pub(crate) struct Request {
    /// The instances of the request, in order.
    pub(crate) instances: Vec<InstanceId>,
    /// The move, if it is one.
    pub(crate) migration: Option<MigrationId>,
    /// How many of [`Past::host_updates`] the scheduler had received before it ranked hosts for this request.
    pub(crate) host_update_count: usize,
    pub(crate) contention: Contention,
    /// The instances that were counted on hosts that had not reported them.
    pub(crate) unreported: Vec<(HostId, InstanceReport)>,
}

/// The journal and the recorded inputs of the scheduler after control has ended: all that decisions are made again
/// from.
pub(crate) struct Past {
    pub(crate) config: SchedulerConfig,
    /// The state at the end.
    pub(crate) end: ControlState,
    /// The changes of each entry of the journal, the first of which has the sequence 1.
    pub(crate) entries: Vec<Vec<Change>>,
    /// All updates of host states, in order.
    pub(crate) host_updates: Vec<(HostId, HostUpdate)>,
    pub(crate) requests: Vec<Request>,
}

impl Live {
    pub(crate) async fn start(mut rng: Rng) -> Self {
        let config = draw_config(&mut rng);
        let engine = Engine::open(
            MemoryJournal::new(),
            placewright_engine::Options::default(),
            (),
        );
        let engine: Engine<ControlMachine> = engine.unwrap();
        let scheduler = Scheduler::new(config.clone(), PrepareOptions::default()).unwrap();
        let scheduler = SchedulerHandle::new(engine.clone(), scheduler);
        let control = ControlHandle::new(engine.clone(), Options::default());
        let runtime = Runtime::start(control, scheduler).unwrap();
        let mut live = Self {
            rng,
            config,
            engine,
            runtime,
            hosts: Vec::new(),
            groups: Vec::new(),
            settled: Vec::new(),
            unreported: BTreeMap::new(),
            loads: BTreeMap::new(),
            host_updates: Vec::new(),
            requests: Vec::new(),
            contention: Contention::default(),
            placed: 0,
            tries: 0,
            next_instance: 0,
        };
        live.submit_to_placement(placement::Command::SyncStandardNames { at: now() })
            .await;
        let cells = 1 + u32::try_from(live.rng.below(2)).unwrap();
        let mut by_cell = BTreeMap::new();
        for number in 0..cells {
            live.submit(Command::SetCell {
                cell: cell(number),
                name: format!("cell{number}"),
                disabled: false,
            })
            .await;
            by_cell.insert(number, Vec::new());
        }
        for number in 0..u32::try_from(4 + live.rng.below(20)).unwrap() {
            let cell_number = number % cells;
            let id = host(cell_number, number);
            by_cell
                .get_mut(&cell_number)
                .unwrap()
                .push((id, format!("host-{number}")));
            live.add_host(id, cell_number, number).await;
        }
        for (number, hosts) in by_cell {
            live.submit(Command::MapHosts {
                cell: cell(number),
                hosts,
            })
            .await;
        }
        live.set_zones().await;
        for number in 0..3 {
            live.add_group(Uuid::from_u128(0x6060 + number)).await;
        }
        live
    }

    async fn add_host(&mut self, id: HostId, cell_number: u32, number: u32) {
        let at = now();
        self.submit_to_placement(placement::Command::CreateProvider {
            uuid: id.0,
            name: format!("host-{number}"),
            parent: None,
            at,
        })
        .await;
        self.set_inventories(id).await;
        let traits = TRAITS.iter().filter(|_| self.rng.below(3) > 0);
        let traits: Vec<String> = traits.map(|name| (*name).to_owned()).collect();
        self.set_traits(id, traits).await;
        self.hosts.push(id);
        let report = HostReport {
            facts: HostFacts {
                names: HostNames {
                    service_host: format!("host-{number}"),
                    node: format!("host-{number}"),
                    cell: cell(cell_number).0,
                    ..HostNames::default()
                },
                ..HostFacts::default()
            },
            load: self.draw_load(id),
            metrics: self.draw_metrics(),
            ..HostReport::default()
        };
        self.say(id, HostUpdate::Full(Box::new(report)));
    }

    async fn set_inventories(&mut self, id: HostId) {
        let inventory = |total: usize| Inventory::new(i32::try_from(total).unwrap(), 1.0);
        let size = 1 + self.rng.below(4);
        let inventories = vec![
            ("VCPU".into(), inventory(8 * size)),
            (
                "MEMORY_MB".into(),
                inventory(8_192 * size + 512 * self.rng.below(5)),
            ),
            ("DISK_GB".into(), inventory(100 * size)),
        ];
        self.submit_to_placement(placement::Command::SetInventories {
            provider: id.0,
            generation: None,
            inventories,
            may_reserve_all: true,
            at: now(),
        })
        .await;
    }

    async fn set_traits(&mut self, id: HostId, traits: Vec<String>) {
        let generation = self.engine.read_now(|machine| {
            let provider = machine.placement().provider_by_uuid(id.0);
            provider.map(|provider| provider.generation)
        });
        self.submit_to_placement(placement::Command::SetTraits {
            provider: id.0,
            generation,
            traits,
            at: now(),
        })
        .await;
    }

    /// Divides the hosts anew among the zones.
    async fn set_zones(&mut self) {
        let mut of_zone = [Vec::new(), Vec::new()];
        for id in self.hosts.clone() {
            of_zone[self.rng.below(ZONES.len())].push(id);
        }
        for (number, (zone, hosts)) in (0u128..).zip(ZONES.into_iter().zip(of_zone)) {
            let metadata = BTreeMap::from([("availability_zone".to_owned(), zone.to_owned())]);
            let row = super_conductor::Aggregate {
                name: zone.into(),
                hosts,
                metadata,
                ..super_conductor::Aggregate::default()
            };
            self.submit(Command::SetAggregate {
                aggregate: Uuid::from_u128(0x2020 + number),
                row: Some(row),
            })
            .await;
        }
        self.until("the scheduler knows the zones", |live| {
            let scheduler = live.runtime.scheduler();
            scheduler.read_hosts(|hosts| hosts.aggregates().iter().count() == ZONES.len())
        })
        .await;
    }

    async fn add_group(&mut self, uuid: Uuid) {
        let policy = POLICIES[self.rng.below(POLICIES.len())];
        let rules = match policy {
            "anti-affinity" => vec![Rule {
                scope: RuleScope::Host,
                relation: Relation::FewerThan(1),
            }],
            _ => Vec::new(),
        };
        let row = ServerGroup {
            name: "g".into(),
            project: "p".into(),
            user: "u".into(),
            policy: policy.into(),
            max_server_per_host: None,
            rules,
            members: Vec::new(),
        };
        self.submit(Command::SetGroup {
            group: uuid,
            row: Some(row),
            topology: None,
        })
        .await;
        self.groups.push((uuid, policy));
    }

    /// Requests a build or a move, and waits until it is decided.
    pub(crate) async fn place(&mut self) {
        self.tries += 1;
        let reported = self
            .settled
            .iter()
            .position(|id| !self.unreported.contains_key(id));
        match reported.filter(|_| self.rng.one_in(6)) {
            Some(index) => {
                let instance = self.settled.remove(index);
                self.place_move(instance).await;
            }
            None => self.place_build().await,
        }
    }

    async fn place_build(&mut self) {
        let count = match self.rng.below(4) {
            0 => 2 + self.rng.below(3),
            _ => 1,
        };
        let first = self.next_instance;
        self.next_instance += count;
        let instances: Vec<InstanceId> = (first..first + count).map(instance).collect();
        let (group, body) = self.draw_request();
        let builds = instances.iter().map(|instance| NewBuild {
            instance: *instance,
            spec: Spec {
                group,
                body: body.as_str().into(),
                ..world::spec(now())
            },
        });
        self.note_request(instances.clone(), None).await;
        self.submit(Command::CreateBuilds {
            reservation: Uuid::from_u128(0xabcd_0000 + first as u128),
            builds: builds.collect(),
        })
        .await;
        self.until("the build is decided", |live| {
            live.engine.read_now(|machine| {
                let state = &machine.state.conductor;
                instances.iter().all(|instance| {
                    let mapping = &state.mappings()[instance];
                    !mapping.decisions.is_empty() || state.buried().contains_key(instance)
                })
            })
        })
        .await;
        for instance in instances {
            // The build is the first decision of an instance.
            self.note_placed(instance, 1, group);
            self.submit(Command::CreateAccepted {
                instance,
                claim_number: 0,
                is_built: false,
            })
            .await;
        }
    }

    async fn place_move(&mut self, instance: InstanceId) {
        let migration = MigrationId(Uuid::from_u128(0x3030_0000 + self.tries as u128));
        let group = self
            .engine
            .read_now(|machine| machine.state.conductor.specs()[&instance].group);
        self.submit(Command::StartMove {
            migration,
            instance,
            kind: MoveKind::ColdMigrate,
            spec: None,
        })
        .await;
        self.note_request(vec![instance], Some(migration)).await;
        self.submit(Command::MoveReserved { migration }).await;
        self.until("the move is decided", |live| {
            live.engine.read_now(|machine| {
                let row = &machine.state.conductor.migrations()[&migration];
                row.target.is_some() || row.fault.is_some()
            })
        })
        .await;
        // The build was the first decision of the instance, so the move is the second one.
        self.note_placed(instance, 2, group);
    }

    async fn note_request(&mut self, instances: Vec<InstanceId>, migration: Option<MigrationId>) {
        // The scheduler learns of the outcome of a claim after the state has it.
        self.until("the scheduler knows the last outcome", |live| {
            let known = live.runtime.scheduler().contention();
            known.host_count() == live.contention.host_count()
        })
        .await;
        self.requests.push(Request {
            instances,
            migration,
            host_update_count: self.host_updates.len(),
            contention: self.contention,
            unreported: self.unreported.values().cloned().collect(),
        });
    }

    /// Notes the host of an instance that has this number of decisions, if it got one.
    fn note_placed(&mut self, instance: InstanceId, decisions: usize, group: Option<Uuid>) {
        let host = self.engine.read_now(|machine| {
            let mapping = &machine.state.conductor.mappings()[&instance];
            let is_decided = mapping.decisions.len() == decisions;
            let decision = mapping.decisions.last().filter(|_| is_decided)?;
            Some((decision.host, decision.fallen_count as usize))
        });
        let Some((host, fallen)) = host else {
            return;
        };
        self.contention.record(fallen);
        self.placed += 1;
        let report = InstanceReport {
            uuid: instance.0,
            group,
            ..InstanceReport::default()
        };
        if decisions == 1 {
            self.settled.push(instance);
        }
        self.unreported.insert(instance, (host, report));
    }

    /// Reads the whole journal, and returns all that decisions are made again from.
    pub(crate) async fn end(self) -> Past {
        let end = self.engine.durable_sequence();
        let mut follower = self.engine.follow(0).unwrap();
        let mut entries = Vec::new();
        while entries.len() < usize::try_from(end).unwrap() {
            let batch = follower.next_entries().await.unwrap().unwrap();
            for (sequence, record) in batch.iter() {
                assert_eq!(sequence, entries.len() as u64 + 1);
                entries.push(ControlMachine::decode(record).unwrap());
            }
        }
        Past {
            config: self.config,
            end: self.engine.read_now(|machine| machine.state.clone()),
            entries,
            host_updates: self.host_updates,
            requests: self.requests,
        }
    }

    /// Passes an update of a host to the scheduler, as if the host's agent had sent it, and records the update.
    fn say(&mut self, id: HostId, update: HostUpdate) {
        let scheduler = self.runtime.scheduler();
        scheduler.change_hosts(|hosts| hosts.apply(id.0, now(), &update));
        self.host_updates.push((id, update));
    }

    async fn submit(&self, command: Command) {
        let control = self.runtime.control();
        control.submit(command).await.unwrap().unwrap();
    }

    async fn submit_to_placement(&self, command: placement::Command) {
        let answer = submit_placement(&self.engine, command).await;
        // An inventory may be too small for what is claimed of it.
        drop(answer.unwrap());
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..POLLS_MAX {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("the condition never held: {what}");
    }
}
