//! Hosts that a benchmark loads over HTTP: their rows in placement, their host states, and the share of each that is
//! allocated at the start.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use super::phase::{Phase, WarmUp, run_phase};
use super::phase_results::PhaseResults;
use super::requests::{RandomNumbers, RequestBase};

/// The number of cells among which the hosts are distributed.
const CELLS: u64 = 4;
/// The seeds of random numbers, one for each purpose.
const HOST_SEED: u64 = 3;
const CELL_SEED: u64 = !HOST_SEED;

/// The results of the three phases that load the hosts.
pub(super) struct HostLoadResults {
    pub(super) load: PhaseResults,
    pub(super) states: PhaseResults,
    pub(super) fill: PhaseResults,
}

impl HostLoadResults {
    /// The number of requests that failed.
    pub(super) fn failed(&self) -> u64 {
        self.load.failed + self.states.failed + self.fill.failed
    }

    /// Checks that all requests succeeded.
    ///
    /// # Errors
    ///
    /// A request failed; the error has its response.
    pub(super) fn ensure_complete(&self) -> anyhow::Result<()> {
        for phase in [&self.load, &self.states, &self.fill] {
            let error = phase.first_error.as_deref().unwrap_or("no answer");
            anyhow::ensure!(phase.failed == 0, "hosts could not be loaded: {error}");
        }
        Ok(())
    }
}

/// Loads `hosts` hosts of three sizes, each of which is 55 to 74 percent full.
pub(super) async fn load_hosts(
    placement: SocketAddr,
    scheduler: SocketAddr,
    hosts: u64,
    connections: usize,
) -> HostLoadResults {
    let host_phase = |name, steps, write: Box<WriteHost>| Phase {
        name,
        units: hosts,
        steps,
        warm_up: WarmUp::same_request(request_base().version_request()),
        time_max: Duration::MAX,
        write: Box::new(move |unit, step, output, body| {
            body.clear();
            write(&Host::new(unit), step, output, body);
        }),
    };
    let load = host_phase("load", 3, host_requests());
    let states = host_phase("host states", 1, state_requests());
    let fill = host_phase("fill", 1, claim_requests());
    HostLoadResults {
        load: run_phase(placement, connections, load).await,
        states: run_phase(scheduler, connections, states).await,
        fill: run_phase(placement, connections, fill).await,
    }
}

/// Writes request number `step` for a host into the first buffer. The second buffer is empty, for the
/// body.
type WriteHost = dyn Fn(&Host, u8, &mut String, &mut String) + Send + Sync;

/// A host of the fleet; all its properties are derived from its number.
pub(super) struct Host {
    number: u64,
    pub(super) uuid: uuid::Uuid,
    cpus: u64,
    /// How much of the host's resources is allocated at the start, in percent.
    pub(super) allocated_percent: u64,
    /// The consumer that holds these allocations.
    pub(super) consumer: uuid::Uuid,
}

impl Host {
    pub(super) fn new(number: u64) -> Self {
        let mut random = RandomNumbers::new(HOST_SEED, number);
        let uuid = random.uuid();
        let cpus = [32, 64, 128][usize::try_from(random.next() % 3).unwrap_or(0)];
        let allocated_percent = 55 + random.next() % 20;
        let consumer = random.uuid();
        Self {
            number,
            uuid,
            cpus,
            allocated_percent,
            consumer,
        }
    }

    /// The amounts of an allocation that takes `percent` percent of each resource of the host.
    pub(super) fn resources_json(&self, percent: u64) -> String {
        // The capacities that follow from the inventories in [`host_requests`].
        let part_of = |capacity: u64| capacity * percent / 100;
        format!(
            "{{\"VCPU\":{},\"MEMORY_MB\":{},\"DISK_GB\":{}}}",
            part_of(self.cpus * 4),
            part_of(self.cpus * 4096 - 512),
            part_of(self.cpus * 40),
        )
    }
}

/// The headers of requests to placement and to the scheduler. They identify an administrator.
pub(super) fn request_base() -> RequestBase {
    RequestBase {
        prefix: String::new(),
        headers: "Host: 127.0.0.1\r\nAccept: application/json\r\n\
             OpenStack-API-Version: placement 1.39\r\nX-Auth-Token: admin\r\n"
            .to_owned(),
    }
}

/// Requests that create a host: its provider, inventories and traits.
fn host_requests() -> Box<WriteHost> {
    let base = request_base();
    Box::new(move |host, step, output, body| {
        let Host {
            number, uuid, cpus, ..
        } = host;
        let (method, path) = match step {
            0 => {
                let _ = write!(body, "{{\"name\":\"bench-{number}\",\"uuid\":\"{uuid}\"}}");
                ("POST", "/resource_providers".to_owned())
            }
            1 => {
                let (memory, disk) = (cpus * 4096, cpus * 40);
                let _ = write!(
                    body,
                    "{{\"resource_provider_generation\":0,\"inventories\":{{\
                     \"VCPU\":{{\"total\":{cpus},\"allocation_ratio\":4.0}},\
                     \"MEMORY_MB\":{{\"total\":{memory},\"reserved\":512}},\
                     \"DISK_GB\":{{\"total\":{disk}}}}}}}"
                );
                ("PUT", format!("/resource_providers/{uuid}/inventories"))
            }
            _ => {
                body.push_str(
                    "{\"resource_provider_generation\":1,\
                     \"traits\":[\"COMPUTE_NODE\",\"HW_CPU_X86_AVX2\"]}",
                );
                ("PUT", format!("/resource_providers/{uuid}/traits"))
            }
        };
        base.write(output, method, &path, body);
    })
}

/// Requests that report the soft state of hosts.
fn state_requests() -> Box<WriteHost> {
    let base = request_base();
    Box::new(move |host, _, output, body| {
        let number = host.number;
        let cell = RandomNumbers::new(CELL_SEED, number % CELLS).uuid();
        let _ = write!(
            body,
            "{{\"incarnation\":1,\"sequence\":1,\"update\":{{\"full\":{{\"facts\":{{\"names\":\
             {{\"service_host\":\"host-{number}\",\"node\":\"node-{number}\",\"cell\":\"{cell}\"}}}}}}}}}}"
        );
        base.write(
            output,
            "POST",
            &format!("/v1/hosts/{}/state", host.uuid),
            body,
        );
    })
}

/// Requests that claim the initial share of each host for one consumer.
fn claim_requests() -> Box<WriteHost> {
    let base = request_base();
    Box::new(move |host, _, output, body| {
        let _ = write!(
            body,
            "{{\"allocations\":{{\"{}\":{{\"resources\":{}}}}},\
             \"consumer_generation\":null,\"consumer_type\":\"INSTANCE\",\
             \"project_id\":\"bench-project\",\"user_id\":\"bench-user\"}}",
            host.uuid,
            host.resources_json(host.allocated_percent),
        );
        base.write(
            output,
            "PUT",
            &format!("/allocations/{}", host.consumer),
            body,
        );
    })
}
