//! What the page shows of states of the past.

use std::time::Duration;

use placewright_auth::Identity;
use placewright_conductor::InstanceId;
use placewright_control::{PastFailure, PastStates, shown_decisions};
use placewright_engine::PastError;
use placewright_http::{ApiError, ApiResult, Gateway, Reply};
use serde_json::json;
use uuid::Uuid;

use crate::fleet::past_fleet;

/// The time after which a page may ask again, if another state of the past was being rebuilt.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A request about states of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PastRequest {
    /// Which states are held.
    Held,
    /// The fleet after an entry.
    Fleet(u64),
    /// Why an instance was where it was, as was known after an entry.
    Decisions(u64, Uuid),
}

impl PastRequest {
    /// Parses what follows `/ui/api/past`; `None` if there is no such path.
    pub(crate) fn parse(rest: &str) -> Option<ApiResult<Self>> {
        if rest.is_empty() {
            return Some(Ok(Self::Held));
        }
        let mut parts = rest.strip_prefix('/')?.split('/');
        let (sequence, what) = (parts.next()?, parts.next()?);
        let (instance, end) = (parts.next(), parts.next());
        if end.is_some() {
            return None;
        }
        let sequence = || {
            let number = sequence.parse::<u64>();
            number.map_err(|_| ApiError::field("sequence", "the number of an entry of the journal"))
        };
        match (what, instance) {
            ("fleet", None) => Some(sequence().map(Self::Fleet)),
            ("decisions", Some(instance)) => Some(sequence().and_then(|sequence| {
                let instance = Uuid::parse_str(instance);
                let instance =
                    instance.map_err(|_| ApiError::field("instance", "the UUID of a server"))?;
                Ok(Self::Decisions(sequence, instance))
            })),
            _ => None,
        }
    }

    pub(crate) fn route(self) -> &'static str {
        match self {
            Self::Held => "/ui/api/past",
            Self::Fleet(_) => "/ui/api/past/{sequence}/fleet",
            Self::Decisions(..) => "/ui/api/past/{sequence}/decisions/{instance}",
        }
    }

    /// Carries the request out for this caller.
    pub(crate) async fn run(
        self,
        states: &PastStates,
        gateway: &Gateway,
        identity: &Identity,
    ) -> ApiResult<Reply> {
        match self {
            Self::Held => {
                let held = states.held().await.map_err(api_error)?;
                Reply::value(200, &held)
            }
            Self::Fleet(sequence) => {
                let read = states.read_at(sequence, past_fleet).await;
                let (moment, rows) = read.map_err(api_error)?;
                let (sequence, at) = (moment.sequence, json!(moment.at));
                let body = format!(r#"{{"sequence":{sequence},"at":{at},"fleet":{rows}}}"#);
                // The body counts against the memory budget of the caller until it is sent.
                let permit = gateway.reserve_response_memory(identity, body.len())?;
                Ok(Reply::ready_pieces(vec![body.into()], permit))
            }
            Self::Decisions(sequence, instance) => {
                let read = states.read_at(sequence, move |control| {
                    shown_decisions(control, InstanceId(instance))
                });
                let (_, shown) = read.await.map_err(api_error)?;
                let shown = shown.ok_or_else(|| {
                    ApiError::not_found(format!(
                        "After entry {sequence} there was no server {instance}, or it was not built by this installation."
                    ))
                })?;
                let shown = shown.map_err(|why| ApiError::new(500, why))?;
                Reply::value(200, &shown)
            }
        }
    }
}

fn api_error(failure: PastFailure) -> ApiError {
    let text = placewright_errors::chain(&failure);
    match failure {
        PastFailure::Busy => ApiError::unavailable(text).with_retry_after(RETRY_AFTER),
        PastFailure::Past(PastError::Trimmed { .. }) => ApiError::new(410, text),
        PastFailure::Past(PastError::Ahead { .. }) => ApiError::not_found(text),
        PastFailure::Past(PastError::TooMany { .. }) => ApiError::field("sequence", text),
        PastFailure::Past(PastError::Recover(_)) | PastFailure::Panicked => {
            ApiError::new(500, text)
        }
        PastFailure::Past(PastError::TimeUp(_) | PastError::Stopped | PastError::Journal(_)) => {
            ApiError::unavailable(text)
        }
    }
}
