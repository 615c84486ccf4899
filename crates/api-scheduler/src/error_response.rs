//! Error responses of the scheduler API: each kind has its own status and code.

use std::time::Duration;

use placewright_control::destinations::{DestinationsError, NoHost};
use placewright_control::{CommitError, NoHostExplanation, RefusalReason};
use placewright_http::{ApiError, reason_phrase};
use placewright_placement::{QueryRefusal, Refusal};
use placewright_scheduler::error::BadRequest;
use placewright_scheduler::prefilter::PrefilterRefusal;
use placewright_scheduler::prepare::PrepareRefusal;
use placewright_scheduler::request::RequestParseError;
use placewright_scheduler::select::SelectRefusal;
use serde::Serialize;
use serde_json::value::RawValue;

/// An error response of the scheduler API.
#[derive(Debug)]
pub(crate) struct ErrorResponse {
    error: Box<ApiError>,
    code: &'static str,
    field: Option<String>,
    explanation: Option<Explanation>,
}

/// Why there is no host with enough room.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Explanation {
    /// How many hosts each filter and rule removed.
    Hosts(Box<NoHostExplanation>),
    /// The single cause of the refusal.
    Cause(Box<RefusalReason>),
}

/// The result of a handler of the scheduler API.
pub(crate) type HandlerResult<T> = Result<T, ErrorResponse>;

/// Stable codes of errors; `docs/scheduler-api.md` lists them.
pub(crate) mod code {
    pub(crate) const BAD_REQUEST: &str = "scheduler.bad_request";
    pub(crate) const NO_CAPACITY: &str = "scheduler.no_capacity";
    pub(crate) const NOT_FOUND: &str = "scheduler.not_found";
    pub(crate) const CONSUMER_EXISTS: &str = "scheduler.consumer_exists";
    pub(crate) const CONSUMER_CHANGED: &str = "scheduler.consumer_changed";
    pub(crate) const CANDIDATE_EXPIRED: &str = "scheduler.candidate_expired";
    pub(crate) const GAP: &str = "scheduler.gap";
    pub(crate) const UNAVAILABLE: &str = "scheduler.unavailable";
    pub(crate) const INTERNAL: &str = "scheduler.internal";
    const REFUSED: &str = "scheduler.refused";

    /// The code of an error of which only the status is known.
    pub(crate) fn of_status(status: u16) -> &'static str {
        match status {
            400 => BAD_REQUEST,
            404 => NOT_FOUND,
            503 => UNAVAILABLE,
            500 => INTERNAL,
            _ => REFUSED,
        }
    }
}

impl ErrorResponse {
    pub(crate) fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            error: Box::new(ApiError::new(status, detail.into())),
            code,
            field: None,
            explanation: None,
        }
    }

    /// A 400 about a field of the body.
    pub(crate) fn field(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            ..Self::new(400, code::BAD_REQUEST, detail)
        }
    }

    /// A 409: the request is valid, but no host is feasible.
    fn no_host(no_host: NoHost) -> Self {
        let detail = no_host.to_string();
        Self {
            explanation: Some(Explanation::Hosts(Box::new(no_host.why))),
            ..Self::new(409, code::NO_CAPACITY, detail)
        }
    }

    /// A 409: a consumer of a new claim has allocations already.
    fn consumer_exists(consumer: &impl std::fmt::Display) -> Self {
        let detail =
            format!("Consumer {consumer} holds something already: swap it, or give it back first.");
        Self::new(409, code::CONSUMER_EXISTS, detail)
    }

    /// The response to a claim that placement refused.
    fn claim_refused(refusal: &Refusal) -> Self {
        match refusal {
            // A command without a generation is for a consumer that has no allocations yet.
            Refusal::ConsumerGenerationConflict {
                given: None,
                consumer,
                ..
            } => Self::consumer_exists(consumer),
            Refusal::ConsumerGenerationConflict { .. } => {
                Self::new(409, code::CONSUMER_CHANGED, format!("{refusal}; try again"))
            }
            other => Self::no_capacity(other.to_string(), Some(RefusalReason::of_claim(other))),
        }
    }

    /// A 409: the request is valid, but it cannot be placed; `cause` says why, if that is known.
    pub(crate) fn no_capacity(detail: impl Into<String>, cause: Option<RefusalReason>) -> Self {
        Self {
            explanation: cause.map(|cause| Explanation::Cause(Box::new(cause))),
            ..Self::new(409, code::NO_CAPACITY, detail)
        }
    }

    /// A 503: the request is valid, and may succeed after some time.
    pub(crate) fn unavailable(detail: impl Into<String>, after: Duration) -> Self {
        let response = Self::new(503, code::UNAVAILABLE, detail);
        Self {
            error: Box::new(response.error.with_retry_after(after)),
            ..response
        }
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(404, code::NOT_FOUND, detail)
    }

    /// A 400 about the field `request` of the body.
    fn invalid_request(bad_request: &BadRequest) -> Self {
        Self::field(
            format!("request.{}", bad_request.field()),
            bad_request.to_string(),
        )
    }
}

/// The body of an error response, whether a handler or the dispatcher made it.
pub(crate) fn body(error: &ApiError, request_id: &str) -> Vec<u8> {
    let explanation = error.explanation().map(str::to_owned);
    let body = ErrorBody {
        errors: [ErrorEntry {
            status: error.status(),
            title: reason_phrase(error.status()),
            code: error
                .code()
                .unwrap_or_else(|| code::of_status(error.status())),
            detail: error.detail(),
            field: error.wrong_field(),
            explanation: explanation.and_then(|json| RawValue::from_string(json).ok()),
            request_id,
        }],
    };
    serde_json::to_vec(&body).unwrap_or_default()
}

impl From<ErrorResponse> for ApiError {
    fn from(response: ErrorResponse) -> Self {
        let mut error = response.error.with_code(response.code);
        if let Some(field) = response.field {
            error = error.with_field(field);
        }
        match response
            .explanation
            .map(|explanation| serde_json::to_string(&explanation))
        {
            Some(Ok(json)) => error.with_explanation(json),
            Some(Err(_)) | None => error,
        }
    }
}

/// The body of an error response.
#[derive(Serialize)]
struct ErrorBody<'a> {
    errors: [ErrorEntry<'a>; 1],
}

/// The error in an [`ErrorBody`].
#[derive(Serialize)]
struct ErrorEntry<'a> {
    status: u16,
    title: &'a str,
    code: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Box<RawValue>>,
    request_id: &'a str,
}

impl From<ApiError> for ErrorResponse {
    fn from(error: ApiError) -> Self {
        Self {
            code: code::of_status(error.status()),
            error: Box::new(error),
            field: None,
            explanation: None,
        }
    }
}

impl From<CommitError> for ErrorResponse {
    fn from(error: CommitError) -> Self {
        Self::from(match error {
            CommitError::TooLarge(text) => ApiError::too_large(text),
            CommitError::Bug(text) => ApiError::new(500, text),
            CommitError::Unavailable(text) => ApiError::unavailable(text),
        })
    }
}

impl From<RequestParseError> for ErrorResponse {
    fn from(parse_error: RequestParseError) -> Self {
        // An empty name means the whole body.
        let field = Some(parse_error.field).filter(|field| !field.is_empty());
        Self::field(field.unwrap_or_else(|| ".".to_owned()), parse_error.message)
    }
}

impl From<BadRequest> for ErrorResponse {
    fn from(bad_request: BadRequest) -> Self {
        Self::invalid_request(&bad_request)
    }
}

impl From<QueryRefusal> for ErrorResponse {
    fn from(refusal: QueryRefusal) -> Self {
        Self::field("request", refusal.to_string())
    }
}

impl From<SelectRefusal> for ErrorResponse {
    fn from(refusal: SelectRefusal) -> Self {
        match refusal {
            SelectRefusal::BadRequest(bad_request) => bad_request.into(),
            SelectRefusal::Query(query) => query.into(),
        }
    }
}

impl From<DestinationsError> for ErrorResponse {
    fn from(error: DestinationsError) -> Self {
        match error {
            DestinationsError::Prepare(refusal) => refusal.into(),
            DestinationsError::Select(refusal) => refusal.into(),
            DestinationsError::Commit(error) => error.into(),
            DestinationsError::NoHost(no_host) => Self::no_host(*no_host),
            DestinationsError::Holds(consumer) => Self::consumer_exists(&consumer),
            DestinationsError::HoldsNothing(consumer) => {
                Self::not_found(format!("Consumer {consumer} holds nothing."))
            }
            DestinationsError::Expired(candidate) => {
                let detail = format!(
                    "Candidate {candidate} is not kept (any more): ask POST /v1/destinations for \
                     new ones."
                );
                Self::new(410, code::CANDIDATE_EXPIRED, detail)
            }
            DestinationsError::OffererAway { .. } => {
                ApiError::unavailable(error.to_string()).into()
            }
            DestinationsError::NothingFits(_) => Self::no_capacity(error.to_string(), None),
            DestinationsError::Group(refusal) => {
                Self::field("request.instance_group", refusal.to_string())
            }
            DestinationsError::Claim(refusal) => Self::claim_refused(&refusal),
            DestinationsError::Bug(text) => Self::new(500, code::INTERNAL, text),
        }
    }
}

impl From<PrepareRefusal> for ErrorResponse {
    fn from(refusal: PrepareRefusal) -> Self {
        match refusal {
            PrepareRefusal::BadRequest(bad_request) => bad_request.into(),
            PrepareRefusal::NoSuchHost { .. } => {
                Self::field("request.requested_destination", refusal.to_string())
            }
            PrepareRefusal::Prefilter(prefilter) => match &prefilter {
                PrefilterRefusal::BadRequest(bad_request) => Self::invalid_request(bad_request),
                PrefilterRefusal::NoSuchZone { .. } => {
                    Self::field("request.availability_zone", prefilter.to_string())
                }
                PrefilterRefusal::NoTenantAggregate { .. }
                | PrefilterRefusal::NoSegmentAggregate { .. } => Self::no_capacity(
                    prefilter.to_string(),
                    RefusalReason::of_prefilter(&prefilter),
                ),
            },
        }
    }
}
