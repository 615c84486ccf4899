//! The data of the fragmentation weigher: which devices hosts have left, and what requests want of
//! them.
//!
//! A device is a provider in a host's tree with an inventory of the configured class, of which a
//! whole device has [`WHOLE`].

use placewright_placement::candidates::CandidateView;
use placewright_placement::{ClassId, ProviderId, State};
use smallvec::SmallVec;

use crate::hosts::amounts::Amounts;
use crate::hosts::fragmentation::{Demand, DemandHistogram, LossCache, Room, WHOLE};
use crate::request::RequestSpec;

/// The statistics of requests are evaluated anew after this many of them.
const LEARNING_INTERVAL: u64 = 100;

/// The devices of all hosts, and the frequency of each kind of request.
#[derive(Clone, Debug)]
pub struct DevicePacking {
    class: String,
    /// The device class with the version of placement's names for which it was looked up.
    found: Option<(u64, Option<ClassId>)>,
    loss_cache: LossCache,
    histogram: DemandHistogram,
    noted: u64,
}

impl DevicePacking {
    /// Starts without knowledge of any device of a resource class.
    pub(crate) fn new(class: &str) -> Self {
        Self {
            class: class.to_owned(),
            found: None,
            loss_cache: LossCache::default(),
            histogram: DemandHistogram::default(),
            noted: 0,
        }
    }

    /// The expected loss of each host, by class of request.
    #[must_use]
    pub fn loss_cache(&self) -> &LossCache {
        &self.loss_cache
    }

    /// What a request asks of one host.
    #[must_use]
    pub fn demand(&self, request: &RequestSpec) -> Demand {
        let mut demand = Demand {
            cpu: request.flavor.vcpus.into(),
            memory: request.flavor.memory_mb.into(),
            devices: 0,
            share: 0,
        };
        for (key, value) in &request.flavor.extra_specs {
            let class = key
                .strip_prefix("resources")
                .and_then(|rest| rest.split_once(':'));
            if class.is_none_or(|(_, class)| class != self.class) {
                continue;
            }
            let share = value.parse().unwrap_or(0).min(WHOLE);
            if share > 0 {
                demand.devices += 1;
                // If the groups want different shares, the largest counts for all.
                demand.share = demand.share.max(share);
            }
        }
        demand
    }

    /// Records a request, and updates the cached losses of its class.
    pub(crate) fn note(&mut self, request: &RequestSpec) {
        let demand = self.demand(request);
        self.histogram.note(demand);
        if self.noted.is_multiple_of(LEARNING_INTERVAL) || self.noted.is_power_of_two() {
            self.loss_cache.set_forecast(self.histogram.forecast());
        }
        self.noted += 1;
        self.loss_cache.ready(&demand);
    }

    fn class_id(&mut self, state: &State) -> Option<ClassId> {
        let structure = state.touched().structure();
        let known = self.found.filter(|(known, _)| *known == structure);
        let (_, id) = known.unwrap_or_else(|| (structure, state.class_id(&self.class)));
        self.found = Some((structure, id));
        id
    }

    /// Reads the free amounts and devices of a host.
    pub(crate) fn follow(&mut self, state: &State, root: ProviderId, amounts: &Amounts) {
        let class = self.class_id(state);
        let mut devices: SmallVec<[u32; 16]> = SmallVec::new();
        for provider in state
            .subtree(root)
            .iter()
            .filter_map(|id| state.provider(*id))
        {
            let records = provider.inventories.iter();
            for record in records.filter(|record| Some(record.class) == class) {
                devices.push(left_of(
                    record.inventory.total,
                    record.inventory.reserved,
                    record.used,
                ));
            }
        }
        let room = Room {
            cpu: whole_number(amounts.cpus_free()),
            memory: u64::try_from(amounts.ram_free_mb).unwrap_or(0),
            devices: &devices,
        };
        self.loss_cache.set(root.0, &room);
    }

    /// Removes a host by recording that it has nothing free.
    pub(crate) fn forget(&mut self, slot: u32) {
        let room = Room {
            cpu: 0,
            memory: 0,
            devices: &[],
        };
        self.loss_cache.set(slot, &room);
    }

    /// The growth of the expected loss of devices if a candidate is taken; 0 without devices.
    pub(crate) fn loss(&self, state: &State, candidate: &CandidateView<'_>) -> f64 {
        let Some(class) = self.found.and_then(|(_, id)| id) else {
            return 0.0;
        };
        let forecast = self.loss_cache.forecast();
        let taken = candidate
            .allocations()
            .iter()
            .filter(|one| one.class == class);
        let losses = taken.filter_map(|one| {
            let mut records = state.provider(one.provider)?.inventories.iter();
            let record = records.find(|record| record.class == class)?;
            let left = left_of(
                record.inventory.total,
                record.inventory.reserved,
                record.used,
            );
            Some(forecast.lost(left.saturating_sub(one.amount)) - forecast.lost(left))
        });
        losses.sum()
    }
}

/// The unallocated amount of a device.
fn left_of(total: i32, reserved: i32, used: i64) -> u32 {
    let left = i64::from(total) - i64::from(reserved) - used;
    u32::try_from(left.max(0)).unwrap_or(WHOLE).min(WHOLE)
}

/// Rounds an amount down.
fn whole_number(amount: f64) -> u64 {
    if amount > 0.0 { amount as u64 } else { 0 }
}
