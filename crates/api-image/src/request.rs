//! A request after authentication and routing, with the operations that handlers need: policies, reads, changes.

use placewright_auth::{Identity, Rule, Target};
use placewright_conductor::ControlState;
use placewright_conductor::super_conductor::{
    Change, Command, Image, LimitCheck, Outcome, Refusal,
};
use placewright_control::ControlHandle;
use placewright_engine::SubmitError;
use placewright_errors::chain;
use placewright_http::{ApiError, ApiResult, Gateway, Query, QueryError, Syntax};
use placewright_placement::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::error::{self, RETRY_AFTER};
use crate::folder::ImageFolder;
use crate::options::{ImageOptions, PARAMETERS_MAX};
use crate::transfers::Transfers;

/// How often a change is tried when other changes of the same image were faster.
pub(crate) const CHANGE_TRIES_MAX: usize = 16;

/// The data that all requests of the Image API share.
pub(crate) struct ApiState {
    pub(crate) gateway: std::sync::Arc<Gateway>,
    pub(crate) control: ControlHandle,
    pub(crate) folder: ImageFolder,
    pub(crate) options: ImageOptions,
    pub(crate) uploads: Transfers,
    pub(crate) downloads: Transfers,
}

/// A request after authentication and routing.
pub(crate) struct RoutedRequest<'a> {
    pub(crate) api_state: &'a ApiState,
    pub(crate) identity: &'a Identity,
    /// The image in the path; nil if the path has none.
    pub(crate) image: Uuid,
    /// The tag, member or schema in the path; empty if the path has none.
    pub(crate) part: &'a str,
    pub(crate) query: &'a str,
    pub(crate) body: &'a [u8],
}

impl RoutedRequest<'_> {
    /// The id of the caller's project; empty if it has none.
    pub(crate) fn project(&self) -> &str {
        self.identity.project_id().unwrap_or("")
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.api_state.control.now()
    }

    /// Parses the body as JSON.
    pub(crate) fn json(&self) -> ApiResult<Value> {
        serde_json::from_slice(self.body)
            .map_err(|error| ApiError::bad_request(format!("The body is no JSON: {error}.")))
    }

    /// Splits and decodes the query string.
    pub(crate) fn query(&self) -> ApiResult<Query<'_>> {
        let syntax = Syntax {
            separators: &['&'],
            parameters_max: PARAMETERS_MAX,
        };
        Query::parse(self.query, syntax).map_err(|error| match error {
            QueryError::TooMany { count, most } => ApiError::bad_request(format!(
                "The query has {count} parameters, and may have {most}."
            )),
            QueryError::NotUtf8(_) => ApiError::bad_request("The URL is not in UTF-8."),
        })
    }

    /// Checks a policy rule for a target that belongs to this project.
    ///
    /// # Errors
    ///
    /// 403 if the rule does not allow the operation.
    pub(crate) fn authorize(&self, rule: Rule, project: &str) -> ApiResult<()> {
        self.api_state.authorize(self.identity, rule, project)
    }

    /// Whether the caller may see and change images of all projects.
    pub(crate) fn is_administrator(&self) -> bool {
        self.api_state.is_administrator(self.identity)
    }

    /// Computes a value from control's state; the state that the computation saw is durable when this returns.
    pub(crate) async fn read<T: Send>(&self, compute: impl Fn(&ControlState) -> T + Send) -> T {
        let control = &self.api_state.control;
        control.read(move |state, _| compute(state)).await
    }

    /// Changes an image. `change` gets the present image, and returns the changed one (`None` deletes the image) and
    /// the value that this function returns. It is called again when another change was faster.
    ///
    /// # Errors
    ///
    /// 404 when there is no such image, the errors of `change`, those for refusals of the state machine, and 409 when
    /// other changes were faster each time.
    pub(crate) async fn change_image<T: Send>(
        &self,
        change: impl Fn(&Image) -> ApiResult<(Option<Image>, T)> + Send + Sync,
    ) -> ApiResult<T> {
        for _ in 0..CHANGE_TRIES_MAX {
            let prepare = |state: &ControlState| {
                let known = state.conductor.images().get(&self.image);
                let known = known.ok_or_else(|| error::image_not_found(self.image))?;
                let (next, answer) = change(known)?;
                Ok::<_, ApiError>((known.clone(), next, answer))
            };
            let (known, next, answer): (Image, Option<Image>, T) = self.read(prepare).await?;
            match self
                .api_state
                .set_image(self.image, Some(known), next, Vec::new())
                .await?
            {
                Ok(_) => return Ok(answer),
                Err(Refusal::Changed) => {}
                Err(refusal) => return Err(error::from_refusal(&refusal)),
            }
        }
        Err(error::changed_by_others())
    }

    /// Adds the id of a new object to the request's event in the audit log.
    pub(crate) fn note_created(&self, id: impl ToString) {
        if let Some(note) = placewright_audit_log::current_note() {
            note.add_id(id);
        }
    }
}

impl ApiState {
    /// See [`RoutedRequest::authorize`].
    pub(crate) fn authorize(
        &self,
        identity: &Identity,
        rule: Rule,
        project: &str,
    ) -> ApiResult<()> {
        let target = Target::project(Some(project));
        let allowed = self.gateway.authorize(rule, identity, &target);
        allowed.map_err(|error| {
            error.with_detail(format!("Policy does not allow {rule} to be performed."))
        })
    }

    /// See [`RoutedRequest::is_administrator`].
    pub(crate) fn is_administrator(&self, identity: &Identity) -> bool {
        let own = identity.project_id().unwrap_or("");
        self.authorize(identity, Rule::ImagesAllProjects, own)
            .is_ok()
    }

    /// Replaces the row of an image by `next`, if the row still is `known` and all `checks` hold. `None` stands for no
    /// row.
    pub(crate) async fn set_image(
        &self,
        id: Uuid,
        known: Option<Image>,
        next: Option<Image>,
        checks: Vec<LimitCheck>,
    ) -> Result<Result<Outcome, Refusal>, NotSubmitted> {
        let mut command = Command::SetImage {
            id,
            image: next.map(Box::new),
        };
        if !checks.is_empty() {
            command = Command::Limited {
                checks,
                command: Box::new(command),
            };
        }
        let command = Command::Guarded {
            expected: vec![Change::Image(id, known.map(Box::new))],
            command: Box::new(command),
        };
        let answer = self.control.submit(command).await;
        answer.map_err(|error| NotSubmitted {
            may_have_had_effect: error.may_have_had_effect(),
            error: submit_error(&error),
        })
    }
}

/// The failure of a command that was submitted.
#[derive(Debug)]
pub(crate) struct NotSubmitted {
    /// The error for the caller of the API.
    pub(crate) error: ApiError,
    /// Whether the command may have had its effect all the same.
    pub(crate) may_have_had_effect: bool,
}

impl From<NotSubmitted> for ApiError {
    fn from(failure: NotSubmitted) -> Self {
        failure.error
    }
}

impl From<ApiError> for NotSubmitted {
    /// An error before anything was submitted.
    fn from(error: ApiError) -> Self {
        Self {
            error,
            may_have_had_effect: false,
        }
    }
}

fn submit_error(error: &SubmitError) -> ApiError {
    let effect = error.effect();
    let text = chain(error);
    if matches!(error, SubmitError::TooLarge { .. }) {
        return ApiError::too_large(format!("{effect}: {text}."));
    }
    tracing::warn!("the change of an image: {effect}: {text}");
    ApiError::unavailable(format!("{effect}: try again later.")).with_retry_after(RETRY_AFTER)
}
