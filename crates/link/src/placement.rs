//! How a cell reaches placement.

use placewright_conductor::{Answer, Ask};

use crate::Coming;

/// Placement, as a cell reaches it: the one thing that a cell calls up for.
pub trait PlacementLink: Send + Sync + 'static {
    /// Asks, and waits until the answers are durable. One answer for each ask, in their order.
    fn ask(&self, asks: Vec<Ask>) -> Coming<'_, Vec<Answer>>;
}
