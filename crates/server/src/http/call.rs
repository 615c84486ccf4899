//! One authorised request on its way through a handler.

use placewright_placement::{Command, Outcome, Refusal, State, Timestamp};
use uuid::Uuid;

use crate::http::error::{ApiError, ApiResult};
use crate::http::json::{self, Json};
use crate::http::microversion::Microversion;
use crate::http::query::Query;
use crate::http::refusals::{self, Attempt};
use crate::http::schema::{self, Formats, Schema};
use crate::http::service::Service;
use crate::http::uuids;

/// What a handler works on.
pub(crate) struct Call<'a> {
    pub(crate) service: &'a Service,
    pub(crate) version: Microversion,
    pub(crate) parameters: [&'a str; 2],
    pub(crate) query: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) at: Timestamp,
}

impl<'a> Call<'a> {
    /// The first parameter of the path.
    pub(crate) fn parameter(&self) -> &'a str {
        self.parameters[0]
    }

    /// Whether answers carry cache headers (from microversion 1.15).
    pub(crate) fn caches(&self) -> bool {
        self.version.since(15)
    }

    /// Now, in seconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        self.at.seconds()
    }

    /// The provider that the path names.
    ///
    /// # Errors
    /// 404 for a text that no provider can have as its UUID.
    pub(crate) fn provider_uuid(&self) -> ApiResult<Uuid> {
        uuids::canonical(self.parameter())
            .ok_or_else(|| refusals::provider_not_found(self.parameter()))
    }

    /// The query, checked against a schema.
    ///
    /// # Errors
    /// 400 when it does not fit.
    pub(crate) fn query(&self, schema: &Schema) -> ApiResult<Query<'a>> {
        let refuse = |reason: String| {
            ApiError::bad_request(format!("Invalid query string parameters: {reason}"))
        };
        let query = Query::parse(self.query).map_err(refuse)?;
        schema::validate(&query.as_json(), schema, Formats::Query).map_err(refuse)?;
        Ok(query)
    }

    /// The body, checked against a schema.
    ///
    /// # Errors
    /// 400 when it is not JSON or does not fit.
    pub(crate) fn json(&self, schema: &Schema) -> ApiResult<Json<'a>> {
        let value = json::parse(self.body)
            .map_err(|reason| ApiError::bad_request(format!("Malformed JSON: {reason}")))?;
        check(&value, schema)?;
        Ok(value)
    }

    /// The body for something that belongs to a provider: a provider that does not exist is told
    /// before anything that is wrong with the body.
    pub(crate) async fn json_of_provider(
        &self,
        provider: Uuid,
        schema: &Schema,
    ) -> ApiResult<Json<'a>> {
        match self.json(schema) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.provider_first(provider, error).await),
        }
    }

    /// The error to report when a request for a provider fails: that the provider does not exist,
    /// if so.
    pub(crate) async fn provider_first(&self, provider: Uuid, error: ApiError) -> ApiError {
        let exists = self
            .read(move |state| state.provider_id(provider).is_some())
            .await;
        if exists {
            error
        } else {
            refusals::provider_not_found(self.parameter())
        }
    }

    /// Computes something from the state; it is durable when the answer goes out.
    pub(crate) async fn read<T: Send>(&self, compute: impl Fn(&State) -> T + Send) -> T {
        self.service.read(compute).await
    }

    /// Carries a command out.
    ///
    /// # Errors
    /// What the client is told when the command is refused, or the store fails (503).
    pub(crate) async fn submit(
        &self,
        command: Command,
        attempt: Attempt<'_>,
    ) -> ApiResult<Outcome> {
        match self.try_submit(command).await? {
            Ok(outcome) => Ok(outcome),
            Err(refusal) => Err(refusals::to_error(&refusal, &attempt)),
        }
    }

    /// Like [`Call::submit`], for callers that look at the refusal themselves.
    pub(crate) async fn try_submit(&self, command: Command) -> ApiResult<Result<Outcome, Refusal>> {
        self.service.submit(command).await
    }
}

/// Checks a value of a body against a schema.
///
/// # Errors
/// 400 with the reason.
pub(crate) fn check(value: &Json<'_>, schema: &Schema) -> ApiResult<()> {
    schema::validate(value, schema, Formats::Body)
        .map_err(|reason| ApiError::bad_request(format!("JSON does not validate: {reason}")))
}

/// A generation as the state compares it. One below zero matches nothing, and is told as it was.
pub(crate) fn generation(value: Option<&Json<'_>>) -> u64 {
    value.and_then(Json::integer).unwrap_or(-1).cast_unsigned()
}
