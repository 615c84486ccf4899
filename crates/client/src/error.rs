//! Why there is no answer, or not the one that was hoped for.

use serde::Deserialize;
use thiserror::Error;

/// Why a call failed.
#[derive(Debug, Error)]
pub enum Error {
    /// Nobody answered, or not in time. What was asked for may have happened.
    #[error("no answer: {0}")]
    Transport(#[from] reqwest::Error),
    /// The scheduler refused; nothing changed.
    #[error("{0}")]
    Refused(Box<Refused>),
    /// The answer, or the request, is not in the form that this client knows.
    #[error("unreadable: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl Error {
    /// What kind of refusal this is, if it is one.
    #[must_use]
    pub fn code(&self) -> Option<&Code> {
        match self {
            Self::Refused(refused) => Some(&refused.code),
            Self::Transport(_) | Self::Unreadable(_) => None,
        }
    }
}

/// A refusal in the scheduler's words.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{status}: {detail}")]
pub struct Refused {
    /// The HTTP status.
    pub status: u16,
    /// What kind of refusal it is.
    pub code: Code,
    /// What is the matter, in sentences.
    pub detail: String,
    /// The field to blame, if it is one.
    pub field: Option<String>,
    /// Why no host will do, with [`Code::NoCapacity`].
    pub explanation: Option<serde_json::Value>,
    /// How the server's log names the request.
    pub request_id: Option<String>,
}

/// What kind of refusal it is; `docs/scheduler-api.md` explains each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// The request is wrong.
    BadRequest,
    /// There is no such thing.
    NotFound,
    /// The request is fine and there is no room.
    NoCapacity,
    /// The consumer holds something already.
    ConsumerExists,
    /// The consumer changed meanwhile: try again.
    ConsumerChanged,
    /// An earlier update of the host is missing.
    Gap,
    /// The candidate is not kept any more.
    CandidateExpired,
    /// The service cannot do it now.
    Unavailable,
    /// Something else.
    Other(String),
}

impl Code {
    fn read(text: &str) -> Self {
        match text.strip_prefix("scheduler.").unwrap_or(text) {
            "bad_request" => Self::BadRequest,
            "not_found" => Self::NotFound,
            "no_capacity" => Self::NoCapacity,
            "consumer_exists" => Self::ConsumerExists,
            "consumer_changed" => Self::ConsumerChanged,
            "gap" => Self::Gap,
            "candidate_expired" => Self::CandidateExpired,
            "unavailable" => Self::Unavailable,
            other => Self::Other(other.to_owned()),
        }
    }
}

#[derive(Deserialize)]
struct ErrorsBody {
    errors: Vec<ErrorBody>,
}

#[derive(Deserialize)]
struct ErrorBody {
    #[serde(default)]
    code: String,
    #[serde(default)]
    detail: String,
    field: Option<String>,
    explanation: Option<serde_json::Value>,
    request_id: Option<String>,
}

impl Refused {
    /// Reads a refusal; one that is in no known form is told as it came.
    pub(crate) fn read(status: u16, body: &[u8]) -> Self {
        let read = serde_json::from_slice::<ErrorsBody>(body).ok();
        match read.and_then(|mut body| body.errors.pop()) {
            Some(error) => Self {
                status,
                code: Code::read(&error.code),
                detail: error.detail,
                field: error.field,
                explanation: error.explanation,
                request_id: error.request_id,
            },
            None => Self {
                status,
                code: Code::Other(String::new()),
                detail: String::from_utf8_lossy(body).into_owned(),
                field: None,
                explanation: None,
                request_id: None,
            },
        }
    }
}
