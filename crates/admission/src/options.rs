//! The sizes of the priority levels.

use std::time::Duration;

/// How many cheap requests of tenants run at a time, for each processor: while one waits for the disk, others compute.
const CHEAP_PER_PROCESSOR: usize = 4;
/// The fewest seats for cheap requests by default, so that machines with one processor have some, too.
const CHEAP_MIN: usize = 8;

/// The options of admission control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// Whether admission control is enabled. Without it every request runs at once.
    pub is_enabled: bool,
    /// The number of requests of operators and services that run at a time.
    pub operator_seats: usize,
    /// The number of tenants' cheap requests that run at a time; 0: four for each processor, at least eight.
    pub tenant_seats: usize,
    /// The number of tenants' costly requests that run at a time; 0: one more than there are processors, or one if
    /// there is one.
    pub tenant_costly_seats: usize,
    /// The most waiting requests of one project.
    pub queue_max: usize,
    /// The most waiting requests of a priority level, over all projects.
    pub queue_total_max: usize,
    /// For how long a request may wait for a seat; after that it is refused.
    pub queue_time: Duration,
}

impl Default for AdmissionOptions {
    fn default() -> Self {
        Self {
            is_enabled: true,
            operator_seats: 4096,
            tenant_seats: 0,
            tenant_costly_seats: 0,
            queue_max: 100,
            queue_total_max: 4096,
            queue_time: Duration::from_secs(2),
        }
    }
}

impl AdmissionOptions {
    /// The number of seats on a machine with `processors` processors.
    #[must_use]
    pub fn seats(&self, processors: usize) -> Seats {
        let processors = processors.max(1);
        let cheap = match self.tenant_seats {
            0 => (processors * CHEAP_PER_PROCESSOR).max(CHEAP_MIN),
            seats => seats,
        };
        let costly = match self.tenant_costly_seats {
            0 => (processors + 1).min(2 * processors - 1),
            seats => seats,
        };
        Seats {
            operators: self.operator_seats.max(1),
            cheap,
            costly,
            costly_when_shared: (processors / 2).clamp(1, costly.max(1)),
            processors,
        }
    }
}

/// The number of seats of each priority level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seats {
    /// The seats of operators and services.
    pub operators: usize,
    /// The tenants' seats for cheap requests.
    pub cheap: usize,
    /// The tenants' seats for costly requests while one project sends requests. Multi-create requests have as many
    /// seats of their own.
    pub costly: usize,
    /// Of the seats in `costly`, those that are given out while several projects send requests: half of the processors,
    /// so that the other half is idle when a cheap request of another project comes.
    pub costly_when_shared: usize,
    /// The processors of the machine.
    pub processors: usize,
}
