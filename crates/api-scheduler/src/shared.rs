//! What the requests of the scheduler API share, and the context of one of them.

use std::sync::Arc;

use placewright_control::destinations::DestinationsHandle;
use placewright_control::{Placement, SchedulerHandle};
use placewright_http::{Gateway, Reply};
use placewright_placement::{Command, Outcome, Refusal, State};
use placewright_scheduler::host_table::HostTable;
use placewright_scheduler::request::{self, Unreadable};
use placewright_scheduler::select::Scheduler;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::error_response::{Answer, ErrorResponse};

/// The data that all requests share.
pub(crate) struct ApiState {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) placement: Placement,
    pub(crate) ranker: SchedulerHandle,
    pub(crate) destinations: DestinationsHandle,
    /// A semaphore with one permit for counting, which works on a copy of the state.
    pub(crate) counting: Semaphore,
}

/// The scheduler behind its lock: the host table, the rankings and their caches.
pub(crate) struct SchedulerState<'a> {
    pub(crate) scheduler: &'a mut Scheduler,
}

impl ApiState {
    /// Computes a value from the scheduler and the state; see [`SchedulerHandle::decide`].
    pub(crate) fn decide<T>(
        &self,
        compute: impl FnOnce(&mut SchedulerState<'_>, &State) -> T,
    ) -> T {
        self.ranker.decide(|scheduler, control| {
            compute(&mut SchedulerState { scheduler }, &control.placement)
        })
    }

    /// Changes the host table; see [`SchedulerHandle::with_hosts`].
    pub(crate) fn change_hosts<T>(&self, change: impl FnOnce(&mut HostTable) -> T) -> T {
        self.ranker.with_hosts(change)
    }

    /// Submits a command of placement, and waits until its outcome is durable.
    pub(crate) async fn submit(&self, command: Command) -> Answer<Result<Outcome, Refusal>> {
        let answer = self.placement.submit(command).await;
        Ok(answer?)
    }
}

/// A request after authentication and routing.
pub(crate) struct RoutedRequest<'a> {
    pub(crate) core: &'a Arc<ApiState>,
    pub(crate) query: &'a str,
    pub(crate) body: &'a [u8],
}

impl RoutedRequest<'_> {
    /// Parses the body; an error names the field.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Answer<T> {
        if let Ok(value) = serde_json::from_slice(self.body) {
            return Ok(value);
        }
        // Parses it again, with a slower parser that finds the field that is wrong.
        let mut json = serde_json::Deserializer::from_slice(self.body);
        let value = request::read(&mut json)?;
        json.end().map_err(|error| Unreadable {
            field: ".".to_owned(),
            message: error.to_string(),
        })?;
        Ok(value)
    }
}

/// Checks the owner of a consumer: placement requires 1 to 255 characters for each part.
pub(crate) fn check_owner(field: &str, text: &str) -> Answer<()> {
    if (1..=255).contains(&text.chars().count()) {
        return Ok(());
    }
    let detail = format!("{field}: a claim needs it, 1 to 255 characters");
    Err(ErrorResponse::field(field, detail))
}

/// A response with a JSON body.
pub(crate) fn json(status: u16, value: &impl Serialize) -> Answer<Reply> {
    Ok(Reply::value(status, value)?)
}
