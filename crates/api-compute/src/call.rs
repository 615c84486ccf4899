//! The context of a request after authentication and routing, and what handlers do with it.

use parking_lot::Mutex;
use placewright_auth::{Identity, Rule, Target};
use placewright_conductor::super_conductor::{Bound, Command, Outcome, Refusal};
use placewright_conductor::{CellId, ControlState, Reply as CellReply};
use placewright_control::Views;
use placewright_engine::{Reading, SubmitError};
use placewright_errors::chain;
use placewright_http::{ApiError, ApiResult};
use placewright_link::{CellOperation, LinkError};
use placewright_placement::Timestamp;
use serde_json::Value;

use crate::error::{self, sentence};
use crate::query::Query;
use crate::shared::ApiState;
use crate::version::Version;

/// How often a change is read and submitted again after it conflicted with a concurrent one.
const ROUNDS_MAX: usize = 16;

/// An authenticated and routed request, as handlers receive it.
pub(crate) struct RoutedRequest<'a> {
    pub(crate) core: &'a ApiState,
    pub(crate) version: Version,
    pub(crate) identity: &'a Identity,
    pub(crate) parameters: &'a [(&'static str, String)],
    pub(crate) query: Query<'a>,
    pub(crate) body: &'a [u8],
    /// Scheme and host of the API as the client addresses it, for links.
    pub(crate) origin: &'a str,
    /// The project in the path, with a slash before it; empty if the path has none.
    pub(crate) prefix: &'a str,
    pub(crate) at: Timestamp,
    /// For requests that change nothing: the newest entry that any read saw. The answer is sent
    /// once that entry is durable. None: each read waits itself.
    pub(crate) reading: Option<Mutex<Reading>>,
}

impl RoutedRequest<'_> {
    /// A parameter of the path.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(known, _)| *known == name);
        found.map_or("", |(_, value)| value)
    }

    /// The caller's project id; empty if it has none.
    pub(crate) fn project(&self) -> &str {
        self.identity.project_id().unwrap_or("")
    }

    /// The caller's user id; empty if it has none.
    pub(crate) fn user(&self) -> &str {
        self.identity.user_id().unwrap_or("")
    }

    /// Parses the body as JSON.
    pub(crate) fn json(&self) -> ApiResult<Value> {
        serde_json::from_slice(self.body)
            .map_err(|error| ApiError::bad_request(format!("The body is no JSON: {error}.")))
    }

    /// Checks a policy rule for an object of the caller, or of nobody in particular.
    pub(crate) fn allow(&self, rule: Rule) -> ApiResult<()> {
        let target = Target::own(self.identity);
        self.check(rule, &target)
    }

    /// Checks a policy rule for an object that belongs to a project and a user.
    pub(crate) fn allow_on(&self, rule: Rule, project: &str, user: &str) -> ApiResult<()> {
        let target = Target::new()
            .with("project_id", Some(project))
            .with("user_id", Some(user));
        self.check(rule, &target)
    }

    fn check(&self, rule: Rule, target: &Target<'_>) -> ApiResult<()> {
        let allowed = self.core.gateway.authorize(rule, self.identity, target);
        allowed.map_err(|error| {
            error.with_detail(format!("Policy does not allow {rule} to be performed."))
        })
    }

    /// Whether a policy rule allows the caller the operation.
    pub(crate) fn is_allowed(&self, rule: Rule) -> bool {
        self.allow(rule).is_ok()
    }

    /// Whether the caller may see objects of all projects, as administrators do.
    pub(crate) fn sees_all_projects(&self) -> bool {
        self.is_allowed(Rule::ServersDetailAllProjects)
    }

    /// The URL of an object, with the version in its path.
    pub(crate) fn link(&self, path: &str) -> String {
        format!("{}/v2.1{}{path}", self.origin, self.prefix)
    }

    /// The URL of an object without the version.
    pub(crate) fn bookmark(&self, path: &str) -> String {
        format!("{}{}{path}", self.origin, self.prefix)
    }

    /// Both URLs, in the form in which most objects show them.
    pub(crate) fn links(&self, path: &str) -> Value {
        serde_json::json!([
            {"rel": "self", "href": self.link(path)},
            {"rel": "bookmark", "href": self.bookmark(path)},
        ])
    }

    /// Computes something from what control and the cells know. What the computation saw is durable
    /// when this returns or, if the request changes nothing, when the response is sent.
    pub(crate) async fn read<T: Send>(
        &self,
        compute: impl Fn(&ControlState, &Views) -> T + Send,
    ) -> T {
        let conductor = &self.core.conductor;
        match &self.reading {
            // A list reads the state many times. To wait for the disk after each of these reads
            // would take longer than the reads themselves.
            Some(reading) => conductor.look(&mut reading.lock(), compute),
            None => conductor.read(compute).await,
        }
    }

    /// As [`Self::read`], for a computation that may fail.
    pub(crate) async fn try_read<T: Send>(
        &self,
        compute: impl Fn(&ControlState, &Views) -> ApiResult<T> + Send,
    ) -> ApiResult<T> {
        self.read(compute).await
    }

    /// The condition that the project's records, with `bytes` more, stay within the limit.
    pub(crate) fn room_for(&self, project: &str, bytes: u64) -> Bound {
        Bound::InstanceBytes {
            project: project.to_owned(),
            more: bytes,
            most: self.core.limits().project_bytes_max,
        }
    }

    /// Tells the audit log which action of a resource the body asks for.
    pub(crate) fn note_action(&self, name: &str) {
        if let Some(note) = placewright_audit_log::current_note() {
            note.action(name);
        }
    }

    /// Tells the audit log what the request creates.
    pub(crate) fn note_created(&self, ids: impl IntoIterator<Item = impl ToString>) {
        if let Some(note) = placewright_audit_log::current_note() {
            ids.into_iter().for_each(|id| note.id(id));
        }
    }

    /// Submits a command to control; the inner result is control's decision.
    pub(crate) async fn submit(&self, command: Command) -> ApiResult<Result<Outcome, Refusal>> {
        let answer = self.core.conductor.submit(command).await;
        answer.map_err(|error| {
            let text = format!("The change was not made: {}", chain(&error));
            if matches!(error, SubmitError::TooLarge { .. }) {
                // The request is too large, which is not a failure of the store.
                return ApiError::too_large(text);
            }
            tracing::warn!("{text}");
            // Details of the store's failure are shown to operators only.
            match self.sees_all_projects() {
                true => error::unavailable(text),
                false => error::unavailable("The change was not made: try again later."),
            }
        })
    }

    /// Submits a command; a refusal becomes a 409 or 404.
    pub(crate) async fn carry_out(&self, command: Command) -> ApiResult<Outcome> {
        self.submit(command).await?.map_err(error::of_refusal)
    }

    /// Makes a cell carry out an operation; a refusal becomes a 409.
    pub(crate) async fn act(&self, cell: CellId, act: CellOperation) -> ApiResult<()> {
        let reply = self.core.conductor.act(cell, act).await;
        match reply.map_err(|error| self.of_link(&error))? {
            CellReply::Accepted => Ok(()),
            CellReply::Refused(why) => Err(ApiError::conflict(sentence(&why))),
        }
    }

    /// Converts an error of a link. The names and addresses of cells are shown to operators only.
    pub(crate) fn of_link(&self, error: &LinkError) -> ApiError {
        let told = error::of_link(error);
        match told.status() {
            503 if !self.sees_all_projects() => {
                tracing::warn!("{}", told.detail());
                error::unavailable("The cell of the server does not answer now: try again later.")
            }
            _ => told,
        }
    }

    /// Reads the state, lets `prepare` make a command that checks that nothing has changed, and
    /// repeats this when something has.
    pub(crate) async fn change<T: Send>(
        &self,
        prepare: impl Fn(&ControlState, &Views) -> ApiResult<(Command, T)> + Send + Sync,
    ) -> ApiResult<T> {
        for _ in 0..ROUNDS_MAX {
            let (command, value) = self.read(|control, views| prepare(control, views)).await?;
            match self.submit(command).await? {
                Ok(_) => return Ok(value),
                Err(Refusal::Changed) => {}
                Err(refusal) => return Err(error::of_refusal(refusal)),
            }
        }
        let message = "Others change the same thing all the time: try again.";
        Err(ApiError::conflict(message))
    }
}
