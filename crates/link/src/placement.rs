//! The interface between a cell and placement.

use placewright_conductor::{Answer, Ask};

use crate::Coming;

/// Placement's interface towards cells: the only calls that a cell makes to control.
pub trait PlacementLink: Send + Sync + 'static {
    /// Sends requests and waits until their answers are durable. There is one answer for each
    /// request, in the same order.
    fn ask(&self, asks: Vec<Ask>) -> Coming<'_, Vec<Answer>>;
}
