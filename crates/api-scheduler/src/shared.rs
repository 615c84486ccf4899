//! The state that all requests of the scheduler API share, and a request after routing.

use std::sync::{Arc, OnceLock};

use placewright_control::destinations::DestinationsHandle;
use placewright_control::{OtherReplicas, Placement, SchedulerHandle};
use placewright_http::{Gateway, Reply};
use placewright_placement::{Command, Outcome, Refusal, State};
use placewright_scheduler::host_table::HostTable;
use placewright_scheduler::request::{self, RequestParseError};
use placewright_scheduler::select::Scheduler;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::count_permits::CountPermits;
use crate::error_response::{ErrorResponse, HandlerResult};

/// The handles that all requests share.
pub(crate) struct ApiState {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) placement: Placement,
    pub(crate) scheduler: SchedulerHandle,
    pub(crate) destinations: DestinationsHandle,
    /// The other replicas, if this process is one of several.
    pub(crate) other_replicas: OnceLock<Arc<dyn OtherReplicas>>,
    /// The permits of `POST /v1/capacity`, which limit how many counts run at a time.
    pub(crate) count_permits: CountPermits,
}

impl ApiState {
    /// Computes a value from the scheduler and the state of placement, which are locked meanwhile; see
    /// [`SchedulerHandle::with_state`].
    pub(crate) fn with_scheduler<T>(&self, compute: impl FnOnce(&mut Scheduler, &State) -> T) -> T {
        self.scheduler
            .with_state(|scheduler, control| compute(scheduler, &control.placement))
    }

    /// Changes the host table; see [`SchedulerHandle::change_hosts`].
    pub(crate) fn change_hosts<T>(&self, change: impl FnOnce(&mut HostTable) -> T) -> T {
        self.scheduler.change_hosts(change)
    }

    /// Submits a command of placement, and waits until its outcome is durable.
    pub(crate) async fn submit(&self, command: Command) -> HandlerResult<Result<Outcome, Refusal>> {
        let outcome = self.placement.submit(command).await;
        Ok(outcome?)
    }
}

/// A request after authentication and routing.
pub(crate) struct RoutedRequest<'a> {
    pub(crate) api_state: &'a Arc<ApiState>,
    pub(crate) query: &'a str,
    pub(crate) body: &'a [u8],
}

impl RoutedRequest<'_> {
    /// Parses the body.
    ///
    /// # Errors
    ///
    /// 400 with the field that is not valid.
    pub(crate) fn parse_body<T: DeserializeOwned>(&self) -> HandlerResult<T> {
        if let Ok(value) = serde_json::from_slice(self.body) {
            return Ok(value);
        }
        // A slower parser parses the body again, because its error names the field.
        let mut deserializer = serde_json::Deserializer::from_slice(self.body);
        let value = request::read(&mut deserializer)?;
        deserializer.end().map_err(|error| RequestParseError {
            field: ".".to_owned(),
            message: error.to_string(),
        })?;
        Ok(value)
    }
}

/// Checks the project or the user of a consumer: placement requires 1 to 255 characters.
pub(crate) fn check_owner(field: &str, text: &str) -> HandlerResult<()> {
    if (1..=255).contains(&text.chars().count()) {
        return Ok(());
    }
    let detail = format!("{field}: a claim needs it, 1 to 255 characters");
    Err(ErrorResponse::field(field, detail))
}

/// A response with a JSON body.
pub(crate) fn json_reply(status: u16, value: &impl Serialize) -> HandlerResult<Reply> {
    Ok(Reply::value(status, value)?)
}
