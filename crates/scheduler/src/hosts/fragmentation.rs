//! DevicePacking of devices that are shared or taken whole: which host and device waste the least.
//!
//! A device can be divided (a GPU of which tasks take 32 %), and its remainder may be too small
//! for any request, or be on a host without CPUs to go with it. The *fragmentation* of a host is
//! the share of its devices that is expected to stay unused; a request goes where fragmentation
//! grows least or shrinks most. This is the fragmentation gradient of Weng et al., "Beware of
//! Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX
//! ATC 2023), with another measure: theirs asks what the *next* task could not use, this one what
//! the *coming* tasks will leave unused, which packs better:
//!
//! - of a partly used device, the remainder that the best choice among the next [`HORIZON`]
//!   requests would leave unused ([`DemandForecast::lost`]);
//! - of a host, the part that exceeds the CPUs and memory which go with it in the average request.
//!
//! Both are derived from the [`DemandHistogram`] of requests, an exponentially decaying histogram.
//!
//! ```
//! use placewright_scheduler::hosts::fragmentation::{Demand, DemandHistogram, Room};
//!
//! let half = Demand { cpu: 4, memory: 16, devices: 1, share: 500 };
//! let whole = Demand { share: 1000, ..half };
//! let mut histogram = DemandHistogram::default();
//! for _ in 0..50 {
//!     histogram.note(half);
//!     histogram.note(whole);
//! }
//! let forecast = histogram.forecast();
//! let room = Room { cpu: 32, memory: 128, devices: &[1000, 500] };
//! let best = forecast.place(&room, &half).unwrap();
//! assert_eq!(best.devices.as_slice(), [1], "the half that is left, not another device");
//! ```

use std::collections::BTreeMap;

use smallvec::SmallVec;

mod loss_cache;

pub use loss_cache::{FragmentationGradients, LossCache};

/// The number of shares that make a whole device.
pub const WHOLE: u32 = 1000;
/// The resolution of shares: the number of steps of a whole device.
const STEPS: usize = 100;
/// The number of shares in a step.
const STEP: u32 = WHOLE / 100;
/// The number of future requests that are assumed to be offered a device. Measured on a production
/// trace: 60 to 120 pack equally well, 40 and 200 pack worse by 0.05 and 0.3 percent of all
/// devices.
pub const HORIZON: u32 = 80;
/// The decay of the weight of older requests, for each new one: half after 3,500.
const DECAY: f64 = 1.0002;
/// The number of kinds of requests that are remembered; it may double before the rarest are
/// evicted.
const KINDS_MAX: usize = 1024;

/// The free capacity of a host, in the units that requests use as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room<'a> {
    /// Unallocated CPUs of the host.
    pub cpu: u64,
    /// Unallocated memory of the host.
    pub memory: u64,
    /// By device: its unallocated shares, of [`WHOLE`].
    pub devices: &'a [u32],
}

/// What a request asks of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Demand {
    /// The number of CPUs requested.
    pub cpu: u64,
    /// The amount of memory requested.
    pub memory: u64,
    /// The number of devices; 0 for a request without devices.
    pub devices: u32,
    /// The shares of each device, of [`WHOLE`].
    pub share: u32,
}

impl Demand {
    fn total_share(&self) -> f64 {
        f64::from(self.devices) * f64::from(self.share)
    }

    /// Whether the host has enough of everything.
    #[must_use]
    pub fn fits(&self, room: &Room<'_>) -> bool {
        let devices = room.devices.iter().filter(|left| **left >= self.share);
        self.cpu <= room.cpu
            && self.memory <= room.memory
            && (self.devices == 0 || devices.count() >= self.devices as usize)
    }
}

/// The best devices of a host for a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The devices to take, as indexes into [`Room::devices`].
    pub devices: SmallVec<[usize; 8]>,
    /// The growth of the host's fragmentation, in shares; less is better.
    pub growth: f64,
}

/// A decaying histogram of the kinds of requests.
#[derive(Clone, Debug)]
pub struct DemandHistogram {
    weights: BTreeMap<Demand, f64>,
    unit: f64,
}

impl Default for DemandHistogram {
    fn default() -> Self {
        Self {
            weights: BTreeMap::new(),
            unit: 1.0,
        }
    }
}

impl DemandHistogram {
    /// Records a request in the histogram.
    pub fn note(&mut self, demand: Demand) {
        *self.weights.entry(demand).or_default() += self.unit;
        // Instead of scaling all older weights down, the weight of new requests grows.
        self.unit *= DECAY;
        if self.weights.len() > 2 * KINDS_MAX {
            let mut weights: Vec<f64> = self.weights.values().copied().collect();
            weights.sort_by(|a, b| b.total_cmp(a));
            let least = weights[KINDS_MAX];
            self.weights.retain(|_, weight| *weight > least);
        }
        if self.unit > 1e100 {
            for weight in self.weights.values_mut() {
                *weight /= self.unit;
            }
            self.unit = 1.0;
        }
    }

    /// Derives the expectation for future requests. Takes about 0.1 ms, and is used for some
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

/// The expected loss of devices, given the distribution of future requests.
#[derive(Clone, Debug, PartialEq)]
pub struct DemandForecast {
    /// By remaining steps of a device: the share that is expected to stay unused.
    lost: [f64; STEPS + 1],
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
    /// The expectation for these kinds of requests with their weights.
    #[must_use]
    pub fn new(kinds: impl Iterator<Item = (Demand, f64)>) -> Self {
        let mut by_steps = [0.0; STEPS + 1];
        let (mut share, mut cpu, mut memory) = (0.0, 0.0, 0.0);
        for (demand, weight) in kinds.filter(|(demand, _)| demand.total_share() > 0.0) {
            let steps = demand.share.div_ceil(STEP) as usize;
            by_steps[steps.min(STEPS)] += weight;
            share += weight * demand.total_share();
            cpu += weight * demand.cpu as f64;
            memory += weight * demand.memory as f64;
        }
        let all: f64 = by_steps.iter().sum();
        let chances = by_steps
            .iter()
            .enumerate()
            .filter(|(_, weight)| **weight > 0.0);
        let chances: Vec<(usize, f64)> = chances
            .map(|(steps, weight)| (steps, weight / all))
            .collect();
        let used = expected_use(&chances);
        let mut lost = [0.0; STEPS + 1];
        for (steps, lost) in lost.iter_mut().enumerate() {
            *lost = (steps as f64 - used[steps]) * f64::from(STEP);
        }
        Self {
            lost,
            cpu_per_share: if share > 0.0 { cpu / share } else { 0.0 },
            memory_per_share: if share > 0.0 { memory / share } else { 0.0 },
        }
    }

    /// The share of a device that is expected to stay unused, given its remaining shares.
    #[must_use]
    #[inline]
    pub fn lost(&self, left: u32) -> f64 {
        let steps = (left.min(WHOLE) / STEP) as usize;
        // A remainder of less than a step is lost.
        self.lost[steps] + f64::from(left % STEP)
    }

    /// The shares that stay idle for lack of CPUs or memory.
    fn stranded(&self, cpu: u64, memory: u64, share: f64) -> f64 {
        let fed = |amount: u64, per_share: f64| {
            if per_share > 0.0 {
                amount as f64 / per_share
            } else {
                f64::INFINITY
            }
        };
        let fed_by_both = fed(cpu, self.cpu_per_share).min(fed(memory, self.memory_per_share));
        (share - fed_by_both).max(0.0)
    }

    /// The shares of a host's devices that are expected to stay unused. A share that is idle for
    /// two reasons counts twice.
    #[must_use]
    pub fn fragmentation(&self, room: &Room<'_>) -> f64 {
        let lost: f64 = room.devices.iter().map(|left| self.lost(*left)).sum();
        let share: u32 = room.devices.iter().sum();
        lost + self.stranded(room.cpu, room.memory, f64::from(share))
    }

    /// The growth of the expected loss of devices by the best choice of them for a request;
    /// infinite if too few are sufficient.
    fn loss(&self, devices: &[u32], demand: &Demand) -> f64 {
        let wanted = demand.devices as usize;
        let gradients = devices.iter().filter_map(|left| {
            let rest = left.checked_sub(demand.share)?;
            Some(self.lost(rest) - self.lost(*left))
        });
        match wanted {
            0 => 0.0,
            1 => gradients.fold(f64::INFINITY, f64::min),
            _ => {
                let mut gradients: SmallVec<[f64; 16]> = gradients.collect();
                if gradients.len() < wanted {
                    return f64::INFINITY;
                }
                gradients.sort_unstable_by(f64::total_cmp);
                gradients[..wanted].iter().sum()
            }
        }
    }

    /// The best devices of a host for a request; `None` if it does not fit.
    #[must_use]
    pub fn place(&self, room: &Room<'_>, demand: &Demand) -> Option<Place> {
        let cpu = room.cpu.checked_sub(demand.cpu)?;
        let memory = room.memory.checked_sub(demand.memory)?;
        let wanted = demand.devices as usize;
        let mut choices: SmallVec<[(f64, usize); 16]> = SmallVec::new();
        if wanted > 0 {
            for (device, left) in room.devices.iter().enumerate() {
                if let Some(rest) = left.checked_sub(demand.share) {
                    choices.push((self.lost(rest) - self.lost(*left), device));
                }
            }
            if choices.len() < wanted {
                return None;
            }
            // A stable sort, so that equal devices are taken in their order.
            choices.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            choices.truncate(wanted);
        }
        let share = f64::from(room.devices.iter().sum::<u32>());
        let before = self.stranded(room.cpu, room.memory, share);
        let after = self.stranded(cpu, memory, share - demand.total_share());
        let lost: f64 = choices.iter().map(|(growth, _)| growth).sum();
        Some(Place {
            devices: choices.iter().map(|(_, device)| *device).collect(),
            growth: lost + after - before,
        })
    }
}

/// By remaining steps of a device: how many are expected to be used if [`HORIZON`] requests are
/// offered it and it takes only those that are best for it in the end (dynamic programming).
fn expected_use(chances: &[(usize, f64)]) -> [f64; STEPS + 1] {
    let mut used = [0.0; STEPS + 1];
    for _ in 0..HORIZON {
        let mut next = used;
        for (left, next) in next.iter_mut().enumerate() {
            let without = used[left];
            let gains = chances.iter().take_while(|(steps, _)| *steps <= left);
            let gain = |(steps, chance): &(usize, f64)| {
                let with = *steps as f64 + used[left - steps];
                chance * (with - without).max(0.0)
            };
            *next = without + gains.map(gain).sum::<f64>();
        }
        used = next;
    }
    used
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

    fn forecast(kinds: &[(Demand, f64)]) -> DemandForecast {
        DemandForecast::new(kinds.iter().copied())
    }

    #[test]
    fn what_nobody_asks_for_is_lost() {
        let forecast = forecast(&[(demand(1, 1, 810), 0.5), (demand(1, 1, 1000), 0.5)]);
        assert!((forecast.lost(190) - 190.0).abs() < 1e-9);
        assert!((forecast.lost(805) - 805.0).abs() < 1e-9);
        assert!((forecast.lost(810) - 0.0).abs() < 1e-9);
        assert!(
            forecast.lost(1000) < 1.0,
            "a whole device waits for a whole demand"
        );
        assert_eq!(forecast.lost(0), 0.0);
    }

    #[test]
    fn a_hole_is_kept_for_what_fills_it() {
        let kinds = [
            (demand(1, 1, 470), 0.4),
            (demand(1, 1, 320), 0.2),
            (demand(1, 1, 1000), 0.4),
        ];
        let forecast = forecast(&kinds);
        let room = Room {
            cpu: 100,
            memory: 0,
            devices: &[530, 680],
        };
        let place = forecast.place(&room, &kinds[0].0).expect("fits");
        assert_eq!(place.devices.as_slice(), [0]);
        let place = forecast.place(&room, &kinds[1].0).expect("fits");
        assert_eq!(place.devices.as_slice(), [1]);
    }

    #[test]
    fn devices_go_with_cpus() {
        let forecast = forecast(&[(demand(8, 1, 1000), 1.0)]);
        let lean = Room {
            cpu: 16,
            memory: 0,
            devices: &[1000, 1000],
        };
        let rich = Room { cpu: 64, ..lean };
        let greedy = demand(12, 1, 1000);
        let growth = |room| forecast.place(room, &greedy).expect("fits").growth;
        assert!(growth(&lean) > growth(&rich));
        let without_device = demand(10, 0, 0);
        let growth = |room| forecast.place(room, &without_device).expect("fits").growth;
        assert!(growth(&lean) > 0.0 && growth(&rich) == 0.0);
    }

    #[test]
    fn growth_is_the_difference_of_fragmentation() {
        let kinds = [(demand(3, 1, 300), 1.0), (demand(9, 2, 1000), 1.0)];
        let forecast = forecast(&kinds);
        let room = Room {
            cpu: 20,
            memory: 0,
            devices: &[1000, 700, 1000, 155],
        };
        for (wanted, _) in kinds {
            let place = forecast.place(&room, &wanted).expect("fits");
            let mut devices = room.devices.to_vec();
            for device in &place.devices {
                devices[*device] -= wanted.share;
            }
            let after = Room {
                cpu: room.cpu - wanted.cpu,
                devices: &devices,
                ..room
            };
            let difference = forecast.fragmentation(&after) - forecast.fragmentation(&room);
            assert!((place.growth - difference).abs() < 1e-9);
        }
        assert_eq!(forecast.place(&room, &demand(21, 1, 300)), None);
        assert_eq!(forecast.place(&room, &demand(1, 3, 1000)), None);
    }

    #[test]
    fn the_loss_cache_says_what_a_look_at_the_host_says() {
        let kinds = [
            (demand(3, 1, 300), 2.0),
            (demand(9, 2, 1000), 1.0),
            (demand(2, 0, 0), 1.0),
            (demand(1, 1, 450), 1.0),
        ];
        let (mut loss_cache, mut number) = (LossCache::default(), 7u32);
        let mut next = |end: u32| {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (number >> 8) % end
        };
        let mut hosts = vec![(0u64, Vec::new()); 20];
        for round in 0..20_000u32 {
            let host = next(20);
            let devices: Vec<u32> = (0..next(5)).map(|_| next(11) * 100).collect();
            let cpu = u64::from(next(30));
            let room = Room {
                cpu,
                memory: 5,
                devices: &devices,
            };
            loss_cache.set(host, &room);
            hosts[host as usize] = (cpu, devices);
            if round % 700 == 0 {
                let some = kinds.iter().copied().skip(round as usize % 3);
                loss_cache.set_forecast(DemandForecast::new(some));
            }
            // One class falls behind by more changes than the log remembers.
            let kind = if round % 9_001 == 9_000 { 3 } else { next(3) };
            let (wanted, _) = kinds[kind as usize];
            loss_cache.ready(&wanted);
            let gradients = loss_cache.gradients(wanted).expect("it is ready");
            let host = next(20);
            let (cpu, devices) = &hosts[host as usize];
            let room = Room {
                cpu: *cpu,
                memory: if devices.is_empty() && *cpu == 0 {
                    0
                } else {
                    5
                },
                devices,
            };
            let looked = loss_cache.forecast().place(&room, &wanted);
            match (gradients.of(host), looked) {
                (Some(kept), Some(place)) => assert!((kept - place.growth).abs() < 1e-6),
                (None, None) => {}
                (kept, looked) => panic!("{kept:?} is not {looked:?}"),
            }
        }
    }

    #[test]
    fn popularity_forgets_and_stays_small() {
        let mut histogram = DemandHistogram::default();
        for number in 0..200_000 {
            histogram.note(demand(number, 1, 500));
        }
        for _ in 0..40_000 {
            histogram.note(demand(1, 1, 250));
        }
        assert!(histogram.weights.len() <= 2 * KINDS_MAX);
        let forecast = histogram.forecast();
        assert!(forecast.lost(250) < 1.0 && forecast.cpu_per_share < 1.0);
    }

    #[test]
    fn nothing_is_known_of_no_requests() {
        let forecast = DemandHistogram::default().forecast();
        let room = Room {
            cpu: 1,
            memory: 1,
            devices: &[1000],
        };
        assert_eq!(forecast.fragmentation(&room), 1000.0);
    }
}
