//! The error type of all REST services. Each service prints errors in the form of its own API.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use hyper::header::{self, HeaderMap, HeaderValue};

/// An error response. The request has changed nothing, with two exceptions: a 500 after a panic, and a 503 because
/// the store or another replica did not report whether the change was made. In these two cases the change may have
/// been made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    status: u16,
    detail: Cow<'static, str>,
    code: Option<&'static str>,
    allow: Option<&'static str>,
    retry_after_s: Option<u64>,
    /// Whether the response has no `Vary` header; see [`ApiError::without_vary`].
    lacks_vary: bool,
    /// Fields that few errors have, boxed so that results stay small.
    rare: Option<Box<RareFields>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RareFields {
    challenge: Option<String>,
    field: Option<String>,
    explanation: Option<String>,
}

/// The result of a handler, or the error response.
pub type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    /// An error with this status; `detail` is for people.
    pub fn new(status: u16, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            detail: detail.into(),
            code: None,
            allow: None,
            retry_after_s: None,
            lacks_vary: false,
            rare: None,
        }
    }

    /// A 400: the request is malformed.
    pub fn bad_request(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, detail)
    }

    /// A 400 that names the wrong field of a body or query.
    pub fn field(field: &str, message: impl fmt::Display) -> Self {
        Self::new(400, format!("{field}: {message}")).with_field(field)
    }

    /// A 403: the caller may not do this.
    pub fn forbidden(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(403, detail)
    }

    /// A 404: the path or the object does not exist.
    pub fn not_found(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(404, detail)
    }

    /// A 409: the request contradicts the state.
    pub fn conflict(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(409, detail)
    }

    /// A 413: the request asks for too much.
    pub fn too_large(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(413, detail)
    }

    /// A 501: the API defines the requested operation, but this service does not implement it.
    pub fn not_implemented(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(501, detail)
    }

    /// A 503: the store or the identity service fails, or the server is at one of its limits at present.
    pub fn unavailable(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(503, detail)
    }

    /// Sets the code by which programs recognise the kind of error, such as `placement.concurrent_update`.
    #[must_use]
    pub fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Replaces the text for people; the status and the code stay.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Adds an `Allow` header.
    #[must_use]
    pub fn with_allow(mut self, methods: &'static str) -> Self {
        self.allow = Some(methods);
        self
    }

    /// Adds a `WWW-Authenticate` header, if a challenge is given.
    #[must_use]
    pub fn with_challenge(mut self, challenge: Option<String>) -> Self {
        if challenge.is_some() {
            self.rare_mut().challenge = challenge;
        }
        self
    }

    /// Adds a `Retry-After` header, in whole seconds.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after_s = Some(after.as_secs().max(1));
        self
    }

    /// Names the wrong field.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.rare_mut().field = Some(field.into());
        self
    }

    /// Adds an explanation in JSON.
    #[must_use]
    pub fn with_explanation(mut self, json: String) -> Self {
        self.rare_mut().explanation = Some(json);
        self
    }

    /// Marks an error whose response has no `Vary` header, because the reference answers with such an error before any
    /// of its handlers, which add the header, has run.
    #[must_use]
    pub fn without_vary(mut self) -> Self {
        self.lacks_vary = true;
        self
    }

    fn rare_mut(&mut self) -> &mut RareFields {
        self.rare.get_or_insert_default()
    }

    /// The HTTP status of the response.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The reason, for people.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The text that a client is shown: the reason, or the status in words if there is none.
    #[must_use]
    pub fn message(&self) -> &str {
        match self.detail() {
            "" => reason_phrase(self.status),
            detail => detail,
        }
    }

    /// The code by which programs recognise the kind of error, if it has one.
    #[must_use]
    pub fn code(&self) -> Option<&'static str> {
        self.code
    }

    /// The field that is wrong, if the error names one.
    #[must_use]
    pub fn wrong_field(&self) -> Option<&str> {
        self.rare.as_deref()?.field.as_deref()
    }

    /// The explanation in JSON, if the error has one.
    #[must_use]
    pub fn explanation(&self) -> Option<&str> {
        self.rare.as_deref()?.explanation.as_deref()
    }

    /// Whether the response has a `Vary` header.
    #[must_use]
    pub fn has_vary(&self) -> bool {
        !self.lacks_vary
    }

    /// Adds the headers that the error asks for.
    pub(crate) fn put_headers(&self, headers: &mut HeaderMap) {
        if let Some(methods) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(methods));
        }
        let challenge = self
            .rare
            .as_deref()
            .and_then(|rare| rare.challenge.as_deref());
        if let Some(challenge) = challenge
            && let Ok(value) = HeaderValue::from_str(challenge)
        {
            headers.insert(header::WWW_AUTHENTICATE, value);
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
    }
}

/// The reason phrase of a status; that of 500 for a status that is not listed.
#[must_use]
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Long",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}
