//! The costs of kinds of requests, learned from the times that requests took.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::pool_kind::PoolKind;

/// A kind of request. All texts are constants of the services' tables of routes, so there are few kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The service, such as `compute`.
    pub service: &'static str,
    /// The path of the route as in the documentation.
    pub route: &'static str,
    /// The HTTP method, such as `POST`: what a path costs differs between its methods.
    pub method: &'static str,
    /// Whether the service declares that a request of this kind may take milliseconds of processor time.
    pub is_declared_costly: bool,
}

/// The work behind the API that a request causes: building and storing. Other threads and processes do it, so its cost
/// cannot be measured with the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaterWork {
    /// How many instances are built for the request.
    pub instances: u32,
    /// The bytes that the request may have the services store: control stores them once, and cells once for each
    /// instance.
    pub stored_bytes: usize,
}

impl LaterWork {
    /// This work, or none if the request was refused.
    pub(crate) fn unless(self, is_refused: bool) -> Self {
        if is_refused { Self::default() } else { self }
    }

    /// The cost of building the instances, in microseconds.
    pub(crate) fn building_cost(self) -> u64 {
        u64::from(self.instances) * INSTANCE_COST_US
    }

    /// The cost of storing the bytes, in microseconds.
    pub(crate) fn storing_cost(self) -> u64 {
        let bytes = u64::try_from(self.stored_bytes).unwrap_or(u64::MAX);
        let copies = 1 + u64::from(self.instances.max(1));
        bytes.saturating_mul(copies) / STORED_BYTES_PER_US
    }

    /// The cost of all of it, in microseconds.
    pub(crate) fn cost(self) -> u64 {
        self.building_cost().saturating_add(self.storing_cost())
    }
}

/// The assumed processor time of a request before one of its kind has been measured.
const GUESS: Duration = Duration::from_micros(100);
/// The same for kinds that are declared costly.
const GUESS_IF_COSTLY: Duration = Duration::from_millis(5);

/// The cost of building one instance behind the API, where the cost cannot be measured: placing the instance, and
/// recording it in control and in its cell. `placewright bench boots` builds 3,300 a second on two processors.
pub(crate) const INSTANCE_COST_US: u64 = 500;

/// How many bytes a journal appends in a microsecond of one processor: an append with 120 kB more takes half a
/// millisecond longer.
const STORED_BYTES_PER_US: u64 = 240;

/// Requests that take at least this much processor time are costly, in microseconds.
const COSTLY_FROM_US: u64 = 1000;

/// The most kinds whose costs are kept. The tables of routes have fewer kinds; the bound protects against tables that
/// grow beyond it.
const KINDS_MAX: usize = 1024;

/// The maximum cost of one request, in microseconds of processor time: a minute.
const COST_MAX_US: u64 = 60_000_000;

/// A new measurement has the weight 1 / `MEAN_OVER` in the mean.
const MEAN_OVER: u64 = 8;

/// The mean costs of kinds of requests, in microseconds of processor time.
#[derive(Debug, Default)]
pub(crate) struct CostTable {
    /// By kind: the exponentially weighted mean of what one unit of a request took, in nanoseconds. A request for
    /// several instances counts as one unit for each of them.
    means_ns: BTreeMap<Kind, u64>,
}

impl CostTable {
    /// The expected cost of a request and of the work behind the API that it causes, in microseconds; at least 1.
    pub(crate) fn estimate(&self, kind: Kind, later: LaterWork) -> u64 {
        let expected = self.expected_us(kind, later.instances);
        expected.saturating_add(later.cost()).clamp(1, COST_MAX_US)
    }

    /// The pool whose seats a request takes.
    pub(crate) fn pool(&self, kind: Kind, later: LaterWork) -> PoolKind {
        if later.building_cost() >= COSTLY_FROM_US {
            PoolKind::MultiCreate
        } else if kind.is_declared_costly
            || self.expected_us(kind, later.instances) >= COSTLY_FROM_US
        {
            PoolKind::Costly
        } else {
            PoolKind::Cheap
        }
    }

    /// For how long a request is expected to keep a processor busy, in microseconds.
    fn expected_us(&self, kind: Kind, instances: u32) -> u64 {
        let mean_ns = match self.means_ns.get(&kind) {
            Some(mean) => *mean,
            None => guess_ns(kind),
        };
        mean_ns.saturating_mul(units(instances)) / 1000
    }

    /// The cost of a request that kept a processor busy for this time, with that of the work behind the API, in
    /// microseconds.
    pub(crate) fn actual(later: LaterWork, busy: Duration) -> u64 {
        let busy = u64::try_from(busy.as_micros()).unwrap_or(u64::MAX);
        busy.saturating_add(later.cost()).clamp(1, COST_MAX_US)
    }

    /// Corrects the mean cost of a kind by the time that a request of the kind kept a processor busy.
    pub(crate) fn learn(&mut self, kind: Kind, instances: u32, busy: Duration) {
        if self.means_ns.len() >= KINDS_MAX && !self.means_ns.contains_key(&kind) {
            return;
        }
        let busy_ns = u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX);
        let measured = busy_ns.min(COST_MAX_US * 1000) / units(instances);
        let mean = self.means_ns.entry(kind).or_insert_with(|| guess_ns(kind));
        *mean = (*mean * (MEAN_OVER - 1) + measured) / MEAN_OVER;
    }
}

fn guess_ns(kind: Kind) -> u64 {
    let guess = match kind.is_declared_costly {
        true => GUESS_IF_COSTLY,
        false => GUESS,
    };
    u64::try_from(guess.as_nanos()).unwrap_or(u64::MAX)
}

/// The number of units of a request, see [`CostTable::means_ns`].
fn units(instances: u32) -> u64 {
    u64::from(instances.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: Kind = Kind {
        service: "compute",
        route: "/servers/{server_id}",
        method: "GET",
        is_declared_costly: false,
    };

    fn building(instances: u32) -> LaterWork {
        LaterWork {
            instances,
            stored_bytes: 0,
        }
    }

    #[test]
    fn costs_begin_with_a_guess_and_follow_what_is_measured() {
        let mut costs = CostTable::default();
        assert_eq!(costs.estimate(CHEAP, building(0)), 100);
        let costly = Kind {
            is_declared_costly: true,
            ..CHEAP
        };
        assert_eq!(costs.estimate(costly, building(0)), 5000);
        for _ in 0..50 {
            costs.learn(CHEAP, 0, Duration::from_millis(3));
        }
        // The mean comes close to the measured 3 ms.
        let learned = costs.estimate(CHEAP, building(0));
        assert!((2900..=3000).contains(&learned), "{learned}");
        assert_eq!(costs.estimate(costly, building(0)), 5000, "kinds are apart");
    }

    #[test]
    fn several_instances_cost_several_times_as_much() {
        let mut costs = CostTable::default();
        for _ in 0..50 {
            costs.learn(CHEAP, 10, Duration::from_millis(1));
        }
        // Each instance costs the measured 100 µs, and `INSTANCE_COST_US` for building it.
        let [one, many] = [1, 1000].map(|n| costs.estimate(CHEAP, building(n)));
        assert!((550..=650).contains(&one), "{one}");
        assert!((550_000..=650_000).contains(&many), "{many}");
        assert_eq!(
            CostTable::actual(building(2), Duration::from_micros(30)),
            1030
        );
        let pools = [1, 2].map(|n| costs.pool(CHEAP, building(n)));
        assert_eq!(pools, [PoolKind::Cheap, PoolKind::MultiCreate]);
    }

    #[test]
    fn stored_bytes_cost_time_and_choose_no_pool() {
        let mut costs = CostTable::default();
        costs.learn(CHEAP, 0, Duration::from_micros(100));
        let storing = LaterWork {
            instances: 1,
            stored_bytes: 120_000,
        };
        assert_eq!(costs.estimate(CHEAP, storing), 100 + 500 + 1000);
        assert_eq!(CostTable::actual(storing, Duration::from_micros(30)), 1530);
        assert_eq!(costs.pool(CHEAP, storing), PoolKind::Cheap);
        // Control stores the body once, and cells store it for each instance.
        let many = LaterWork {
            instances: 100,
            ..storing
        };
        assert_eq!(many.storing_cost(), 101 * 500);
    }

    #[test]
    fn no_measurement_overflows() {
        let mut costs = CostTable::default();
        for _ in 0..100 {
            costs.learn(CHEAP, 0, Duration::MAX);
        }
        let later = LaterWork {
            instances: u32::MAX,
            stored_bytes: usize::MAX,
        };
        assert!(costs.estimate(CHEAP, later) > 0);
        assert!(CostTable::actual(later, Duration::MAX) > 0);
    }
}
