//! The interface between a cell and placement.

use placewright_conductor::{ClaimRequest, ClaimResponse};

use crate::LinkFuture;

/// Placement's interface towards cells: the only calls that a cell makes to control.
pub trait PlacementLink: Send + Sync + 'static {
    /// Sends requests and waits until their answers are durable. There is one answer for each
    /// request, in the same order.
    ///
    /// Whether the caller is a cell, and asks for what is its own, is checked before: see
    /// [`PlacementLink::check`].
    fn ask(&self, asks: Vec<ClaimRequest>) -> LinkFuture<'_, Vec<ClaimResponse>>;

    /// Whether requests concern nothing but the cell of this name: its instances, its hosts and its
    /// moves. Called for requests of cells that showed a certificate.
    ///
    /// # Errors
    ///
    /// The first that does not, as a sentence for the cell.
    fn check(&self, cell: &str, asks: &[ClaimRequest]) -> Result<(), String> {
        // Who does not know cells lets none of them in.
        let _ = asks;
        Err(format!("there is no cell {cell:?} here"))
    }
}
