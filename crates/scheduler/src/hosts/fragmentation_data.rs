//! The data of the fragmentation weigher: the free devices of hosts, and the devices that requests
//! need.
//!
//! A device is a provider in a host's tree with an inventory of the configured class. A whole
//! device has [`WHOLE_DEVICE`] of it.

use placewright_placement::candidates::CandidateView;
use placewright_placement::{ClassId, ProviderId, State};
use smallvec::SmallVec;

use crate::hosts::amounts::Amounts;
use crate::hosts::fragmentation::{Demand, DemandHistogram, FreeCapacity, LossCache, WHOLE_DEVICE};
use crate::request::RequestSpec;

/// The forecast is renewed after this many requests, and more often at the beginning.
const FORECAST_INTERVAL: u64 = 100;

/// The free devices of all hosts, and the frequency of each demand.
#[derive(Clone, Debug)]
pub struct FragmentationData {
    class_name: String,
    /// The result of the latest look-up of the device class, if there was one: the version of placement's structure
    /// then, and the class's identifier, if placement has the class.
    class_id: Option<(u64, Option<ClassId>)>,
    loss_cache: LossCache,
    histogram: DemandHistogram,
    /// The number of requests that were recorded.
    request_count: u64,
}

impl FragmentationData {
    /// The data without hosts and requests, for devices of a resource class.
    pub(crate) fn new(class_name: &str) -> Self {
        Self {
            class_name: class_name.to_owned(),
            class_id: None,
            loss_cache: LossCache::default(),
            histogram: DemandHistogram::default(),
            request_count: 0,
        }
    }

    /// By how much a request of each demand class makes the expected loss of each host's devices grow.
    #[must_use]
    pub fn loss_cache(&self) -> &LossCache {
        &self.loss_cache
    }

    /// The amounts that a request needs of one host.
    #[must_use]
    pub fn demand(&self, request: &RequestSpec) -> Demand {
        let mut demand = Demand {
            cpu: request.flavor.vcpus.into(),
            memory: request.flavor.memory_mb.into(),
            devices: 0,
            share: 0,
        };
        for (key, value) in &request.flavor.extra_specs {
            let suffix_and_class = key
                .strip_prefix("resources")
                .and_then(|remaining| remaining.split_once(':'));
            if suffix_and_class.is_none_or(|(_, class)| class != self.class_name) {
                continue;
            }
            let share = value.parse().unwrap_or(0).min(WHOLE_DEVICE);
            if share > 0 {
                demand.devices += 1;
                // If the groups need different shares, the largest counts for all.
                demand.share = demand.share.max(share);
            }
        }
        demand
    }

    /// Records a request, and updates the cached growths of the loss for its demand class.
    pub(crate) fn record(&mut self, request: &RequestSpec) {
        let demand = self.demand(request);
        self.histogram.record(demand);
        if self.request_count.is_multiple_of(FORECAST_INTERVAL)
            || self.request_count.is_power_of_two()
        {
            self.loss_cache.set_forecast(self.histogram.forecast());
        }
        self.request_count += 1;
        self.loss_cache.update(&demand);
    }

    /// The identifier of the device class, if placement has the class. It is looked up again when placement's structure
    /// has changed.
    fn current_class_id(&mut self, state: &State) -> Option<ClassId> {
        let structure = state.tree_changes().structure_version();
        let current = self.class_id.filter(|(version, _)| *version == structure);
        let (_, id) = current.unwrap_or_else(|| (structure, state.class_id(&self.class_name)));
        self.class_id = Some((structure, id));
        id
    }

    /// Reads the free amounts and devices of a host.
    pub(crate) fn refresh_host(&mut self, state: &State, root: ProviderId, amounts: &Amounts) {
        let class = self.current_class_id(state);
        let mut devices: SmallVec<[u32; 16]> = SmallVec::new();
        for provider in state
            .subtree(root)
            .iter()
            .filter_map(|id| state.provider(*id))
        {
            let rows = provider.inventories.iter();
            for row in rows.filter(|row| Some(row.class) == class) {
                devices.push(free_share(
                    row.inventory.total,
                    row.inventory.reserved,
                    row.used,
                ));
            }
        }
        let free = FreeCapacity {
            cpu: round_down(amounts.cpus_free()),
            memory: u64::try_from(amounts.ram_free_mb).unwrap_or(0),
            devices: &devices,
        };
        self.loss_cache.set(root.0, &free);
    }

    /// Removes a host, by setting its free capacity to nothing.
    pub(crate) fn remove_host(&mut self, slot: u32) {
        let free = FreeCapacity {
            cpu: 0,
            memory: 0,
            devices: &[],
        };
        self.loss_cache.set(slot, &free);
    }

    /// The growth of the expected loss of devices if an allocation candidate is claimed; 0 for one
    /// without devices.
    pub(crate) fn loss_growth(&self, state: &State, candidate: &CandidateView<'_>) -> f64 {
        let Some(class) = self.class_id.and_then(|(_, id)| id) else {
            return 0.0;
        };
        let forecast = self.loss_cache.forecast();
        let device_allocations = candidate
            .allocations()
            .iter()
            .filter(|allocation| allocation.class == class);
        let growths = device_allocations.filter_map(|allocation| {
            let mut rows = state.provider(allocation.provider)?.inventories.iter();
            let row = rows.find(|row| row.class == class)?;
            let free = free_share(row.inventory.total, row.inventory.reserved, row.used);
            Some(
                forecast.expected_loss(free.saturating_sub(allocation.amount))
                    - forecast.expected_loss(free),
            )
        });
        growths.sum()
    }
}

/// The unallocated share of a device.
fn free_share(total: i32, reserved: i32, used: i64) -> u32 {
    let free = i64::from(total) - i64::from(reserved) - used;
    u32::try_from(free.max(0))
        .unwrap_or(WHOLE_DEVICE)
        .min(WHOLE_DEVICE)
}

/// Rounds an amount down; negative amounts become 0.
fn round_down(amount: f64) -> u64 {
    if amount > 0.0 { amount as u64 } else { 0 }
}
