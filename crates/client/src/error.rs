//! Errors of the client.

use serde::Deserialize;
use thiserror::Error;

/// Why a call failed.
#[derive(Debug, Error)]
pub enum Error {
    /// There was no complete response in time, or no connection. The request may have taken effect.
    #[error("no answer: {0}")]
    Transport(#[from] reqwest::Error),
    /// The scheduler refused the request, which changed nothing. Only with
    /// [`Code::Unavailable`](crate::Code::Unavailable), or with the status 500, may the request have taken effect.
    #[error("{0}")]
    Refused(Box<ErrorResponse>),
    /// The request cannot be encoded, so it was not sent; or the response of a request that succeeded cannot be
    /// decoded.
    #[error("unreadable: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl Error {
    /// The code of the refusal; none for other errors.
    #[must_use]
    pub fn code(&self) -> Option<&Code> {
        match self {
            Self::Refused(response) => Some(&response.code),
            Self::Transport(_) | Self::Unreadable(_) => None,
        }
    }
}

/// A refusal of the scheduler.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{status}: {detail}")]
pub struct ErrorResponse {
    /// The HTTP status of the response.
    pub status: u16,
    /// The kind of refusal.
    pub code: Code,
    /// The reason as a text for people.
    pub detail: String,
    /// The field of the request that is not valid; none if the error is not about a field.
    pub field: Option<String>,
    /// Why no host is feasible, with [`Code::NoCapacity`].
    pub explanation: Option<serde_json::Value>,
    /// The id of the request in the server's log.
    pub request_id: Option<String>,
}

/// The kind of a refusal; `docs/scheduler-api.md` explains each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// The request is malformed or not valid.
    BadRequest,
    /// The object that the request names does not exist.
    NotFound,
    /// The request is valid, but no host has room.
    NoCapacity,
    /// The consumer has allocations already.
    ConsumerExists,
    /// The consumer was changed by a concurrent request; the caller may retry.
    ConsumerChanged,
    /// An earlier update of the host is missing; the caller has to send a full one.
    Gap,
    /// The candidate has expired; the caller has to select again.
    CandidateExpired,
    /// The service cannot handle the request at present.
    Unavailable,
    /// Any other code, without `scheduler.` before it, such as `internal`; empty if the response has no code.
    Other(String),
}

impl Code {
    fn parse(text: &str) -> Self {
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
    errors: Vec<ErrorEntry>,
}

#[derive(Deserialize)]
struct ErrorEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    detail: String,
    field: Option<String>,
    explanation: Option<serde_json::Value>,
    request_id: Option<String>,
}

impl ErrorResponse {
    /// Decodes a refusal. A body that is not in the known form becomes the detail.
    pub(crate) fn decode(status: u16, body: &[u8]) -> Self {
        let decoded = serde_json::from_slice::<ErrorsBody>(body).ok();
        match decoded.and_then(|mut body| body.errors.pop()) {
            Some(error) => Self {
                status,
                code: Code::parse(&error.code),
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
