//! The simulated hosts of `placewright up`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use placewright_agent::simulated::{self, DurationDistribution, IdenticalHosts, SimulatedDriver};
use placewright_agent::{Driver, HostDescription, Operation};

use crate::config::ConfigErrors;

/// The simulation's hosts and options, before the hosts are distributed over the cells.
pub(super) struct Simulation {
    pub(super) hosts: Vec<HostDescription>,
    /// How long each simulated operation takes.
    times: BTreeMap<Operation, DurationDistribution>,
    /// How often each simulated operation fails, from 0 to 1.
    failure_rates: BTreeMap<Operation, f64>,
}

/// A simulation of identical hosts, or of the machines of a trace.
///
/// # Errors
///
/// An option is not valid, or the file cannot be read.
pub(super) fn simulation(
    count: u32,
    nodes: Option<&Path>,
    build_ms: &str,
    fail_percent: u8,
) -> anyhow::Result<Simulation> {
    let config_error = |what: String| ConfigErrors(vec![what]);
    let hosts = match nodes {
        Some(file) => {
            let nodes = placewright_trace::nodes::read(file);
            let nodes = nodes.map_err(|error| config_error(format!("--nodes: {error}")))?;
            simulated::hosts_of_trace(&nodes)
        }
        None => IdenticalHosts {
            count,
            prefix: "host-".to_owned(),
            vcpus: 32,
            cpu_ratio: 4.0,
            memory_mb: 131_072,
            disk_gb: 2_000,
            gpus: 0,
            gpu_model: None,
        }
        .hosts(),
    };
    let build_time: DurationDistribution =
        build_ms
            .parse()
            .map_err(|error: simulated::BadDistribution| {
                config_error(format!("--build-ms: {error}"))
            })?;
    let failure_rate = f64::from(fail_percent) / 100.0;
    Ok(Simulation {
        hosts,
        times: BTreeMap::from([(Operation::Spawn, build_time)]),
        failure_rates: BTreeMap::from([(Operation::Spawn, failure_rate)]),
    })
}

impl Simulation {
    /// The driver of one cell's part of the hosts; `None` if the part has no hosts. Parts are counted from 0.
    pub(super) fn driver(&self, part: usize, parts: usize) -> Option<Arc<dyn Driver>> {
        let hosts = simulated::shard(self.hosts.clone(), part, parts);
        if hosts.is_empty() {
            return None;
        }
        let options = simulated::Options {
            hosts,
            times: self.times.clone(),
            failure_rates: self.failure_rates.clone(),
            seed: u64::try_from(part).unwrap_or(0) + 1,
        };
        Some(Arc::new(SimulatedDriver::new(options)))
    }
}
