//! An installation in memory whose control runs as several replicas on one journal.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use placewright_cell::Cell;
use placewright_conductor::super_conductor::{Command, NewBuild};
use placewright_conductor::{ClaimRequest, ClaimResponse, HostId, InstanceId, Spec};
use placewright_control::{
    CellConfig, ControlHandle, ControlMachine, Runtime, SchedulerHandle, now, submit_placement,
};
use placewright_engine::{Engine, SubmitError};
use placewright_journal::{Fault, Faults, Faulty, Journal, MemoryJournal, Operation};
use placewright_link::{AgentLink, LinkError, LinkFuture, PlacementLink};
use placewright_placement as placement;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{Fleet, POLL_INTERVAL, POLLS_MAX, abort_and_join, cell, host, instance, options};
use crate::agents;
use crate::replicas::Network;
use crate::world::agent::Agent;
use crate::world::{self, World};

/// One replica of control.
pub struct ControlReplica {
    /// Identifies the replica in the network, and in the ids of its commands.
    pub origin: u64,
    pub engine: Engine<ControlMachine>,
    pub conductor: ControlHandle,
    pub runtime: Arc<Runtime>,
    faults: Faults,
}

/// Replicas of control that are started and killed, with cells and agents that stay.
pub struct ReplicatedSite {
    pub network: Network<ControlMachine>,
    pub replicas: Vec<ControlReplica>,
    pub cells: Vec<Arc<Cell>>,
    pub fleet: Arc<Mutex<Fleet>>,
    journal: MemoryJournal,
    /// The replicas that cells reach.
    reachable: Arc<ReachableReplicas>,
    agents: Vec<JoinHandle<()>>,
    next_origin: u64,
}

/// The link of cells to control. Each call goes to one of the running replicas.
#[derive(Default)]
struct ReachableReplicas {
    replicas: RwLock<Vec<(u64, ControlHandle)>>,
}

impl PlacementLink for ReachableReplicas {
    fn request_claims(&self, requests: Vec<ClaimRequest>) -> LinkFuture<'_, Vec<ClaimResponse>> {
        let replicas = self.replicas.read();
        // The first instance of the requests determines which replica gets them.
        let first = requests
            .first()
            .map_or(0, |request| request.instance.0.as_u128());
        let index = usize::try_from(first % replicas.len().max(1) as u128).unwrap();
        let replica = replicas.get(index).map(|(_, handle)| handle.clone());
        Box::pin(async move {
            match replica {
                Some(replica) => replica.request_claims(requests).await,
                None => Err(LinkError::Unreachable {
                    peer: "control".into(),
                    why: "no replica runs".into(),
                }),
            }
        })
    }
}

impl ReplicatedSite {
    /// Starts `replicas` replicas, and `cells` cells with `hosts` hosts of 16 CPUs each.
    pub async fn start(replicas: u64, cells: u32, hosts: u32) -> Self {
        let mut site = Self {
            network: Network::default(),
            replicas: Vec::new(),
            cells: Vec::new(),
            fleet: Arc::default(),
            journal: MemoryJournal::new(),
            reachable: Arc::default(),
            agents: Vec::new(),
            next_origin: 1,
        };
        for number in 0..cells {
            for host_number in 0..hosts {
                let id = host(number, host_number);
                site.fleet.lock().agents.insert(id, Agent::new(id));
            }
            let options = placewright_cell::Options {
                host_timeout: Duration::from_secs(2),
                resend_after: Duration::from_millis(300),
                resend_max: Duration::from_secs(1),
                ..placewright_cell::Options::new(cell(number))
            };
            let placement = Arc::clone(&site.reachable);
            let opened = Cell::open_on(MemoryJournal::new(), options, (), placement).await;
            let opened = opened.unwrap();
            let link: Arc<dyn AgentLink> = Arc::clone(&opened) as _;
            let ids = (0..hosts)
                .map(|host_number| host(number, host_number))
                .collect();
            let running = tokio::spawn(agents::run(link, ids, Arc::clone(&site.fleet)));
            site.agents.push(running);
            site.cells.push(opened);
        }
        for _ in 0..replicas {
            site.add_replica().await;
        }
        let ids: Vec<HostId> = site.fleet.lock().agents.keys().copied().collect();
        for id in &ids {
            site.create_host(id.0).await;
        }
        let host_count = ids.len();
        site.until("all hosts are usable", |replica| {
            let usable = replica.runtime.host_count();
            usable == host_count
        })
        .await;
        site
    }

    /// Starts one more replica.
    pub async fn add_replica(&mut self) {
        let origin = self.next_origin;
        self.next_origin += 1;
        let faults = Faults::new();
        let journal = Faulty::new(self.journal.try_clone().unwrap(), faults.clone());
        let engine_options = placewright_engine::Options::default();
        let network_options = self.network.options(origin);
        let engine = Engine::open_replica(journal, engine_options, (), network_options).unwrap();
        self.network.join(origin, engine.replica());
        let names = placement::Command::SyncStandardNames { at: now() };
        submit_placement(&engine, names).await.unwrap().unwrap();
        let scheduler =
            Scheduler::new(SchedulerConfig::default(), PrepareOptions::default()).unwrap();
        let scheduler = SchedulerHandle::new(engine.clone(), scheduler);
        let conductor = ControlHandle::new(engine.clone(), options());
        let runtime = Runtime::start(conductor.clone(), scheduler).unwrap();
        for (number, link) in self.cells.iter().enumerate() {
            let number = u32::try_from(number).unwrap();
            let config = CellConfig {
                cell: cell(number),
                name: format!("cell{number}"),
                link: Arc::clone(link) as _,
            };
            runtime.add_cell(config).await.unwrap();
        }
        (self.reachable.replicas.write()).push((origin, conductor.clone()));
        self.replicas.push(ControlReplica {
            origin,
            engine,
            conductor,
            runtime,
            faults,
        });
    }

    /// Kills a replica: it is cut off from the other replicas and from the store, and cells do not call it any more.
    /// Then its tasks are stopped.
    pub async fn kill(&mut self, index: usize) {
        let killed = self.replicas.remove(index);
        self.network.leave(killed.origin);
        (self.reachable.replicas.write()).retain(|(origin, _)| *origin != killed.origin);
        // From now on every call of the journal fails.
        for operation in [Operation::Append, Operation::Read, Operation::DurableEnd] {
            killed.faults.fail(operation, 0, u64::MAX, Fault::Io);
        }
        killed.runtime.shutdown().await;
        let engine = killed.engine.clone();
        tokio::task::spawn_blocking(move || engine.shutdown())
            .await
            .unwrap();
    }

    /// The index of the replica that leads; `None` if no running replica leads.
    pub fn leader(&self) -> Option<usize> {
        self.replicas
            .iter()
            .position(|replica| replica.engine.leads())
    }

    async fn create_host(&self, uuid: Uuid) {
        let (engine, at) = (&self.replicas[0].engine, now());
        let create = placement::Command::CreateProvider {
            uuid,
            name: uuid.to_string(),
            parent: None,
            at,
        };
        submit_placement(engine, create).await.unwrap().unwrap();
        let inventory = |total| placement::Inventory::new(total, 1.0);
        let set = placement::Command::SetInventories {
            provider: uuid,
            generation: None,
            inventories: vec![
                ("VCPU".into(), inventory(16)),
                ("MEMORY_MB".into(), inventory(65_536)),
                ("DISK_GB".into(), inventory(1_000)),
            ],
            may_reserve_all: true,
            at,
        };
        submit_placement(engine, set).await.unwrap().unwrap();
    }

    /// Waits until a condition holds at every replica.
    pub async fn until(&self, what: &str, holds: impl Fn(&ControlReplica) -> bool) {
        for _ in 0..POLLS_MAX {
            if self.replicas.iter().all(&holds) {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        panic!("the condition never held: {what}");
    }

    /// Waits until nothing is under way, and checks that nothing is lost or left over.
    pub async fn wait_until_at_rest(&self) -> World {
        for _ in 0..POLLS_MAX {
            let world = self.world().await;
            if world.is_at_rest() {
                // An agent's last message may be under way.
                tokio::time::sleep(Duration::from_millis(50)).await;
                let world = self.world().await;
                if world.is_at_rest() {
                    world.check_at_rest();
                    return world;
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let world = self.world().await;
        let leaderships: Vec<_> = (self.replicas.iter())
            .map(|replica| (replica.origin, replica.engine.leadership()))
            .map(|(origin, watch)| (origin, watch.map(|watch| watch.borrow().clone())))
            .collect();
        panic!(
            "never at rest: {:#?}, by replicas with {leaderships:#?}",
            world.under_way()
        );
    }

    /// A world with copies of the present states of control, the cells and the agents, for its checks.
    async fn world(&self) -> World {
        // Empty at first: the states of this site are filled in below.
        let mut world = World::new(0, 0, 0);
        world.at = now();
        let replica = &self.replicas[0];
        replica.engine.confirm().await.unwrap();
        world.control = replica.conductor.read(|control, _| control.clone()).await;
        for cell in &self.cells {
            let state = cell.engine().read(|machine| machine.state.clone()).await;
            world.cells.insert(cell.id(), state);
        }
        world.agents = self.fleet.lock().agents.clone();
        world
    }

    pub async fn shutdown(mut self) {
        for agents in std::mem::take(&mut self.agents) {
            abort_and_join(agents).await;
        }
        while !self.replicas.is_empty() {
            self.kill(0).await;
        }
        for cell in &self.cells {
            cell.shutdown().await;
        }
    }
}

impl ControlReplica {
    /// Requests instances of one CPU each, in one reservation. After an error they may have been requested or not.
    pub async fn create(&self, numbers: std::ops::Range<usize>) -> Result<(), SubmitError> {
        let reservation = Uuid::from_u128(0xabcd_0000 + numbers.start as u128);
        let body = r#"{"request": {"flavor": {"vcpus": 1, "memory_mb": 512, "root_gb": 1}}}"#;
        let builds = numbers.map(|number| NewBuild {
            instance: instance(number),
            spec: Spec {
                body: body.into(),
                ..world::spec(now())
            },
        });
        let builds = builds.collect();
        let command = Command::CreateBuilds {
            reservation,
            builds,
        };
        self.conductor.submit(command).await?.unwrap();
        Ok(())
    }

    /// Deletes an instance, if it is there.
    pub async fn delete(&self, instance: InstanceId) {
        // Whether the instance existed, and whether it was deleted, shows when the site is at rest.
        let _ = self.conductor.submit(Command::Delete { instance }).await;
    }
}
