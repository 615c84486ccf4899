//! A cache of the expected loss of each host's devices by a request, updated for the hosts that
//! changed.
//!
//! Requests for the same number of devices and the same share form a demand class, whatever CPUs
//! and memory they need: CPUs and memory only affect the stranded shares, which are computed without
//! looking at each device.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{Demand, DemandForecast, DeviceChoice, FreeCapacity};

/// The number of changes that the change log holds at least. The growths of a class that lags behind by
/// more changes are computed anew.
const LOGGED_CHANGES_MIN: usize = 4_096;
/// The maximum number of demand classes that are cached.
const CLASSES_MAX: usize = 256;

/// The free capacity of hosts, and by how much the requests of each demand class make the loss grow.
#[derive(Clone, Debug, Default)]
pub struct LossCache {
    hosts: Vec<Host>,
    forecast: DemandForecast,
    /// The version of the forecast.
    forecast_version: u64,
    /// The change log: the hosts that changed, oldest first.
    changed_hosts: Vec<u32>,
    /// The number of changes that were dropped from the front of the change log.
    dropped_change_count: u64,
    /// By number of devices and share: the class.
    classes: HashMap<(u32, u32), DemandClass, foldhash::fast::FixedState>,
}

/// The free capacity of a host, in the units of [`FreeCapacity`].
#[derive(Clone, Debug, Default)]
struct Host {
    /// The number of free CPUs.
    cpu: u64,
    /// The free memory in MiB.
    memory: u64,
    /// The sum of the free shares of all devices.
    share: f64,
    /// The stranded shares by the current forecast: the free shares that stay unused for lack of CPUs or memory.
    stranded: f64,
    /// The free shares of each device.
    devices: SmallVec<[u32; 8]>,
}

impl Host {
    fn free(&self) -> FreeCapacity<'_> {
        FreeCapacity {
            cpu: self.cpu,
            memory: self.memory,
            devices: &self.devices,
        }
    }
}

/// The cached growths of the loss by requests of the same number of devices and the same share.
#[derive(Clone, Debug)]
struct DemandClass {
    /// The version of the forecast that the growths were computed with.
    forecast_version: u64,
    /// The position in the change log up to which the growths are valid.
    position: u64,
    /// By host: the growth of the expected loss of its devices; infinite where too few have enough
    /// free shares.
    loss_growths: Vec<f64>,
}

/// The growth of the fragmentation of hosts by one request.
#[derive(Clone, Copy, Debug)]
pub struct FragmentationGradients<'a> {
    loss_cache: &'a LossCache,
    loss_growths: &'a [f64],
    demand: Demand,
}

impl FragmentationGradients<'_> {
    /// The growth for one host; `None` if the request does not fit there.
    #[must_use]
    #[inline]
    pub fn growth(&self, host: u32) -> Option<f64> {
        let loss_growth = *self.loss_growths.get(host as usize)?;
        let host = self.loss_cache.hosts.get(host as usize)?;
        if loss_growth == f64::INFINITY {
            return None;
        }
        let cpu = host.cpu.checked_sub(self.demand.cpu)?;
        let memory = host.memory.checked_sub(self.demand.memory)?;
        let share = host.share - self.demand.total_share();
        let after = self.loss_cache.forecast.stranded(cpu, memory, share);
        Some(loss_growth + after - host.stranded)
    }
}

impl LossCache {
    /// Sets the free capacity of a host.
    pub fn set(&mut self, host: u32, free: &FreeCapacity<'_>) {
        let index = host as usize;
        if index >= self.hosts.len() {
            self.hosts.resize_with(index + 1, Host::default);
        }
        if self.hosts[index].free() == *free {
            return;
        }
        let share = f64::from(free.devices.iter().sum::<u32>());
        self.hosts[index] = Host {
            cpu: free.cpu,
            memory: free.memory,
            share,
            stranded: self.forecast.stranded(free.cpu, free.memory, share),
            devices: free.devices.into(),
        };
        if self.changed_hosts.len() >= 2 * LOGGED_CHANGES_MIN {
            self.changed_hosts.drain(..LOGGED_CHANGES_MIN);
            self.dropped_change_count += LOGGED_CHANGES_MIN as u64;
        }
        self.changed_hosts.push(host);
    }

    /// Sets the forecast of coming requests.
    pub fn set_forecast(&mut self, forecast: DemandForecast) {
        self.forecast = forecast;
        self.forecast_version += 1;
        for host in &mut self.hosts {
            host.stranded = self.forecast.stranded(host.cpu, host.memory, host.share);
        }
    }

    /// The forecast of coming requests.
    #[must_use]
    pub fn forecast(&self) -> &DemandForecast {
        &self.forecast
    }

    /// The best devices of a host for a request; `None` if the request does not fit.
    #[must_use]
    pub fn choose_devices(&self, host: u32, demand: &Demand) -> Option<DeviceChoice> {
        let host = self.hosts.get(host as usize)?;
        self.forecast.choose_devices(&host.free(), demand)
    }

    /// Updates the cached growths of a request's class.
    pub fn update(&mut self, demand: &Demand) {
        let key = (demand.devices, demand.share);
        if !self.classes.contains_key(&key) && self.classes.len() >= CLASSES_MAX {
            let oldest = self
                .classes
                .iter()
                .map(|(key, class)| (class.position, *key));
            if let Some((_, oldest)) = oldest.min() {
                self.classes.remove(&oldest);
            }
        }
        let end = self.dropped_change_count + self.changed_hosts.len() as u64;
        // No forecast has the version `u64::MAX`, so that all growths of a new class are computed below.
        let class = self.classes.entry(key).or_insert_with(|| DemandClass {
            forecast_version: u64::MAX,
            position: 0,
            loss_growths: Vec::new(),
        });
        let first_missed = class.position.checked_sub(self.dropped_change_count);
        let first_missed = first_missed.and_then(|first_missed| usize::try_from(first_missed).ok());
        let has_forecast = class.forecast_version == self.forecast_version;
        let (hosts, forecast) = (&self.hosts, &self.forecast);
        let loss_growth = |host: &Host| forecast.loss_growth(&host.devices, demand);
        class.loss_growths.resize(hosts.len(), f64::INFINITY);
        match first_missed.filter(|_| has_forecast) {
            Some(first_missed) => {
                for host in &self.changed_hosts[first_missed..] {
                    class.loss_growths[*host as usize] = loss_growth(&hosts[*host as usize]);
                }
            }
            None => {
                for (cached_growth, host) in class.loss_growths.iter_mut().zip(hosts) {
                    *cached_growth = loss_growth(host);
                }
            }
        }
        class.forecast_version = self.forecast_version;
        class.position = end;
    }

    /// The growth of the fragmentation of hosts by a request; `None` if anything changed since
    /// [`Self::update`] was called for its class.
    #[must_use]
    pub fn gradients(&self, demand: Demand) -> Option<FragmentationGradients<'_>> {
        let class = self.classes.get(&(demand.devices, demand.share))?;
        let end = self.dropped_change_count + self.changed_hosts.len() as u64;
        let is_current = class.forecast_version == self.forecast_version && class.position == end;
        is_current.then_some(FragmentationGradients {
            loss_cache: self,
            loss_growths: &class.loss_growths,
            demand,
        })
    }
}
