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
    /// Too many requests wait in all. A request of operators or services is refused at its arrival. Among tenants, the
    /// project with the longest queue in the pool gives way. If that is the project of the arriving request, which is
    /// counted too, the arriving request is refused. If not, the newest request of the longest queue is refused, to
    /// make room for the arriving one.
    #[error("{0} requests wait already, and no more may wait")]
    QueueFull(usize),
    /// The request has waited for too long.
    #[error("no turn came within {} ms (admission.queue_time_ms)", .0.as_millis())]
    TimedOut(Duration),
}
