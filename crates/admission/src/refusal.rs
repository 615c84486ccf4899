//! Why requests get no seat.

use std::time::Duration;

/// Why a request is refused, at its arrival or while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too many requests of the project wait.
    #[error(
        "{0} requests of this project wait already, and no more may wait (admission.queue_max)"
    )]
    ProjectQueueFull(usize),
    /// Too many requests wait in all. Either none is removed to make room for this request, because with it in its
    /// queue, the project's queue would be at least as long as that of every other project in the same pool. Or this
    /// request waited in the longest queue, and was removed from it to make room for one of another project.
    #[error("{0} requests wait already, and no more may wait")]
    QueueFull(usize),
    /// The request has waited for too long.
    #[error("no turn came within {} ms (admission.queue_time_ms)", .0.as_millis())]
    TimedOut(Duration),
}
