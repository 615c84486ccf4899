//! A whole installation in memory: control's engine, scheduler and runtime, real cells, and agents
//! that follow the protocol.

pub mod replicated;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use placewright_cell::Cell;
use placewright_conductor::cell_conductor::{Effect, Event};
use placewright_conductor::super_conductor::{Command, NewBuild};
use placewright_conductor::{CellId, ControlState, HostId, Spec};
use placewright_control::{
    CellConfig, Clock, ControlHandle, ControlMachine, Options, Runtime, SchedulerHandle, Views,
    now, submit_placement,
};
use placewright_engine::Engine;
use placewright_journal::{Journal, MemoryJournal, SqliteJournal, SqliteOptions};
use placewright_link::{AgentLink, CellLink, SessionStart};
use placewright_placement::{self as placement, Inventory};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::host_state::{HostReport, HostUpdate, InstanceReport, NumberedUpdate};
use placewright_scheduler::host_table::HostTable;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::agents;
use crate::world::agent::Agent;
use crate::world::{self, World};
pub use crate::world::{cell, host, instance};

/// The agents of all hosts, which outlive a restart of the site.
#[derive(Default)]
pub struct Fleet {
    pub agents: BTreeMap<HostId, Agent>,
    /// The hosts on which all steps fail.
    pub failing: Vec<HostId>,
    /// The hosts whose agents ignore orders until their next session.
    pub ignoring_orders: Vec<HostId>,
}

/// A running installation with control, cells and agents.
pub struct Site {
    pub runtime: Arc<Runtime>,
    /// What control's APIs use: it takes commands and reads the state.
    pub conductor: ControlHandle,
    /// The time of day for control, which a test can advance.
    pub clock: Clock,
    pub cells: BTreeMap<CellId, Arc<Cell>>,
    pub fleet: Arc<Mutex<Fleet>>,
    /// For each cell the task that runs its agents.
    agents: BTreeMap<CellId, JoinHandle<()>>,
}

/// Where the stores of control and of the cells are.
#[derive(Clone, Copy)]
pub enum Stores<'a> {
    Memory,
    In(&'a Path),
}

/// How often a condition is tested, with [`POLL_INTERVAL`] in between, before a test fails.
const POLLS_MAX: usize = 1200;
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Control reports a job as stuck after this time.
pub const STUCK_AFTER: Duration = Duration::from_secs(3600);

/// The options of control in a site, with short time-outs.
#[must_use]
pub fn options() -> Options {
    Options {
        cell_down_after: Duration::from_secs(2),
        answer_timeout: Duration::from_secs(2),
        resend_min: Duration::from_millis(500),
        resend_max: Duration::from_secs(1),
        stuck_after: STUCK_AFTER,
        confirm_after: Duration::from_millis(300),
        ..Options::default()
    }
}

/// Opens control's engine on a journal. `()` is the observer that ignores all events of the engine.
fn engine_on(journal: impl Journal + 'static) -> Engine<ControlMachine> {
    Engine::open(journal, placewright_engine::Options::default(), ()).unwrap()
}

impl Site {
    /// Starts `cells` cells with `hosts` hosts of 16 CPUs each. The stores may have the data of an earlier site.
    pub async fn start(
        stores: Stores<'_>,
        cells: u32,
        hosts: u32,
        fleet: Arc<Mutex<Fleet>>,
    ) -> Self {
        Self::start_with(stores, (cells, hosts), fleet, options()).await
    }

    /// As [`Self::start`], with these options of control.
    pub async fn start_with(
        stores: Stores<'_>,
        (cells, hosts): (u32, u32),
        fleet: Arc<Mutex<Fleet>>,
        options: Options,
    ) -> Self {
        let engine = match stores {
            Stores::Memory => engine_on(MemoryJournal::new()),
            Stores::In(path) => {
                let options = SqliteOptions::default();
                engine_on(SqliteJournal::open(&path.join("control"), options).unwrap())
            }
        };
        let at = now();
        let names = placement::Command::SyncStandardNames { at };
        submit_placement(&engine, names).await.unwrap().unwrap();
        let scheduler =
            Scheduler::new(SchedulerConfig::default(), PrepareOptions::default()).unwrap();
        let scheduler = SchedulerHandle::new(engine.clone(), scheduler);
        let clock = Clock::movable();
        let conductor = ControlHandle::with_clock(engine.clone(), options, clock.clone());
        let runtime = Runtime::start(conductor.clone(), scheduler).unwrap();
        let mut site = Self {
            runtime,
            conductor,
            clock,
            cells: BTreeMap::new(),
            fleet,
            agents: BTreeMap::new(),
        };
        for number in 0..cells {
            for host_number in 0..hosts {
                site.ensure_host(&engine, host(number, host_number)).await;
            }
            site.open_cell(stores, number).await;
            site.start_agents(number, hosts);
        }
        site.until("all hosts are known", |_, views| {
            let hosts_up = |view: &placewright_control::CellView| {
                view.hosts.values().filter(|host| host.is_up).count() == hosts as usize
            };
            views.cells.len() == cells as usize && views.cells.values().all(hosts_up)
        })
        .await;
        site.wait_for_host_states((cells * hosts) as usize).await;
        site
    }

    /// Opens the cell with this number and connects it to control.
    pub async fn open_cell(&mut self, stores: Stores<'_>, number: u32) {
        let id = cell(number);
        let placement = Arc::new(self.conductor.clone());
        let options = placewright_cell::Options {
            host_timeout: Duration::from_secs(2),
            resend_after: Duration::from_millis(300),
            resend_max: Duration::from_secs(1),
            ..placewright_cell::Options::new(id)
        };
        let opened = match stores {
            Stores::Memory => Cell::open_on(MemoryJournal::new(), options, (), placement).await,
            Stores::In(path) => {
                let path = path.join(format!("cell{number}"));
                let store = SqliteOptions::default();
                Cell::open(&path, store, options, (), placement).await
            }
        };
        let opened = opened.unwrap();
        self.cells.insert(id, Arc::clone(&opened));
        self.add_cell(number, opened).await;
    }

    /// Lets control connect to the cell with this number over a link.
    pub async fn add_cell(&self, number: u32, link: Arc<dyn CellLink>) {
        let config = CellConfig {
            cell: cell(number),
            name: format!("cell{number}"),
            link,
        };
        self.runtime.add_cell(config).await.unwrap();
    }

    /// Starts the agents of the first `hosts` hosts of a cell.
    pub fn start_agents(&mut self, number: u32, hosts: u32) {
        let link: Arc<dyn AgentLink> = Arc::clone(&self.cells[&cell(number)]) as _;
        let hosts = (0..hosts).map(|host_number| host(number, host_number));
        let running = tokio::spawn(agents::run(link, hosts.collect(), Arc::clone(&self.fleet)));
        self.agents.insert(cell(number), running);
    }

    /// Stops the agents of a cell and waits for their end, so that a host never has two agents at once.
    pub async fn stop_agents(&mut self, number: u32) {
        abort_and_join(self.agents.remove(&cell(number)).unwrap()).await;
    }

    /// Adds a host to the fleet and to placement, unless it is there already.
    async fn ensure_host(&self, engine: &Engine<ControlMachine>, id: HostId) {
        self.fleet
            .lock()
            .agents
            .entry(id)
            .or_insert_with(|| Agent::new(id));
        let is_known = engine.read(|machine| machine.placement().provider_by_uuid(id.0).is_some());
        if is_known.await {
            return;
        }
        let at = now();
        let create = placement::Command::CreateProvider {
            uuid: id.0,
            name: id.to_string(),
            parent: None,
            at,
        };
        submit_placement(engine, create).await.unwrap().unwrap();
        let inventory = |total| Inventory::new(total, 1.0);
        let set = placement::Command::SetInventories {
            provider: id.0,
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

    /// Requests instances of `vcpus` CPUs each, in one reservation.
    pub async fn create(&self, numbers: std::ops::Range<usize>, vcpus: u32) {
        self.create_with(numbers, &format!(
            r#"{{"request": {{"flavor": {{"vcpus": {vcpus}, "memory_mb": 512, "root_gb": 1}}}}}}"#
        ))
        .await;
    }

    /// Requests instances whose specifications have this body, in one reservation.
    pub async fn create_with(&self, numbers: std::ops::Range<usize>, body: &str) {
        let reservation = Uuid::from_u128(0xabcd_0000 + numbers.start as u128);
        let builds = numbers.map(|number| NewBuild {
            instance: instance(number),
            spec: Spec {
                body: body.into(),
                ..world::spec(now())
            },
        });
        let command = Command::CreateBuilds {
            reservation,
            builds: builds.collect(),
        };
        self.conductor.submit(command).await.unwrap().unwrap();
    }

    /// Waits until a condition holds of control's state and the cells' reports.
    pub async fn until(
        &self,
        what: &str,
        holds: impl Fn(&ControlState, &Views) -> bool + Send + Copy,
    ) {
        for _ in 0..POLLS_MAX {
            if self.conductor.read(holds).await {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let state = self.conductor.read(|control, views| {
            format!(
                "{:#?}\n{:#?}\n{:#?}",
                control.conductor.builds(),
                control.conductor.moves(),
                views
            )
        });
        panic!("the condition never held: {what}\n{}", state.await);
    }

    /// Waits until the scheduler has the states of `hosts` hosts. A host's state arrives with the event that the
    /// host is up, or right after that.
    async fn wait_for_host_states(&self, hosts: usize) {
        let count = |table: &HostTable| {
            let known_hosts = table.slots().iter().filter_map(|slot| table.get(slot));
            known_hosts
                .filter(|host| !host.names.service_host.is_empty())
                .count()
        };
        for _ in 0..POLLS_MAX {
            if self.runtime.scheduler().read_hosts(count) == hosts {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        panic!("the scheduler never gets the states of all hosts");
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
        panic!("never at rest: {:#?}", world.under_way());
    }

    /// A world with copies of the present states of control, the cells and the agents, for its checks.
    async fn world(&self) -> World {
        // Empty at first: the states of this site are filled in below.
        let mut world = World::new(0, 0, 0);
        world.at = now();
        world.control = self.conductor.read(|control, _| control.clone()).await;
        for (id, cell) in &self.cells {
            let state = cell.engine().read(|machine| machine.state.clone()).await;
            world.cells.insert(*id, state);
        }
        world.agents = self.fleet.lock().agents.clone();
        world
    }

    pub async fn shutdown(&mut self) {
        for (_, agents) in std::mem::take(&mut self.agents) {
            abort_and_join(agents).await;
        }
        self.runtime.shutdown().await;
        for cell in self.cells.values() {
            cell.shutdown().await;
        }
        let engine = self.conductor.engine().clone();
        tokio::task::spawn_blocking(move || engine.shutdown())
            .await
            .unwrap();
    }
}

async fn abort_and_join(agents: JoinHandle<()>) {
    agents.abort();
    // An error means that the task was aborted.
    let _ = agents.await;
}

/// The report of a guest on a host.
pub fn guest(uuid: Uuid) -> InstanceReport {
    InstanceReport {
        uuid,
        ..InstanceReport::default()
    }
}

impl agents::Hosts for Mutex<Fleet> {
    fn with_agent<T>(&self, host: HostId, access: impl FnOnce(&mut Agent) -> T) -> T {
        access(self.lock().agents.get_mut(&host).unwrap())
    }

    fn carry_out(&self, host: HostId, effect: &Effect) -> Option<Event> {
        let mut fleet = self.lock();
        if matches!(effect, Effect::RequestStep { .. }) && fleet.ignoring_orders.contains(&host) {
            return None;
        }
        let fails = fleet.failing.contains(&host);
        fleet.agents.get_mut(&host)?.carry_out(effect, fails)
    }

    fn name(&self, host: HostId) -> String {
        format!("host-{host}")
    }

    fn report(&self, start: &SessionStart) -> Option<NumberedUpdate> {
        // With a new session the agent no longer ignores orders.
        self.lock()
            .ignoring_orders
            .retain(|host| *host != start.host);
        let mut report = HostReport {
            instances: start.guests.iter().map(|(id, _)| guest(id.0)).collect(),
            ..HostReport::default()
        };
        report.facts.names.service_host.clone_from(&start.name);
        report.facts.names.node.clone_from(&start.name);
        Some(NumberedUpdate {
            incarnation: start.session,
            sequence: 1,
            update: HostUpdate::Full(Box::new(report)),
        })
    }
}
