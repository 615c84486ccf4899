//! The other replicas of control, for data that only one replica has in memory.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use placewright_scheduler::host_state::{NumberedUpdate, Receipt};
use uuid::Uuid;

/// The other replicas of control, as this one reaches them.
pub trait OtherReplicas: fmt::Debug + Send + Sync {
    /// The number of this replica among all replicas.
    fn own_origin(&self) -> u64;

    /// Asks the replica that offered a candidate for it, in the form of `offer` of `placewright-records`. `None` if no
    /// replica keeps it. The error is the reason why the replica that may keep it cannot be asked.
    fn find_offer(&self, candidate: Uuid) -> BoxFuture<'_, Result<Option<Vec<u8>>, String>>;

    /// Makes all other replicas apply an update of a host that this replica got. Returns the receipt of each replica
    /// that answers.
    fn forward_update(
        &self,
        host: Uuid,
        update: Arc<NumberedUpdate>,
    ) -> BoxFuture<'_, Vec<Receipt>>;
}
