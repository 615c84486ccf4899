//! How many counts of `POST /v1/capacity` run at a time.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// The most counts that are simulated or wait for that.
const SIMULATIONS_MAX: usize = 2;

/// The permits of counts. Counts host by host wait for their turn; of simulated ones at most one waits.
pub(crate) struct CountPermits {
    /// One count goes through the hosts at a time.
    pub(crate) by_host: Arc<Semaphore>,
    /// Held by each count that is simulated or waits for it; without one a count is refused.
    pub(crate) admitted: Arc<Semaphore>,
    /// Held by the count that is simulated, so that there is only one copy of the state at a time.
    pub(crate) running: Arc<Semaphore>,
}

impl CountPermits {
    pub(crate) fn new() -> Self {
        Self {
            by_host: Arc::new(Semaphore::new(1)),
            admitted: Arc::new(Semaphore::new(SIMULATIONS_MAX)),
            running: Arc::new(Semaphore::new(1)),
        }
    }
}
