//! Caches by class of request how much of each host's devices a request would waste, updated for
//! the hosts that changed.
//!
//! Requests for the same number of devices and the same share are of one class, whatever CPUs and
//! memory they want: those only affect the idle part, which is a sum and needs no search.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{Demand, DemandForecast, Place, Room};

/// The capacity of the change log; a class that is further behind starts over.
const REMEMBERED: usize = 4_096;
/// The maximum number of classes that are cached.
const CLASSES_MAX: usize = 256;

/// The free capacity of hosts, and the cached losses.
#[derive(Clone, Debug, Default)]
pub struct LossCache {
    hosts: Vec<Host>,
    forecast: DemandForecast,
    /// The version of the forecast.
    forecasts: u64,
    /// The log of changed hosts, and the number of changes dropped from its front.
    changed: Vec<u32>,
    forgotten: u64,
    classes: HashMap<(u32, u32), Class, foldhash::fast::FixedState>,
}

#[derive(Clone, Debug, Default)]
struct Host {
    cpu: u64,
    memory: u64,
    /// The sum of the remaining shares of all devices.
    share: f64,
    /// The shares that stay idle for lack of CPUs or memory, under the current forecast.
    stranded: f64,
    devices: SmallVec<[u32; 8]>,
}

impl Host {
    fn room(&self) -> Room<'_> {
        Room {
            cpu: self.cpu,
            memory: self.memory,
            devices: &self.devices,
        }
    }
}

/// The cached losses for requests of the same number of devices and the same share.
#[derive(Clone, Debug)]
struct Class {
    forecast: u64,
    /// The position in the change log up to which the losses are valid.
    position: u64,
    /// By host: the growth of the devices' expected loss; infinite where too few devices are
    /// sufficient.
    losses: Vec<f64>,
}

/// The growth of the fragmentation of hosts by one request.
#[derive(Clone, Copy, Debug)]
pub struct FragmentationGradients<'a> {
    loss_cache: &'a LossCache,
    losses: &'a [f64],
    demand: Demand,
}

impl FragmentationGradients<'_> {
    /// The growth for one host; `None` if the request does not fit there.
    #[must_use]
    #[inline]
    pub fn of(&self, host: u32) -> Option<f64> {
        let loss = *self.losses.get(host as usize)?;
        let room = self.loss_cache.hosts.get(host as usize)?;
        if loss == f64::INFINITY {
            return None;
        }
        let cpu = room.cpu.checked_sub(self.demand.cpu)?;
        let memory = room.memory.checked_sub(self.demand.memory)?;
        let share = room.share - self.demand.total_share();
        let after = self.loss_cache.forecast.stranded(cpu, memory, share);
        Some(loss + after - room.stranded)
    }
}

impl LossCache {
    /// Sets the free capacity of a host.
    pub fn set(&mut self, host: u32, room: &Room<'_>) {
        let index = host as usize;
        if index >= self.hosts.len() {
            self.hosts.resize_with(index + 1, Host::default);
        }
        if self.hosts[index].room() == *room {
            return;
        }
        let share = f64::from(room.devices.iter().sum::<u32>());
        self.hosts[index] = Host {
            cpu: room.cpu,
            memory: room.memory,
            share,
            stranded: self.forecast.stranded(room.cpu, room.memory, share),
            devices: room.devices.into(),
        };
        if self.changed.len() >= 2 * REMEMBERED {
            self.changed.drain(..REMEMBERED);
            self.forgotten += REMEMBERED as u64;
        }
        self.changed.push(host);
    }

    /// Sets the expectation for future requests.
    pub fn set_forecast(&mut self, forecast: DemandForecast) {
        self.forecast = forecast;
        self.forecasts += 1;
        for host in &mut self.hosts {
            host.stranded = self.forecast.stranded(host.cpu, host.memory, host.share);
        }
    }

    /// The expectation for future requests.
    #[must_use]
    pub fn forecast(&self) -> &DemandForecast {
        &self.forecast
    }

    /// The best devices of a host for a request; `None` if it does not fit.
    #[must_use]
    pub fn place(&self, host: u32, demand: &Demand) -> Option<Place> {
        let host = self.hosts.get(host as usize)?;
        self.forecast.place(&host.room(), demand)
    }

    /// Updates the cached losses of a request's class.
    pub fn ready(&mut self, demand: &Demand) {
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
        let end = self.forgotten + self.changed.len() as u64;
        let class = self.classes.entry(key).or_insert_with(|| Class {
            forecast: u64::MAX,
            position: 0,
            losses: Vec::new(),
        });
        let missed = class.position.checked_sub(self.forgotten);
        let missed = missed.and_then(|missed| usize::try_from(missed).ok());
        let is_known = class.forecast == self.forecasts;
        let (hosts, forecast) = (&self.hosts, &self.forecast);
        let loss = |host: &Host| forecast.loss(&host.devices, demand);
        class.losses.resize(hosts.len(), f64::INFINITY);
        match missed.filter(|_| is_known) {
            Some(missed) => {
                for host in &self.changed[missed..] {
                    class.losses[*host as usize] = loss(&hosts[*host as usize]);
                }
            }
            None => {
                for (kept, host) in class.losses.iter_mut().zip(hosts) {
                    *kept = loss(host);
                }
            }
        }
        class.forecast = self.forecasts;
        class.position = end;
    }

    /// The growth of the fragmentation of hosts by a request, if [`Self::ready`] was last called
    /// for its class; `None` otherwise.
    #[must_use]
    pub fn gradients(&self, demand: Demand) -> Option<FragmentationGradients<'_>> {
        let class = self.classes.get(&(demand.devices, demand.share))?;
        let end = self.forgotten + self.changed.len() as u64;
        let is_new = class.forecast == self.forecasts && class.position == end;
        is_new.then_some(FragmentationGradients {
            loss_cache: self,
            losses: &class.losses,
            demand,
        })
    }
}
