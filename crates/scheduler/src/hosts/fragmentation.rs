//! The packing of devices that are shared or taken whole: which host and devices waste the least.
//!
//! A device can be divided: a task may use 32 % of a GPU. The remainder may be too small for every
//! request, or its host may lack the CPUs to use it. The *fragmentation* of a host is the share of
//! its devices that is expected to stay unused; a request goes where fragmentation grows least or
//! shrinks most. This is the fragmentation gradient of Weng et al., "Beware of Fragmentation:
//! Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023), with
//! another measure. Theirs is the share that the *next* task cannot use; this one is the share that
//! *all coming* tasks will leave unused, which packs better. It is the sum of:
//!
//! - for each device, the part of its remainder that stays unused even if the device serves the best
//!   of the next [`HORIZON`] requests ([`DemandForecast::expected_loss`]);
//! - for the host, the free shares for which its free CPUs and memory do not suffice, if each share
//!   needs as much of these as in the average request.
//!
//! Both are derived from the [`DemandHistogram`] of requests, an exponentially decaying histogram.
//!
//! ```
//! use placewright_scheduler::hosts::fragmentation::{Demand, DemandHistogram, FreeCapacity};
//!
//! let half = Demand { cpu: 4, memory: 16, devices: 1, share: 500 };
//! let whole = Demand { share: 1000, ..half };
//! let mut histogram = DemandHistogram::default();
//! for _ in 0..50 {
//!     histogram.record(half);
//!     histogram.record(whole);
//! }
//! let forecast = histogram.forecast();
//! let free = FreeCapacity { cpu: 32, memory: 128, devices: &[1000, 500] };
//! let best = forecast.choose_devices(&free, &half).unwrap();
//! assert_eq!(best.devices.as_slice(), [1], "the device that is half used");
//! ```

use std::collections::BTreeMap;

use smallvec::SmallVec;

mod loss_cache;

pub use loss_cache::{FragmentationGradients, LossCache};

/// The number of shares that make a whole device.
pub const WHOLE_DEVICE: u32 = 1000;
/// The resolution of the forecast: the number of steps into which a whole device is divided.
const STEPS: usize = 100;
/// The number of shares in a step: those of a whole device, divided by [`STEPS`].
const SHARES_PER_STEP: u32 = WHOLE_DEVICE / 100;
/// The number of coming requests that each device is assumed to be offered. Measured on a
/// production trace: 60 to 120 pack equally well, 40 and 200 pack worse by 0.05 and 0.3 percent of
/// all devices.
pub const HORIZON: u32 = 80;
/// The factor by which the weight of a request exceeds the weight of the request before. So the part
/// that a request has in the sum of all weights is halved by 3,500 further requests.
const WEIGHT_GROWTH: f64 = 1.0002;
/// When the weight of the next request exceeds this number, all weights are scaled down, so that none
/// overflows.
const WEIGHT_MAX: f64 = 1e100;
/// The number of different demands that the histogram keeps. It may grow to twice as many before
/// the rarest are evicted.
const DEMANDS_MAX: usize = 1024;

/// The free capacity of a host, in the units of [`Demand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeCapacity<'a> {
    /// Unallocated CPUs of the host.
    pub cpu: u64,
    /// Unallocated memory of the host, in MiB.
    pub memory: u64,
    /// By device: its unallocated shares, of [`WHOLE_DEVICE`].
    pub devices: &'a [u32],
}

/// The amounts that a request needs of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Demand {
    /// The number of CPUs requested.
    pub cpu: u64,
    /// The amount of memory requested, in MiB.
    pub memory: u64,
    /// The number of devices; 0 for a request without devices.
    pub devices: u32,
    /// The shares of each device, of [`WHOLE_DEVICE`].
    pub share: u32,
}

impl Demand {
    /// The shares of all devices together.
    fn total_share(&self) -> f64 {
        f64::from(self.devices) * f64::from(self.share)
    }

    /// Whether the host has enough of everything.
    #[must_use]
    pub fn fits(&self, free: &FreeCapacity<'_>) -> bool {
        let devices = free
            .devices
            .iter()
            .filter(|free_share| **free_share >= self.share);
        self.cpu <= free.cpu
            && self.memory <= free.memory
            && (self.devices == 0 || devices.count() >= self.devices as usize)
    }
}

/// The best devices of a host for a request.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceChoice {
    /// The devices to take, as indexes into [`FreeCapacity::devices`].
    pub devices: SmallVec<[usize; 8]>,
    /// The growth of the host's fragmentation, in shares; less is better.
    pub growth: f64,
}

/// A histogram of demands in which older requests weigh less (exponential decay).
#[derive(Clone, Debug)]
pub struct DemandHistogram {
    weights: BTreeMap<Demand, f64>,
    /// The weight of the next request. It grows from request to request, which has the effect of a decay
    /// of all older weights.
    new_weight: f64,
}

impl Default for DemandHistogram {
    fn default() -> Self {
        Self {
            weights: BTreeMap::new(),
            new_weight: 1.0,
        }
    }
}

impl DemandHistogram {
    /// Records a request in the histogram.
    pub fn record(&mut self, demand: Demand) {
        *self.weights.entry(demand).or_default() += self.new_weight;
        // New requests get more weight, because reducing all older weights costs more.
        self.new_weight *= WEIGHT_GROWTH;
        if self.weights.len() > 2 * DEMANDS_MAX {
            let mut weights: Vec<f64> = self.weights.values().copied().collect();
            weights.sort_by(|a, b| b.total_cmp(a));
            let threshold = weights[DEMANDS_MAX];
            self.weights.retain(|_, weight| *weight > threshold);
        }
        if self.new_weight > WEIGHT_MAX {
            for weight in self.weights.values_mut() {
                *weight /= self.new_weight;
            }
            self.new_weight = 1.0;
        }
    }

    /// Derives the forecast of coming requests. This takes about 0.1 ms; one forecast serves some
    /// hundred decisions.
    #[must_use]
    pub fn forecast(&self) -> DemandForecast {
        DemandForecast::new(
            self.weights
                .iter()
                .map(|(demand, weight)| (*demand, *weight)),
        )
    }
}

/// The expected loss of devices, given the distribution of coming requests.
#[derive(Clone, Debug, PartialEq)]
pub struct DemandForecast {
    /// By the free steps of a device: the share that is expected to stay unused.
    expected_loss: [f64; STEPS + 1],
    /// The average number of CPUs for each requested share.
    cpu_per_share: f64,
    /// The average amount of memory for each requested share.
    memory_per_share: f64,
}

impl Default for DemandForecast {
    fn default() -> Self {
        Self::new(std::iter::empty())
    }
}

impl DemandForecast {
    /// The forecast for these demands with their weights.
    #[must_use]
    pub fn new(demands: impl Iterator<Item = (Demand, f64)>) -> Self {
        let mut weight_by_steps = [0.0; STEPS + 1];
        let (mut share, mut cpu, mut memory) = (0.0, 0.0, 0.0);
        for (demand, weight) in demands.filter(|(demand, _)| demand.total_share() > 0.0) {
            let steps = demand.share.div_ceil(SHARES_PER_STEP) as usize;
            weight_by_steps[steps.min(STEPS)] += weight;
            share += weight * demand.total_share();
            cpu += weight * demand.cpu as f64;
            memory += weight * demand.memory as f64;
        }
        let total_weight: f64 = weight_by_steps.iter().sum();
        let probabilities = weight_by_steps
            .iter()
            .enumerate()
            .filter(|(_, weight)| **weight > 0.0);
        let probabilities: Vec<(usize, f64)> = probabilities
            .map(|(steps, weight)| (steps, weight / total_weight))
            .collect();
        let used_steps = expected_use(&probabilities);
        let mut expected_loss = [0.0; STEPS + 1];
        for (steps, loss) in expected_loss.iter_mut().enumerate() {
            *loss = (steps as f64 - used_steps[steps]) * f64::from(SHARES_PER_STEP);
        }
        Self {
            expected_loss,
            cpu_per_share: if share > 0.0 { cpu / share } else { 0.0 },
            memory_per_share: if share > 0.0 { memory / share } else { 0.0 },
        }
    }

    /// The share of a device that is expected to stay unused, given its free share.
    #[must_use]
    #[inline]
    pub fn expected_loss(&self, free_share: u32) -> f64 {
        let steps = (free_share.min(WHOLE_DEVICE) / SHARES_PER_STEP) as usize;
        // The part that exceeds a whole number of steps counts as lost.
        self.expected_loss[steps] + f64::from(free_share % SHARES_PER_STEP)
    }

    /// The stranded shares of a host with these free amounts: the free shares that stay unused for lack of CPUs or
    /// memory.
    fn stranded(&self, cpu: u64, memory: u64, share: f64) -> f64 {
        let usable_share = |amount: u64, per_share: f64| {
            if per_share > 0.0 {
                amount as f64 / per_share
            } else {
                f64::INFINITY
            }
        };
        let by_cpu = usable_share(cpu, self.cpu_per_share);
        let by_memory = usable_share(memory, self.memory_per_share);
        (share - by_cpu.min(by_memory)).max(0.0)
    }

    /// The shares of a host's devices that are expected to stay unused. A share that is unusable
    /// for two reasons counts twice.
    #[must_use]
    pub fn fragmentation(&self, free: &FreeCapacity<'_>) -> f64 {
        let losses = free.devices.iter().map(|share| self.expected_loss(*share));
        let loss: f64 = losses.sum();
        let share: u32 = free.devices.iter().sum();
        loss + self.stranded(free.cpu, free.memory, f64::from(share))
    }

    /// The growth of the expected loss of a host's devices if a request takes the best of them;
    /// infinite if too few have enough free shares.
    fn loss_growth(&self, devices: &[u32], demand: &Demand) -> f64 {
        let device_count = demand.devices as usize;
        let growths = devices.iter().filter_map(|free_share| {
            let remainder = free_share.checked_sub(demand.share)?;
            Some(self.expected_loss(remainder) - self.expected_loss(*free_share))
        });
        match device_count {
            0 => 0.0,
            1 => growths.fold(f64::INFINITY, f64::min),
            _ => {
                let mut growths: SmallVec<[f64; 16]> = growths.collect();
                if growths.len() < device_count {
                    return f64::INFINITY;
                }
                growths.sort_unstable_by(f64::total_cmp);
                growths[..device_count].iter().sum()
            }
        }
    }

    /// The best devices of a host for a request; `None` if the request does not fit.
    #[must_use]
    pub fn choose_devices(&self, free: &FreeCapacity<'_>, demand: &Demand) -> Option<DeviceChoice> {
        let cpu = free.cpu.checked_sub(demand.cpu)?;
        let memory = free.memory.checked_sub(demand.memory)?;
        let device_count = demand.devices as usize;
        let mut growths: SmallVec<[(f64, usize); 16]> = SmallVec::new();
        if device_count > 0 {
            for (device, free_share) in free.devices.iter().enumerate() {
                if let Some(remainder) = free_share.checked_sub(demand.share) {
                    let growth = self.expected_loss(remainder) - self.expected_loss(*free_share);
                    growths.push((growth, device));
                }
            }
            if growths.len() < device_count {
                return None;
            }
            // A stable sort, so that equal devices are taken in their order.
            growths.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            growths.truncate(device_count);
        }
        let share = f64::from(free.devices.iter().sum::<u32>());
        let before = self.stranded(free.cpu, free.memory, share);
        let after = self.stranded(cpu, memory, share - demand.total_share());
        let device_growth: f64 = growths.iter().map(|(growth, _)| growth).sum();
        Some(DeviceChoice {
            devices: growths.iter().map(|(_, device)| *device).collect(),
            growth: device_growth + after - before,
        })
    }
}

/// By the free steps of a device: how many of them are used in the end if the device is offered
/// [`HORIZON`] requests and accepts only those that maximise its final use (dynamic programming).
///
/// `probabilities` says, by rising number of steps, how probable it is that a request needs this many.
fn expected_use(probabilities: &[(usize, f64)]) -> [f64; STEPS + 1] {
    let mut used_steps = [0.0; STEPS + 1];
    for _ in 0..HORIZON {
        let mut next_used = used_steps;
        for (free_steps, used_after) in next_used.iter_mut().enumerate() {
            let refused = used_steps[free_steps];
            let fits = |(steps, _): &&(usize, f64)| *steps <= free_steps;
            let gain = |(steps, probability): &(usize, f64)| {
                let accepted = *steps as f64 + used_steps[free_steps - steps];
                probability * (accepted - refused).max(0.0)
            };
            *used_after = refused + probabilities.iter().take_while(fits).map(gain).sum::<f64>();
        }
        used_steps = next_used;
    }
    used_steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(cpu: u64, devices: u32, share: u32) -> Demand {
        Demand {
            cpu,
            memory: 0,
            devices,
            share,
        }
    }

    fn forecast(demands: &[(Demand, f64)]) -> DemandForecast {
        DemandForecast::new(demands.iter().copied())
    }

    #[test]
    fn a_share_that_no_request_fits_is_lost() {
        let forecast = forecast(&[(demand(1, 1, 810), 0.5), (demand(1, 1, 1000), 0.5)]);
        assert!((forecast.expected_loss(190) - 190.0).abs() < 1e-9);
        assert!((forecast.expected_loss(805) - 805.0).abs() < 1e-9);
        assert!((forecast.expected_loss(810) - 0.0).abs() < 1e-9);
        assert!(
            forecast.expected_loss(1000) < 1.0,
            "a whole device is expected to serve a request for one"
        );
        assert_eq!(forecast.expected_loss(0), 0.0);
    }

    #[test]
    fn a_request_takes_the_device_that_it_fills_best() {
        let demands = [
            (demand(1, 1, 470), 0.4),
            (demand(1, 1, 320), 0.2),
            (demand(1, 1, 1000), 0.4),
        ];
        let [(first, _), (second, _), _] = demands;
        let forecast = forecast(&demands);
        let free = FreeCapacity {
            cpu: 100,
            memory: 0,
            devices: &[530, 680],
        };
        let choice = forecast.choose_devices(&free, &first).expect("fits");
        assert_eq!(choice.devices.as_slice(), [0]);
        let choice = forecast.choose_devices(&free, &second).expect("fits");
        assert_eq!(choice.devices.as_slice(), [1]);
    }

    #[test]
    fn devices_without_enough_cpus_count_as_fragmentation() {
        let forecast = forecast(&[(demand(8, 1, 1000), 1.0)]);
        let few_cpus = FreeCapacity {
            cpu: 16,
            memory: 0,
            devices: &[1000, 1000],
        };
        let many_cpus = FreeCapacity {
            cpu: 64,
            ..few_cpus
        };
        let cpu_heavy = demand(12, 1, 1000);
        let growth = |free, demand| forecast.choose_devices(free, demand).expect("fits").growth;
        assert!(growth(&few_cpus, &cpu_heavy) > growth(&many_cpus, &cpu_heavy));
        let without_device = demand(10, 0, 0);
        assert!(growth(&few_cpus, &without_device) > 0.0);
        assert!(growth(&many_cpus, &without_device) == 0.0);
    }

    #[test]
    fn growth_is_the_difference_of_fragmentation() {
        let demands = [(demand(3, 1, 300), 1.0), (demand(9, 2, 1000), 1.0)];
        let forecast = forecast(&demands);
        let free = FreeCapacity {
            cpu: 20,
            memory: 0,
            devices: &[1000, 700, 1000, 155],
        };
        for (demand, _) in demands {
            let choice = forecast.choose_devices(&free, &demand).expect("fits");
            let mut devices = free.devices.to_vec();
            for device in &choice.devices {
                devices[*device] -= demand.share;
            }
            let after = FreeCapacity {
                cpu: free.cpu - demand.cpu,
                devices: &devices,
                ..free
            };
            let difference = forecast.fragmentation(&after) - forecast.fragmentation(&free);
            assert!((choice.growth - difference).abs() < 1e-9);
        }
        assert_eq!(forecast.choose_devices(&free, &demand(21, 1, 300)), None);
        assert_eq!(forecast.choose_devices(&free, &demand(1, 3, 1000)), None);
    }

    #[test]
    fn the_loss_cache_equals_the_computation_for_one_host() {
        let demands = [
            (demand(3, 1, 300), 2.0),
            (demand(9, 2, 1000), 1.0),
            (demand(2, 0, 0), 1.0),
            (demand(1, 1, 450), 1.0),
        ];
        let (mut loss_cache, mut seed) = (LossCache::default(), 7u32);
        // A linear congruential generator.
        let mut random_below = |end: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % end
        };
        let mut hosts = vec![(0u64, Vec::new()); 20];
        for round in 0..20_000u32 {
            let host = random_below(20);
            let devices = (0..random_below(5)).map(|_| random_below(11) * 100);
            let devices: Vec<u32> = devices.collect();
            let cpu = u64::from(random_below(30));
            let free = FreeCapacity {
                cpu,
                memory: 5,
                devices: &devices,
            };
            loss_cache.set(host, &free);
            hosts[host as usize] = (cpu, devices);
            if round % 700 == 0 {
                let demands_subset = demands.iter().copied().skip(round as usize % 3);
                loss_cache.set_forecast(DemandForecast::new(demands_subset));
            }
            // The last demand is so rare that its class falls behind by more changes than the log holds.
            let is_turn_of_last = round % 9_001 == 9_000;
            let index = if is_turn_of_last { 3 } else { random_below(3) };
            let (demand, _) = demands[index as usize];
            loss_cache.update(&demand);
            let gradients = loss_cache.gradients(demand).expect("up to date");
            let host = random_below(20);
            let (cpu, devices) = &hosts[host as usize];
            let free = FreeCapacity {
                cpu: *cpu,
                memory: 5,
                devices,
            };
            let computed = loss_cache.forecast().choose_devices(&free, &demand);
            match (gradients.growth(host), computed) {
                (Some(cached), Some(choice)) => assert!((cached - choice.growth).abs() < 1e-6),
                (None, None) => {}
                (cached, computed) => panic!("{cached:?} is not {computed:?}"),
            }
        }
    }

    #[test]
    fn the_histogram_decays_and_stays_small() {
        let mut histogram = DemandHistogram::default();
        for number in 0..200_000 {
            histogram.record(demand(number, 1, 500));
        }
        for _ in 0..40_000 {
            histogram.record(demand(1, 1, 250));
        }
        assert!(histogram.weights.len() <= 2 * DEMANDS_MAX);
        let forecast = histogram.forecast();
        assert!(forecast.expected_loss(250) < 1.0 && forecast.cpu_per_share < 1.0);
    }

    #[test]
    fn a_forecast_without_requests_expects_all_devices_to_be_lost() {
        let forecast = DemandHistogram::default().forecast();
        let free = FreeCapacity {
            cpu: 1,
            memory: 1,
            devices: &[1000],
        };
        assert_eq!(forecast.fragmentation(&free), 1000.0);
    }
}
