//! A request after authentication and routing, with the operations that handlers need: policy
//! checks, reads of the state, commands.

use parking_lot::Mutex;
use placewright_auth::{Identity, Rule, Target};
use placewright_conductor::super_conductor::{Command, LimitCheck, Outcome, Refusal};
use placewright_conductor::{CellId, ControlState, Reply as CellReply};
use placewright_control::Views;
use placewright_engine::{Reading, SubmitError};
use placewright_errors::chain;
use placewright_http::{ApiError, ApiResult};
use placewright_link::{CellOperation, LinkError};
use placewright_placement::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::api_state::ApiState;
use crate::error::{self, to_sentence};
use crate::query::Query;
use crate::version::Version;

/// How often a change is tried when concurrent changes conflict with it.
pub(crate) const CHANGE_TRIES_MAX: usize = 16;

/// An authenticated and routed request, as handlers receive it.
pub(crate) struct RoutedRequest<'a> {
    pub(crate) api_state: &'a ApiState,
    pub(crate) version: Version,
    /// The UUID of the request, which is in the request id of the answer. An action that the request begins has it too.
    pub(crate) request_uuid: Uuid,
    pub(crate) identity: &'a Identity,
    /// The parameters of the path, each with its name.
    pub(crate) parameters: &'a [(&'static str, String)],
    pub(crate) query: Query<'a>,
    pub(crate) body: &'a [u8],
    /// Scheme and host of the API as the client addresses it, for links.
    pub(crate) origin: &'a str,
    /// The project in the path, with a slash before it; empty if the path has none.
    pub(crate) project_prefix: &'a str,
    /// The time at which the request was received.
    pub(crate) now: Timestamp,
    /// For requests that change nothing: the newest journal entry that any of the handler's reads has seen. The
    /// response is sent once that entry is durable. `None` for requests that change something: each read then waits
    /// until the state that it has seen is durable.
    pub(crate) reading: Option<Mutex<Reading>>,
}

impl RoutedRequest<'_> {
    /// The value of a parameter of the path; empty if the path does not have it.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        let mut parameters = self.parameters.iter();
        let parameter = parameters.find(|(key, _)| *key == name);
        parameter.map_or("", |(_, value)| value)
    }

    /// The id of the caller's project; empty if the caller has none.
    pub(crate) fn project(&self) -> &str {
        self.identity.project_id().unwrap_or("")
    }

    /// The id of the caller's user; empty if the caller has none.
    pub(crate) fn user(&self) -> &str {
        self.identity.user_id().unwrap_or("")
    }

    /// Parses the body as JSON.
    pub(crate) fn json(&self) -> ApiResult<Value> {
        serde_json::from_slice(self.body)
            .map_err(|error| ApiError::bad_request(format!("The body is no JSON: {error}.")))
    }

    /// Checks a policy rule for an object that belongs to the caller, or to no project.
    ///
    /// # Errors
    ///
    /// 403 if the rule does not allow the operation.
    pub(crate) fn authorize(&self, rule: Rule) -> ApiResult<()> {
        let target = Target::own(self.identity);
        self.check_rule(rule, &target)
    }

    /// Checks a policy rule for an object that belongs to this project and user.
    pub(crate) fn authorize_for(&self, rule: Rule, project: &str, user: &str) -> ApiResult<()> {
        let target = Target::new()
            .with("project_id", Some(project))
            .with("user_id", Some(user));
        self.check_rule(rule, &target)
    }

    fn check_rule(&self, rule: Rule, target: &Target<'_>) -> ApiResult<()> {
        let allowed = self
            .api_state
            .gateway
            .authorize(rule, self.identity, target);
        allowed.map_err(|error| {
            error.with_detail(format!("Policy does not allow {rule} to be performed."))
        })
    }

    /// Whether a policy rule allows the operation to the caller, for an object that belongs to the caller.
    pub(crate) fn is_allowed(&self, rule: Rule) -> bool {
        self.authorize(rule).is_ok()
    }

    /// Whether the caller may see objects of all projects, as administrators do.
    pub(crate) fn sees_all_projects(&self) -> bool {
        self.is_allowed(Rule::ServersDetailAllProjects)
    }

    /// The URL of an object at this path, with the version of the API (`/v2.1`).
    pub(crate) fn link(&self, path: &str) -> String {
        format!("{}/v2.1{}{path}", self.origin, self.project_prefix)
    }

    /// The URL of an object without the version.
    pub(crate) fn bookmark(&self, path: &str) -> String {
        format!("{}{}{path}", self.origin, self.project_prefix)
    }

    /// The two links of an object, in the JSON form that most objects have.
    pub(crate) fn links(&self, path: &str) -> Value {
        serde_json::json!([
            {"rel": "self", "href": self.link(path)},
            {"rel": "bookmark", "href": self.bookmark(path)},
        ])
    }

    /// Computes a value from the state of control and the latest reports of the cells. The state that the computation
    /// has seen is durable when this returns or, if the request changes nothing, when the response is sent.
    pub(crate) async fn read<T: Send>(
        &self,
        compute: impl Fn(&ControlState, &Views) -> T + Send,
    ) -> T {
        let control = &self.api_state.control;
        match &self.reading {
            // A listing reads the state many times. Waiting for the disk after each of these reads
            // would take longer than the reads themselves.
            Some(reading) => control.read_part(&mut reading.lock(), compute),
            None => control.read(compute).await,
        }
    }

    /// As [`Self::read`], for a computation that may fail.
    pub(crate) async fn try_read<T: Send>(
        &self,
        compute: impl Fn(&ControlState, &Views) -> ApiResult<T> + Send,
    ) -> ApiResult<T> {
        self.read(compute).await
    }

    /// The check that the stored records of the project's servers stay within the limit when they
    /// grow by `bytes`.
    pub(crate) fn project_bytes_check(&self, project: &str, bytes: u64) -> LimitCheck {
        LimitCheck::InstanceBytes {
            project: project.to_owned(),
            added: bytes,
            max: self.api_state.limits().project_bytes_max,
        }
    }

    /// Adds the action that the body names to the audit log's event.
    pub(crate) fn note_action(&self, name: &str) {
        if let Some(note) = placewright_audit_log::current_note() {
            note.set_action(name);
        }
    }

    /// Adds the ids of created objects to the audit log's event.
    pub(crate) fn note_created(&self, ids: impl IntoIterator<Item = impl ToString>) {
        if let Some(note) = placewright_audit_log::current_note() {
            ids.into_iter().for_each(|id| note.add_id(id));
        }
    }

    /// Submits a command to control; the inner result is control's decision.
    pub(crate) async fn submit(&self, command: Command) -> ApiResult<Result<Outcome, Refusal>> {
        let decision = self.api_state.control.submit(command).await;
        decision.map_err(|error| self.submit_error(&error))
    }

    /// Reads the state in order to make a command from it. What is read need not be durable yet. Pass the reading to
    /// [`Self::submit_after`] with the command or, if there is no command to submit, to [`Self::wait_until_durable`].
    pub(crate) fn read_for_command<T>(
        &self,
        compute: impl FnOnce(&ControlState, &Views) -> T,
    ) -> (T, Reading) {
        let mut reading = Reading::default();
        let value = (self.api_state.control).read_part(&mut reading, compute);
        (value, reading)
    }

    /// Waits until the state that a reading has seen is durable. False if a part of that state was undone, because the
    /// store failed.
    pub(crate) async fn wait_until_durable(&self, reading: Reading) -> bool {
        self.api_state.control.wait_durable(reading).await
    }

    /// Submits a command that was made from what a reading saw, and waits only once until both are durable. Returns
    /// `None` if something that the reading saw was undone because the store failed. The command then has no effect,
    /// and should be made anew.
    pub(crate) async fn submit_after(
        &self,
        reading: Reading,
        command: Command,
    ) -> ApiResult<Option<Result<Outcome, Refusal>>> {
        match self.api_state.control.submit_after(reading, command).await {
            Ok(decision) => Ok(Some(decision)),
            Err(SubmitError::ReadingUndone) => Ok(None),
            Err(error) => Err(self.submit_error(&error)),
        }
    }

    fn submit_error(&self, error: &SubmitError) -> ApiError {
        let effect = error.effect();
        let text = format!("{effect}: {}", chain(error));
        if matches!(error, SubmitError::TooLarge { .. }) {
            // The request is too large, which is not a failure of the store.
            return ApiError::too_large(text);
        }
        tracing::warn!("{text}");
        // Details of the store's failure are shown to operators only.
        match self.sees_all_projects() {
            true => error::unavailable(text),
            false => error::unavailable(format!("{effect}: try again later.")),
        }
    }

    /// Submits a command; a refusal becomes an error response.
    pub(crate) async fn execute(&self, command: Command) -> ApiResult<Outcome> {
        self.submit(command).await?.map_err(error::from_refusal)
    }

    /// Makes a cell carry out an operation; a refusal becomes a 409.
    pub(crate) async fn run_in_cell(
        &self,
        cell: CellId,
        operation: CellOperation,
    ) -> ApiResult<()> {
        let reply = self
            .api_state
            .control
            .perform_in_cell(cell, operation)
            .await;
        match reply.map_err(|error| self.link_error(&error))? {
            CellReply::Accepted => Ok(()),
            CellReply::Refused(why) => Err(ApiError::conflict(to_sentence(&why))),
        }
    }

    /// The error response for an error of a link. Only operators see the names and addresses of cells.
    pub(crate) fn link_error(&self, error: &LinkError) -> ApiError {
        let api_error = error::from_link_error(error);
        match api_error.status() {
            503 if !self.sees_all_projects() => {
                tracing::warn!("{}", api_error.detail());
                error::unavailable("The cell of the server does not answer now: try again later.")
            }
            _ => api_error,
        }
    }

    /// Optimistic concurrency: `prepare` reads the state and makes a command that is refused if the rows that it read
    /// have changed meanwhile. After such a refusal, `prepare` is called again and its command is submitted,
    /// [`CHANGE_TRIES_MAX`] times in all. The same happens if something that `prepare` has read was undone.
    pub(crate) async fn submit_with_retry<T: Send>(
        &self,
        prepare: impl Fn(&ControlState, &Views) -> ApiResult<(Command, T)> + Send + Sync,
    ) -> ApiResult<T> {
        for _ in 0..CHANGE_TRIES_MAX {
            let (prepared, reading) = self.read_for_command(&prepare);
            let (command, value) = match prepared {
                Ok(prepared) => prepared,
                Err(error) if self.wait_until_durable(reading).await => return Err(error),
                Err(_) => continue,
            };
            match self.submit_after(reading, command).await? {
                Some(Ok(_)) => return Ok(value),
                Some(Err(Refusal::Changed)) | None => {}
                Some(Err(refusal)) => return Err(error::from_refusal(refusal)),
            }
        }
        let message = "Others change the same thing all the time: try again.";
        Err(ApiError::conflict(message))
    }
}
