//! The interface between a cell and placement.

use placewright_conductor::{ClaimRequest, ClaimResponse};

use crate::LinkFuture;

/// Placement's interface towards cells: the only calls that a cell's conductor makes to control.
pub trait PlacementLink: Send + Sync + 'static {
    /// Sends requests and waits until their answers are durable. There is one answer for each
    /// request, in the same order.
    ///
    /// The caller must have checked with [`PlacementLink::authorize`] that the requests concern only the
    /// cell that sends them.
    fn request_claims(&self, requests: Vec<ClaimRequest>) -> LinkFuture<'_, Vec<ClaimResponse>>;

    /// Waits until [`PlacementLink::authorize`] sees every change that was acknowledged before the call, by any replica
    /// of control.
    fn catch_up(&self) -> LinkFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Checks that requests concern only the cell of this name: its instances, its hosts and its
    /// moves. Called for requests of cells that presented a certificate.
    ///
    /// # Errors
    ///
    /// A sentence for the cell about the first request that concerns anything else.
    fn authorize(&self, cell: &str, requests: &[ClaimRequest]) -> Result<(), String> {
        // An implementation that knows no cells refuses all of them.
        let _ = requests;
        Err(format!("there is no cell {cell:?} here"))
    }
}
