//! The interface between a cell and placement.

use placewright_conductor::{ClaimRequest, ClaimResponse};

use crate::LinkFuture;

/// Placement's interface towards cells: the only calls that a cell makes to control.
pub trait PlacementLink: Send + Sync + 'static {
    /// Sends requests and waits until their answers are durable. There is one answer for each
    /// request, in the same order.
    fn ask(&self, asks: Vec<ClaimRequest>) -> LinkFuture<'_, Vec<ClaimResponse>>;
}
