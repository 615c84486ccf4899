//! The entry points that services of other crates use: authentication, policies and limits of the
//! placement service.
//!
//! Such a service handles a request between [`Exchange::new`](super::service::Exchange::new) and
//! [`Service::finish`], and formats its own error responses.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Body as HttpBody;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use placewright_auth::{Identity, Rule, Target};

use crate::costly::CostlyError;
use crate::http::body::{self, Body, Content};
use crate::http::error::{ApiError, ApiResult, title};
use crate::http::own::{self, Page};
use crate::http::room::Held;
use crate::http::routes;
use crate::http::service::{Exchange, Service, answer, checks};

/// A request that was rejected before it was routed to a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// The HTTP status of the response.
    pub status: u16,
    /// The reason, for people.
    pub message: String,
    /// The value of the `WWW-Authenticate` header, if the response has one.
    pub challenge: Option<String>,
    /// The value of the `Retry-After` header in seconds, if the response has one.
    pub retry_after_s: Option<u64>,
}

impl From<ApiError> for Denied {
    fn from(error: ApiError) -> Self {
        let detail = error.detail();
        let message = if detail.is_empty() {
            title(error.status()).to_owned()
        } else {
            detail.to_owned()
        };
        Self {
            status: error.status(),
            message,
            challenge: error.challenge().map(str::to_owned),
            retry_after_s: error.retry_after_s(),
        }
    }
}

impl Service {
    /// Checks the size of a request's head.
    ///
    /// # Errors
    ///
    /// 431.
    pub fn check_head(&self, parts: &Parts) -> Result<(), Denied> {
        Ok(checks::check_head(parts, self.options.head_bytes_max)?)
    }

    /// Finds out who calls, from the headers that the configured strategy reads.
    ///
    /// # Errors
    ///
    /// 401, 429 or 431, or 503 when the identity service does not answer.
    pub async fn identify(
        &self,
        parts: &Parts,
        exchange: &Exchange,
    ) -> Result<Arc<Identity>, Denied> {
        Ok(self.authenticate(&parts.headers, exchange).await?)
    }

    /// Checks a policy rule.
    ///
    /// # Errors
    ///
    /// 403.
    pub fn allow(
        &self,
        rule: Rule,
        identity: &Identity,
        target: &Target<'_>,
    ) -> Result<(), Denied> {
        self.authorize(rule, identity, target).map_err(|error| {
            let mut denied = Denied::from(error);
            denied.message = format!("Policy does not allow {rule} to be performed.");
            denied
        })
    }

    /// Runs a handler on the threads for costly requests, in its caller's turn.
    ///
    /// # Errors
    ///
    /// 503 when too many wait; 500 if it panicked.
    pub async fn run_costly<T: Send + 'static>(
        &self,
        identity: &Identity,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Denied> {
        let caller = self.costly.caller(identity);
        let done = self.costly.run(caller, work).await;
        Ok(done.map_err(CostlyError::to_api)?)
    }

    /// Reads the body of a request within the limits of time and of what its route needs.
    ///
    /// # Errors
    /// 400, 408 or 413; 503 when other bodies leave no room.
    pub async fn read_body_up_to<B>(
        &self,
        body: &mut B,
        identity: &Identity,
        bytes_max: usize,
    ) -> Result<Content, Denied>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: fmt::Display,
    {
        Ok(self.content(body, Some(identity), bytes_max).await?)
    }

    /// The same, in the form of the Placement API.
    pub(crate) async fn content<B>(
        &self,
        body: &mut B,
        identity: Option<&Identity>,
        bytes_max: usize,
    ) -> ApiResult<Content>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: fmt::Display,
    {
        let limits = body::Limits {
            bytes_max: bytes_max.min(self.options.body_bytes_max),
            timeout: self.options.body_timeout,
            room: &self.bodies,
        };
        body::read(body, limits, || self.costly.caller_of(identity)).await
    }

    /// Takes what a large answer holds off what all of them may hold until their clients have taken
    /// them; nothing for a small one.
    ///
    /// # Errors
    /// 503 when others hold too much, or the caller's own do.
    pub fn hold_answer(&self, identity: &Identity, bytes: usize) -> Result<Option<Held>, Denied> {
        let caller = self.costly.caller(identity);
        Ok(self.large_answers.hold(&self.options, caller, bytes)?)
    }

    /// Answers `/metrics`, `/healthz` and `/readyz`, which every service has; none for other paths.
    pub async fn common_page(
        &self,
        parts: &Parts,
        exchange: &mut Exchange,
    ) -> Option<Response<Body>> {
        let path = routes::decode_path(parts.uri.path());
        let page = Page::find(&path)
            .filter(|page| matches!(page, Page::Metrics | Page::Health | Page::Ready))?;
        exchange.set_route(page.path());
        match own::show(self, page, parts, None).await {
            Ok(reply) => Some(answer::accepted(parts, reply, exchange)),
            Err(error) => {
                let text = Bytes::from(error.detail().to_owned());
                let mut response = Response::new(Body::Whole(text));
                *response.status_mut() =
                    StatusCode::from_u16(error.status()).unwrap_or(StatusCode::NOT_FOUND);
                Some(response)
            }
        }
    }
}
