//! A driver that only simulates operations: they take a configured time, and fail at a configured
//! rate.
//!
//! It has no state, because the agent's guest log has the guests. Thousands of hosts need no more
//! memory than their descriptions.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::description::{HostDescription, Inventory, NestedProvider};
use crate::driver::{Driver, DriverError, DriverFuture, DriverRequest, ListedGuest, Operation};

/// The distribution of a duration, in milliseconds.
///
/// As text, `50` is always 50, `20-80` is uniform between the two, and `~50` is exponential with a
/// mean of 50.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DurationDistribution {
    /// Uniform from the first bound up to the second; always the first if they are equal.
    Uniform(u32, u32),
    /// Exponential with this mean.
    Exponential(u32),
}

impl DurationDistribution {
    /// The duration for a random number of at least 0 and less than 1.
    fn sample(self, random: f64) -> Duration {
        let ms = match self {
            Self::Uniform(least, most) => f64::from(least) + random * f64::from(most - least),
            Self::Exponential(mean) => -f64::from(mean) * (1.0 - random).ln(),
        };
        Duration::from_secs_f64(ms.clamp(0.0, f64::from(DURATION_MAX_MS)) / 1000.0)
    }
}

/// The maximum duration in milliseconds: an hour.
const DURATION_MAX_MS: u32 = 3_600_000;

impl FromStr for DurationDistribution {
    type Err = BadDistribution;

    fn from_str(text: &str) -> Result<Self, BadDistribution> {
        let number = |text: &str| {
            let number: Option<u32> = text.trim().parse().ok();
            number
                .filter(|ms| *ms <= DURATION_MAX_MS)
                .ok_or_else(|| BadDistribution(text.to_owned()))
        };
        if let Some(mean) = text.strip_prefix('~') {
            return Ok(Self::Exponential(number(mean)?));
        }
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let (least, most) = (number(least)?, number(most)?);
        if least > most {
            return Err(BadDistribution(text.to_owned()));
        }
        Ok(Self::Uniform(least, most))
    }
}

/// A text that cannot be parsed as a [`DurationDistribution`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadDistribution(String);

impl fmt::Display for BadDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no time in milliseconds: write 50, 20-80 or ~50, at most 3600000",
            self.0
        )
    }
}

impl std::error::Error for BadDistribution {}

/// Options of the driver.
#[derive(Clone, Debug)]
pub struct Options {
    /// The hosts to simulate.
    pub hosts: Vec<HostDescription>,
    /// The duration of each operation; 0 for operations without an entry.
    pub times: BTreeMap<Operation, DurationDistribution>,
    /// The rate at which each operation fails, from 0 to 1; 0 for operations without an entry.
    pub failure_rates: BTreeMap<Operation, f64>,
    /// The seed of the random numbers. The same seed gives the same numbers.
    pub seed: u64,
}

/// The driver that only simulates the work.
#[derive(Debug)]
pub struct SimulatedDriver {
    options: Options,
    random_state: AtomicU64,
}

impl SimulatedDriver {
    /// Creates a driver for the hosts of the options.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let random_state = AtomicU64::new(options.seed);
        Self {
            options,
            random_state,
        }
    }

    /// A random number of at least 0 and less than 1 (splitmix64).
    fn random(&self) -> f64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self
            .random_state
            .fetch_add(STEP, Ordering::Relaxed)
            .wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        #[expect(clippy::cast_precision_loss, reason = "53 bits are left, exactly")]
        let number = (z >> 11) as f64;
        // 2 to the power of 53.
        number / 9_007_199_254_740_992.0
    }
}

impl Driver for SimulatedDriver {
    fn inspect(&self) -> DriverFuture<'_, Vec<HostDescription>> {
        Box::pin(async { Ok(self.options.hosts.clone()) })
    }

    fn list(&self) -> DriverFuture<'_, Option<Vec<ListedGuest>>> {
        // This driver has no state, so only the agent's guest log says which guests there are.
        Box::pin(async { Ok(None) })
    }

    fn carry_out(&self, request: DriverRequest) -> DriverFuture<'_, ()> {
        Box::pin(async move {
            if let Some(distribution) = self.options.times.get(&request.operation) {
                let time = distribution.sample(self.random());
                if !time.is_zero() {
                    tokio::time::sleep(time).await;
                }
            }
            let rate = self.options.failure_rates.get(&request.operation).copied();
            if rate.is_some_and(|rate| self.random() < rate) {
                let message = format!("The simulated {} failed.", request.operation.name());
                return Err(DriverError::retriable(message));
            }
            Ok(())
        })
    }
}

/// The description of a number of identical hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct IdenticalHosts {
    /// The number of hosts.
    pub count: u32,
    /// The prefix of their names; a number from 1 follows.
    pub prefix: String,
    /// CPUs of each host.
    pub vcpus: u32,
    /// The allocation ratio of CPUs.
    pub cpu_ratio: f32,
    /// Memory of each host, in MiB.
    pub memory_mb: u32,
    /// Local disk of each host, in GiB.
    pub disk_gb: u32,
    /// GPUs of each host, each a provider of its own with 1,000 units.
    pub gpus: u32,
    /// The model of the GPUs, which becomes a trait.
    pub gpu_model: Option<String>,
}

impl IdenticalHosts {
    /// The descriptions of all hosts.
    #[must_use]
    pub fn hosts(&self) -> Vec<HostDescription> {
        (1..=self.count).map(|number| self.host(number)).collect()
    }

    fn host(&self, number: u32) -> HostDescription {
        let name = format!("{}{number:05}", self.prefix);
        let amounts = [
            ("VCPU", self.vcpus, self.cpu_ratio),
            ("MEMORY_MB", self.memory_mb, 1.0),
            ("DISK_GB", self.disk_gb, 1.0),
        ];
        let inventories = amounts
            .into_iter()
            .filter(|(_, total, _)| *total > 0)
            .map(|(class, total, ratio)| (class.to_owned(), inventory(total, ratio)));
        let model = self.gpu_model.as_deref();
        let traits = model.map(|model| (placewright_trace::model_trait(model), true));
        let traits: BTreeMap<String, bool> = traits.into_iter().collect();
        let gpus = (0..self.gpus).map(|gpu| NestedProvider {
            name: format!("{name}_gpu_{gpu}"),
            inventories: BTreeMap::from([(
                placewright_trace::GPU_MILLI.to_owned(),
                inventory(placewright_trace::GPU_MILLI_TOTAL, 1.0),
            )]),
            traits: traits.clone(),
            ..NestedProvider::default()
        });
        HostDescription {
            inventories: inventories.collect(),
            providers: gpus.collect(),
            platform: platform(),
            name,
            ..HostDescription::default()
        }
    }
}

/// The descriptions of the nodes of a trace as hosts, each a tree of providers.
#[must_use]
pub fn hosts_of_trace(nodes: &[placewright_trace::Node]) -> Vec<HostDescription> {
    nodes.iter().map(host_of_node).collect()
}

fn host_of_node(node: &placewright_trace::Node) -> HostDescription {
    let mut host = HostDescription {
        platform: platform(),
        ..HostDescription::default()
    };
    for provider in placewright_trace::provider::providers(node) {
        let inventories = provider.inventories.iter();
        let inventories = inventories
            .map(|(class, total)| ((*class).to_owned(), inventory(*total, 1.0)))
            .collect();
        let traits = provider.traits.into_iter().map(|name| (name, true));
        let traits = traits.collect();
        if provider.parent.is_none() {
            host.name = provider.name;
            host.inventories = inventories;
            host.traits = traits;
        } else {
            // A host's GPUs are directly below its root provider.
            host.providers.push(NestedProvider {
                name: provider.name,
                inventories,
                traits,
                ..NestedProvider::default()
            });
        }
    }
    host
}

fn inventory(total: u32, ratio: f32) -> Inventory {
    Inventory::new(i32::try_from(total).unwrap_or(i32::MAX), Some(ratio))
}

fn platform() -> placewright_types::platform::Platform {
    placewright_types::platform::Platform {
        hypervisor_type: Some("simulated".to_owned()),
        hypervisor_version: Some(1),
        cpu_info: None,
        supported_instances: vec![[
            "x86_64".to_owned(),
            "simulated".to_owned(),
            "hvm".to_owned(),
        ]],
    }
}

/// One of the `count` shards of a fleet, which are of nearly equal size: every `count`-th host, beginning with the host
/// `index`, counted from 0.
#[must_use]
pub fn shard(hosts: Vec<HostDescription>, index: usize, count: usize) -> Vec<HostDescription> {
    let chosen = hosts.into_iter().skip(index).step_by(count.max(1));
    chosen.collect()
}
