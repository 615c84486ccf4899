//! The pools of seats of the tenants' level.

/// A pool of seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolKind {
    /// For requests that compute for less than a millisecond, and may wait for the disk.
    Cheap,
    /// For requests that compute for longer.
    Costly,
    /// For requests for many instances, if building these takes more than a millisecond of a processor.
    MultiCreate,
}

impl PoolKind {
    /// Every kind, in the order in which the metrics show them.
    pub const ALL: [Self; 3] = [Self::Cheap, Self::Costly, Self::MultiCreate];
}
