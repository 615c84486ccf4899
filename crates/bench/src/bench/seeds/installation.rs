//! An installation in this process, without sockets: control with its compute API, cells whose link can be cut, and
//! agents with simulated hosts. Its journals are in memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use placewright_agent::simulated::{self, IdenticalHosts, SimulatedDriver};
use placewright_agent::{Agent, Operation};
use placewright_api_compute::{ComputeOptions, ComputeService};
use placewright_cell::Cell;
use placewright_conductor::cell_conductor::VmState;
use placewright_conductor::{CellId, InstanceId};
use placewright_control::{
    CellConfig, ControlHandle, ControlMachine, Options, Runtime, SchedulerHandle, now,
};
use placewright_engine::Engine;
use placewright_journal::MemoryJournal;
use placewright_placement::{Command, Inventory};
use placewright_roles::in_process;
use placewright_scheduler::config::SchedulerConfig;
use serde_json::{Value, json};
use uuid::Uuid;

use super::cell_switch::CellSwitch;
use crate::bench::in_process::{create_provider, new_scheduler, set_inventories, submit_all};

/// The size of an installation, and how it behaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct InstallationSetup {
    pub(super) cells: u32,
    pub(super) hosts: u32,
    /// The alternates of each build.
    pub(super) alternates: usize,
    /// How many percent of the builds fail, at random.
    pub(super) fail_percent: u8,
}

/// A running installation.
pub(super) struct Installation {
    engine: Engine<ControlMachine>,
    control: ControlHandle,
    runtime: Arc<Runtime>,
    service: Arc<ComputeService>,
    cells: Vec<Arc<Cell>>,
    /// The links from control to the cells.
    pub(super) switches: Vec<Arc<CellSwitch>>,
    agents: Vec<Agent>,
}

/// The numbers of servers whose builds have ended, by their result.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Settled {
    pub(super) active: usize,
    pub(super) failed: usize,
}

/// The flavor of all servers.
const FLAVOR: &str = "seeds";
/// An image of which no properties are known.
const IMAGE: &str = "70ace000-0000-4000-8000-000000000001";
/// The number of servers that fit on a host. It is so large that no server fails because of missing room.
const ROOM: u32 = 4_096;
/// A cell counts as down after this time.
pub(super) const CELL_DOWN_AFTER: Duration = Duration::from_secs(2);
/// The longest wait for hosts or servers.
const WAIT_MAX: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The requests that are under way at a time.
const REQUESTS_AT_ONCE: usize = 32;

impl Installation {
    /// Starts an installation, and waits until all hosts can be used.
    ///
    /// # Errors
    ///
    /// A part does not start.
    pub(super) async fn start(setup: InstallationSetup) -> anyhow::Result<Self> {
        let engine: Engine<ControlMachine> = Engine::open(
            MemoryJournal::new(),
            placewright_engine::Options::default(),
            (),
        )?;
        submit_all(&engine, [Command::SyncStandardNames { at: now() }]).await?;
        let scheduler = new_scheduler(SchedulerConfig::default())?;
        let options = Options {
            alternates: setup.alternates,
            cell_down_after: CELL_DOWN_AFTER,
            ..Options::default()
        };
        let control = ControlHandle::new(engine.clone(), options);
        let runtime = Runtime::start(
            control.clone(),
            SchedulerHandle::new(engine.clone(), scheduler),
        )?;
        let service =
            ComputeService::new(in_process::gateway()?, &runtime, ComputeOptions::default());
        let mut installation = Self {
            engine,
            control,
            runtime,
            service: Arc::new(service),
            cells: Vec::new(),
            switches: Vec::new(),
            agents: Vec::new(),
        };
        for number in 0..setup.cells {
            installation.add_cell(number, setup).await?;
        }
        installation.wait_for_hosts(setup.hosts as usize).await?;
        let flavor = json!({"flavor": {
            "id": FLAVOR, "name": FLAVOR, "ram": 512, "vcpus": 1, "disk": 1,
        }});
        installation.send("POST", "/flavors", Some(flavor)).await?;
        Ok(installation)
    }

    async fn add_cell(&mut self, number: u32, setup: InstallationSetup) -> anyhow::Result<()> {
        let id = CellId(Uuid::from_u128(u128::from(number) + 1));
        // If the division leaves a remainder, the first cells get one host more.
        let count = setup.hosts / setup.cells + u32::from(number < setup.hosts % setup.cells);
        let identical_hosts = IdenticalHosts {
            count,
            prefix: format!("cell{number}-"),
            vcpus: ROOM,
            cpu_ratio: 1.0,
            memory_mb: ROOM * 512,
            disk_gb: ROOM,
            gpus: 0,
            gpu_model: None,
        };
        let hosts = identical_hosts.hosts();
        let at = now();
        let create_commands = hosts
            .iter()
            .map(|host| create_provider(host.id().0, host.name.clone(), None, at));
        submit_all(&self.engine, create_commands).await?;
        let inventory_commands = hosts.iter().map(|host| {
            let inventories = host.inventories.iter();
            let inventories = inventories
                .map(|(class, inventory)| (class.clone(), Inventory::new(inventory.total, 1.0)));
            set_inventories(host.id().0, inventories, at)
        });
        submit_all(&self.engine, inventory_commands).await?;
        let placement = Arc::new(self.control.clone());
        let options = placewright_cell::Options::new(id);
        let cell = Cell::open_on(MemoryJournal::new(), options, (), placement).await?;
        let switch = Arc::new(CellSwitch::new(Arc::clone(&cell)));
        let config = CellConfig {
            cell: id,
            name: format!("cell{number}"),
            link: Arc::clone(&switch) as _,
        };
        self.runtime.add_cell(config).await?;
        let driver = SimulatedDriver::new(simulated::Options {
            hosts,
            times: Default::default(),
            failure_rates: [(Operation::Spawn, f64::from(setup.fail_percent) / 100.0)].into(),
            seed: u64::from(number),
        });
        // The simulated hosts do not change, so the driver need not be asked for them again.
        let agent_options = placewright_agent::Options {
            inspect_interval: Duration::ZERO,
            ..placewright_agent::Options::default()
        };
        let link = Arc::clone(&cell) as _;
        self.agents
            .push(Agent::start(agent_options, Arc::new(driver), link).await?);
        self.cells.push(cell);
        self.switches.push(switch);
        Ok(())
    }

    async fn wait_for_hosts(&self, hosts: usize) -> anyhow::Result<()> {
        let start = Instant::now();
        while self.runtime.host_count() < hosts {
            ensure!(
                start.elapsed() < WAIT_MAX,
                "not all of {hosts} hosts are usable"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Creates servers, one with each request, and returns their ids.
    ///
    /// # Errors
    ///
    /// A request is refused.
    pub(super) async fn create(
        self: &Arc<Self>,
        count: usize,
    ) -> anyhow::Result<BTreeSet<InstanceId>> {
        let mut running = tokio::task::JoinSet::new();
        // Each lane sends its requests one after the other.
        for lane in 0..REQUESTS_AT_ONCE.min(count) {
            let installation = Arc::clone(self);
            let request_count = (count - lane).div_ceil(REQUESTS_AT_ONCE.min(count));
            running.spawn(async move {
                let mut created = Vec::with_capacity(request_count);
                for _ in 0..request_count {
                    let body = json!({"server": {
                        "name": "seeds", "flavorRef": FLAVOR, "imageRef": IMAGE, "networks": "none",
                    }});
                    let answer = installation.send("POST", "/servers", Some(body)).await?;
                    let id = answer["server"]["id"].as_str().unwrap_or_default();
                    created.push(InstanceId(id.parse()?));
                }
                anyhow::Ok(created)
            });
        }
        let mut created = BTreeSet::new();
        while let Some(created_by_lane) = running.join_next().await {
            created.extend(created_by_lane??);
        }
        Ok(created)
    }

    /// Waits until servers are active or have failed.
    ///
    /// # Errors
    ///
    /// Some of them are neither for too long.
    pub(super) async fn wait_until_settled(
        &self,
        servers: &BTreeSet<InstanceId>,
    ) -> anyhow::Result<Settled> {
        let start = Instant::now();
        loop {
            let settled = self.settled(servers).await;
            if settled.active + settled.failed == servers.len() {
                return Ok(settled);
            }
            if start.elapsed() > WAIT_MAX {
                bail!(
                    "of {} servers only these have settled: {settled:?}",
                    servers.len()
                );
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Counts those of the servers whose builds have ended.
    async fn settled(&self, servers: &BTreeSet<InstanceId>) -> Settled {
        self.control
            .read(|control, views| {
                let mut settled = Settled::default();
                for server in servers {
                    let mapping = control.conductor.mappings().get(server);
                    let cell = mapping.and_then(|mapping| mapping.cell);
                    let view = cell.and_then(|cell| views.instance(cell, *server));
                    match view
                        .filter(|view| view.job.is_none())
                        .map(|view| view.vm_state)
                    {
                        Some(VmState::Active) => settled.active += 1,
                        Some(VmState::Error) => settled.failed += 1,
                        _ => {}
                    }
                }
                settled
            })
            .await
    }

    /// Sends a request to the compute API as an administrator, and returns the body of the response.
    ///
    /// # Errors
    ///
    /// The response is not a success.
    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<Value> {
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = Request::builder()
            .method(method)
            .uri(format!("/v2.1{path}"))
            .header("host", "localhost")
            .header("x-auth-token", "admin")
            .header("openstack-api-version", "compute 2.96")
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        // The request did not come over a connection.
        let remote_address = None;
        let response = placewright_http::handle(&self.service, request, remote_address).await;
        let status = response.status();
        let body = response.into_body().collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
        ensure!(
            status.is_success(),
            "{method} {path}: status {status}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// Ends all parts.
    ///
    /// # Errors
    ///
    /// Something still uses the installation, or a thread panicked.
    pub(super) async fn stop(self: Arc<Self>) -> anyhow::Result<()> {
        let Ok(installation) = Arc::try_unwrap(self) else {
            bail!("requests are under way");
        };
        for agent in installation.agents {
            agent.stop().await;
        }
        installation.runtime.shutdown().await;
        for cell in installation.cells {
            cell.shutdown().await;
        }
        let engine = installation.engine;
        Ok(tokio::task::spawn_blocking(move || engine.shutdown()).await?)
    }
}
