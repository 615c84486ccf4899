//! The pools of seats of the tenants' level.

/// The kind of a pool of seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolKind {
    /// For requests that are expected to compute for less than a millisecond. They may wait for the disk.
    Cheap,
    /// For requests that are expected to compute for longer, or whose kind is declared costly.
    Costly,
    /// For requests for two or more instances, because building them takes a millisecond of processor time or more.
    MultiCreate,
}

impl PoolKind {
    /// Every kind, in the order in which the metrics show them.
    pub const ALL: [Self; 3] = [Self::Cheap, Self::Costly, Self::MultiCreate];
}
