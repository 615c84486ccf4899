//! Releases the claims of a request that failed afterwards.

use std::time::Duration;

use placewright_placement::{Command, ConsumerUuid, Timestamp};
use uuid::Uuid;

use super::shared::Shared;
use crate::clock::now;
use crate::placer::claim;

/// How many times a command is submitted while the store fails.
const SUBMISSIONS_MAX: u32 = 16;
/// The wait after the first submission; it doubles each time, so that all waits together take up to 55 minutes.
const RETRY_MIN: Duration = Duration::from_millis(50);

impl Shared {
    /// Submits a claim again whose outcome is unknown because the store failed, until the claim is
    /// answered. Then the state shows whether it took effect. A release alone would not suffice: if the
    /// state has no claim, the release is refused and nothing is appended, but the store may have the
    /// claim nevertheless.
    pub(super) async fn resolve_unknown_claim(&self, claim: Command) {
        let mut wait = RETRY_MIN;
        for _ in 0..SUBMISSIONS_MAX {
            if self.submit(claim.clone()).await.is_ok() {
                return;
            }
            tokio::time::sleep(wait).await;
            wait *= 2;
        }
        tracing::error!("it is not known whether a claim of a failed request was kept");
    }

    /// Releases the resources that a request claimed at a certain time before it failed, and retries while the store
    /// fails. A later claim by others for the same consumer stays.
    pub(super) async fn roll_back(&self, consumer: Uuid, at: Timestamp) {
        let uuid = ConsumerUuid::from_uuid(consumer);
        let mut wait = RETRY_MIN;
        for _ in 0..SUBMISSIONS_MAX {
            let seen = self.placement.engine().read_now(|machine| {
                let found = machine.placement().consumer(uuid)?;
                Some((found.generation, found.allocated_at))
            });
            let generation = match seen {
                Some((generation, allocated_at)) if allocated_at == at => generation,
                Some(_) | None => return,
            };
            match self
                .submit(claim::release_generation(uuid, generation, now()))
                .await
            {
                Ok(Ok(_)) => return,
                // The consumer changed meanwhile, so its state is read again.
                Ok(Err(_)) => {}
                Err(_) => tokio::time::sleep(wait).await,
            }
            wait *= 2;
        }
        tracing::error!(%consumer, "a claim of a failed request could not be given back");
    }
}
