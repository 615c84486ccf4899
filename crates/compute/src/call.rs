//! A request whose door is behind it, and what handlers do with it.

use bytes::Bytes;
use placewright_auth::{Identity, Rule, Target};
use placewright_conductor::super_conductor::{Bound, Command, Outcome, Refusal};
use placewright_conductor::{CellId, Control, Reply as CellReply};
use placewright_control::Views;
use placewright_engine::SubmitError;
use placewright_link::{Act, LinkError};
use placewright_placement::Timestamp;
use placewright_server::Held;
use serde::Serialize;
use serde_json::Value;

use crate::error::{ApiError, ApiResult, sentence};
use crate::query::Query;
use crate::service::Core;
use crate::version::Version;

/// How often what was changed meanwhile is read and changed anew.
const ROUNDS_MAX: usize = 16;

/// A request for a handler.
pub(crate) struct Call<'a> {
    pub(crate) core: &'a Core,
    pub(crate) version: Version,
    pub(crate) identity: &'a Identity,
    pub(crate) parameters: Vec<(&'a str, String)>,
    pub(crate) query: Query,
    pub(crate) body: &'a [u8],
    /// Scheme and host, as the client knows them.
    pub(crate) origin: String,
    /// The project in the path, if there is one, with a slash before it.
    pub(crate) prefix: &'a str,
    pub(crate) at: Timestamp,
}

impl Call<'_> {
    /// A parameter of the path.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(known, _)| *known == name);
        found.map_or("", |(_, value)| value)
    }

    /// The caller's project; empty if it has none.
    pub(crate) fn project(&self) -> &str {
        self.identity.project_id().unwrap_or("")
    }

    /// The caller's user; empty if it has none.
    pub(crate) fn user(&self) -> &str {
        self.identity.user_id().unwrap_or("")
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> ApiResult<Value> {
        serde_json::from_slice(self.body)
            .map_err(|error| ApiError::bad_request(format!("The body is no JSON: {error}.")))
    }

    /// Checks that the caller may do something to what is its own, or to nobody's in particular.
    pub(crate) fn allow(&self, rule: Rule) -> ApiResult<()> {
        let target = Target::own(self.identity);
        Ok(self.core.placement.allow(rule, self.identity, &target)?)
    }

    /// Checks that the caller may do something to what is somebody's.
    pub(crate) fn allow_on(&self, rule: Rule, project: &str, user: &str) -> ApiResult<()> {
        let target = Target::new()
            .with("project_id", Some(project))
            .with("user_id", Some(user));
        Ok(self.core.placement.allow(rule, self.identity, &target)?)
    }

    /// Whether the caller may do it.
    pub(crate) fn may(&self, rule: Rule) -> bool {
        self.allow(rule).is_ok()
    }

    /// Whether the caller is an administrator, as far as others' things are concerned.
    pub(crate) fn sees_all_projects(&self) -> bool {
        self.may(Rule::ServersDetailAllProjects)
    }

    /// The address of something.
    pub(crate) fn link(&self, path: &str) -> String {
        format!("{}/v2.1{}{path}", self.origin, self.prefix)
    }

    /// The address of something, whatever the version.
    pub(crate) fn bookmark(&self, path: &str) -> String {
        format!("{}{}{path}", self.origin, self.prefix)
    }

    /// Both addresses, as most things show them.
    pub(crate) fn links(&self, path: &str) -> Value {
        serde_json::json!([
            {"rel": "self", "href": self.link(path)},
            {"rel": "bookmark", "href": self.bookmark(path)},
        ])
    }

    /// Computes something from what control and the cells know.
    pub(crate) async fn read<T: Send>(&self, compute: impl Fn(&Control, &Views) -> T + Send) -> T {
        self.core.conductor.read(compute).await
    }

    /// The same for what may be refused.
    pub(crate) async fn try_read<T: Send>(
        &self,
        compute: impl Fn(&Control, &Views) -> ApiResult<T> + Send,
    ) -> ApiResult<T> {
        self.read(compute).await
    }

    /// That a project's servers have room for so many more bytes of records.
    pub(crate) fn room_for(&self, project: &str, bytes: u64) -> Bound {
        Bound::InstanceBytes {
            project: project.to_owned(),
            more: bytes,
            most: self.core.limits().project_bytes_max,
        }
    }

    /// Has control decide a command.
    pub(crate) async fn submit(&self, command: Command) -> ApiResult<Result<Outcome, Refusal>> {
        let answer = self.core.conductor.submit(command).await;
        answer.map_err(|error| {
            let mut text = format!("The change was not made: {error}");
            let mut source = std::error::Error::source(&error);
            while let Some(reason) = source {
                text.push_str(": ");
                text.push_str(&reason.to_string());
                source = reason.source();
            }
            if matches!(error, SubmitError::TooLarge { .. }) {
                // The caller's own matter, and no failure of the store.
                return ApiError::too_large(text);
            }
            tracing::warn!("{text}");
            // Whose disk is full is for operators.
            match self.sees_all_projects() {
                true => ApiError::unavailable(text),
                false => ApiError::unavailable("The change was not made: try again later."),
            }
        })
    }

    /// Has control carry a command out; what it refuses is a conflict, or not found.
    pub(crate) async fn carry_out(&self, command: Command) -> ApiResult<Outcome> {
        Ok(self.submit(command).await??)
    }

    /// Has a cell do something.
    pub(crate) async fn act(&self, cell: CellId, act: Act) -> ApiResult<()> {
        let reply = self.core.conductor.act(cell, act).await;
        match reply.map_err(|error| self.of_link(error))? {
            CellReply::Accepted => Ok(()),
            CellReply::Refused(why) => Err(ApiError::conflict(sentence(&why))),
        }
    }

    /// An error of a link: names and addresses of cells are for operators.
    pub(crate) fn of_link(&self, error: LinkError) -> ApiError {
        let told = ApiError::from(error);
        match told.status {
            503 if !self.sees_all_projects() => {
                tracing::warn!("{}", told.message);
                ApiError::unavailable("What has the server does not answer now: try again later.")
            }
            _ => told,
        }
    }

    /// Reads something, has `prepare` make a guarded command of it, and does so again when somebody
    /// else was faster.
    pub(crate) async fn change<T: Send>(
        &self,
        prepare: impl Fn(&Control, &Views) -> ApiResult<(Command, T)> + Send + Sync,
    ) -> ApiResult<T> {
        for _ in 0..ROUNDS_MAX {
            let (command, value) = self.read(|control, views| prepare(control, views)).await?;
            match self.submit(command).await? {
                Ok(_) => return Ok(value),
                Err(Refusal::Changed) => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        let message = "Others change the same thing all the time: try again.";
        Err(ApiError::conflict(message))
    }
}

/// What a handler answers when all went well.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Option<Vec<u8>>,
    /// A long body instead of that.
    pub(crate) pieces: Vec<Bytes>,
    /// The room that it holds until its client has taken it.
    pub(crate) held: Option<Held>,
    pub(crate) location: Option<String>,
}

impl Reply {
    /// No content at all.
    pub(crate) fn empty(status: u16) -> Self {
        Self {
            status,
            body: None,
            pieces: Vec::new(),
            held: None,
            location: None,
        }
    }

    /// JSON.
    pub(crate) fn json(status: u16, value: &impl Serialize) -> ApiResult<Self> {
        let body = serde_json::to_vec(value).map_err(|error| {
            ApiError::new(500, format!("The answer cannot be written: {error}"))
        })?;
        Ok(Self {
            body: Some(body),
            ..Self::empty(status)
        })
    }

    pub(crate) fn with_location(mut self, location: String) -> Self {
        self.location = Some(location);
        self
    }
}
