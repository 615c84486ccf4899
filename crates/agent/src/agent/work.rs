//! Carries out a piece of work on a host: its operations in order, and the destruction of the guest if an operation of
//! a build fails.

use std::sync::Arc;
use std::time::Duration;

use placewright_conductor::HostId;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::driver::{Driver, DriverError, DriverRequest, Operation};
use crate::host::{Outcome, Work};

use super::build_span::BuildSpan;

/// The context in which work on one host is carried out.
pub(super) struct WorkContext {
    pub(super) driver: Arc<dyn Driver>,
    pub(super) host: HostId,
    pub(super) host_name: Arc<str>,
    /// One permit for each build that may run concurrently.
    pub(super) build_permits: Arc<Semaphore>,
    pub(super) prepare_timeout: Duration,
}

impl WorkContext {
    /// Carries out the work, within a span if one is recorded for it ([`BuildSpan::begin`]).
    pub(super) async fn carry_out(self, work: Work) -> Outcome {
        let span = BuildSpan::begin(&work, &self.host_name);
        let outcome = self.run_all(&work).await;
        span.end(&outcome);
        outcome
    }

    /// Runs the operations in order until one fails. A failed build is undone.
    async fn run_all(&self, work: &Work) -> Outcome {
        // `acquire` fails only for a closed semaphore, and this one is never closed.
        let _permit = match work.makes_guest {
            true => self.build_permits.acquire().await.ok(),
            false => None,
        };
        for operation in &work.operations {
            let Err(error) = self.run(*operation, work).await else {
                continue;
            };
            if !work.makes_guest {
                let was_undone = false;
                return Outcome::Failed { error, was_undone };
            }
            let undone = self.run(Operation::Destroy, work).await;
            let (instance, _) = work.guest;
            if let Err(error) = &undone {
                tracing::warn!(
                    host = %self.host_name, %instance, %error,
                    "a failed build cannot be undone"
                );
            }
            let was_undone = undone.is_ok();
            return Outcome::Failed { error, was_undone };
        }
        Outcome::Done
    }

    async fn run(&self, operation: Operation, work: &Work) -> Result<(), DriverError> {
        let (instance, number) = work.guest;
        let running = self.driver.carry_out(DriverRequest {
            operation,
            host: self.host,
            host_name: Arc::clone(&self.host_name),
            instance,
            number,
            order: work.order.clone(),
        });
        if operation != Operation::Prepare {
            return running.await;
        }
        timeout(self.prepare_timeout, running)
            .await
            .unwrap_or_else(|_| {
                let limit = self.prepare_timeout.as_secs_f32();
                let message = format!("The devices were not ready within {limit} s.");
                Err(DriverError::retriable(message))
            })
    }
}
