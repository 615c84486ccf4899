//! An authorized and routed request, with the operations that handlers need to answer it.

use std::future::Future;

use futures_util::FutureExt as _;
use placewright_http::{ApiError, ApiResult, Query};
use placewright_placement::{Command, Outcome, Refusal, State, Timestamp};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use crate::json::{self, Json, ParseError};
use crate::microversion::Microversion;
use crate::refusals::{self, RefusedOperation};
use crate::schema::{self, Schema, UuidForms};
use crate::shared::PlacementService;
use crate::{query, uuids};

/// An authorized and routed request, as handlers receive it.
pub(crate) struct RoutedRequest<'a> {
    pub(crate) service: &'a PlacementService,
    pub(crate) version: Microversion,
    /// The parameters of the path; empty for one that the route lacks.
    pub(crate) path_parameters: [&'a str; 2],
    /// The query string, not decoded.
    pub(crate) query: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) received_at: Timestamp,
}

impl<'a> RoutedRequest<'a> {
    /// The first parameter of the path.
    pub(crate) fn path_parameter(&self) -> &'a str {
        self.path_parameters[0]
    }

    /// Whether responses have cache headers (from microversion 1.15).
    pub(crate) fn has_cache_headers(&self) -> bool {
        self.version.since(15)
    }

    /// The time at which the request was received, in seconds since 1970.
    pub(crate) fn received_s(&self) -> i64 {
        self.received_at.seconds()
    }

    /// The UUID of the provider in the path.
    ///
    /// # Errors
    ///
    /// 404 for a text that is not a UUID in the canonical form, so that no provider can have it.
    pub(crate) fn provider_uuid(&self) -> ApiResult<Uuid> {
        uuids::parse_canonical(self.path_parameter())
            .ok_or_else(|| refusals::provider_not_found(self.path_parameter()))
    }

    /// Parses the query and validates it against a schema.
    ///
    /// # Errors
    ///
    /// 400 when the query is not valid.
    pub(crate) fn query(&self, schema: &Schema) -> ApiResult<Query<'a>> {
        let invalid_query = |reason: String| {
            ApiError::bad_request(format!("Invalid query string parameters: {reason}"))
        };
        let query = query::parse(self.query).map_err(invalid_query)?;
        schema::validate(&query::as_json(&query), schema, UuidForms::Query)
            .map_err(invalid_query)?;
        Ok(query)
    }

    /// Parses the body and validates it against a schema.
    ///
    /// # Errors
    ///
    /// 400 when the body is not JSON or not valid; 413 when it has too many values.
    pub(crate) fn json(&self, schema: &Schema) -> ApiResult<Json<'a>> {
        let entries_max = self.service.options.entries_max;
        let values_max = entries_max
            .saturating_mul(VALUES_PER_ENTRY)
            .max(LOWEST_VALUES_MAX);
        let value = json::parse_bounded(self.body, values_max).map_err(|error| match error {
            ParseError::Malformed(reason) => {
                ApiError::bad_request(format!("Malformed JSON: {reason}"))
            }
            ParseError::TooManyValues => too_many_values(values_max, entries_max),
        })?;
        check_against_schema(&value, schema)?;
        Ok(value)
    }

    /// Checks that a request does not change too many entries (allocated amounts, inventories, traits or aggregates) at
    /// once, because other requests wait while its change is applied.
    ///
    /// # Errors
    ///
    /// 413 with the name of the limit.
    pub(crate) fn check_entries(&self, entries: usize, entry_kind: &str) -> ApiResult<()> {
        let entries_max = self.service.options.entries_max;
        if entries <= entries_max {
            return Ok(());
        }
        let detail = format!(
            "The request has {entries} {entry_kind}; placement.entries_max allows {entries_max}."
        );
        Err(ApiError::new(413, detail))
    }

    /// The body of a request that belongs to a provider: a missing provider is reported before an
    /// error in the body.
    pub(crate) async fn json_of_provider(
        &self,
        provider: Uuid,
        schema: &Schema,
    ) -> ApiResult<Json<'a>> {
        match self.json(schema) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.missing_provider_or(provider, error).await),
        }
    }

    /// The error to report for a request that belongs to a provider: that the provider is missing, or
    /// else `error`.
    pub(crate) async fn missing_provider_or(&self, provider: Uuid, error: ApiError) -> ApiError {
        let exists = self
            .read(move |state| state.provider_id(provider).is_some())
            .await;
        if exists {
            error
        } else {
            refusals::provider_not_found(self.path_parameter())
        }
    }

    /// Computes a value from the state. The changes that the value shows are durable when this returns.
    pub(crate) async fn read<T: Send>(&self, compute: impl Fn(&State) -> T + Send) -> T {
        self.service.placement.read(compute).await
    }

    /// Computes a value from the state in slices; see
    /// [`placewright_engine::Engine::read_in_slices`].
    pub(crate) async fn read_in_slices<S: Send, T: Send>(
        &self,
        new_reader: impl Fn() -> S + Send,
        run_slice: impl Fn(&State, &mut S) -> Option<T> + Send,
    ) -> T {
        self.service
            .placement
            .read_in_slices(new_reader, run_slice)
            .await
    }

    /// Checks that a response of about `bytes` bytes may be sent, and reserves the `memory_bytes` that it
    /// occupies until it is sent; nothing is reserved for a small one.
    ///
    /// # Errors
    ///
    /// 400 with advice for a response that is too large; 503 when other responses occupy too much memory.
    pub(crate) fn check_and_reserve_response(
        &self,
        bytes: usize,
        memory_bytes: usize,
        advice: &str,
    ) -> ApiResult<Option<OwnedSemaphorePermit>> {
        self.service
            .gateway
            .check_and_reserve_response(bytes, memory_bytes, advice)
    }

    /// Submits a command, and waits until its outcome is durable.
    ///
    /// # Errors
    ///
    /// The response to a refusal, or to a failure of the store (503).
    pub(crate) fn submit(
        &self,
        command: Command,
        operation: RefusedOperation<'_>,
    ) -> impl Future<Output = ApiResult<Outcome>> + Send {
        // Not an `async` function, whose future would have room for the command, and for the future below it.
        self.try_submit(command).map(move |result| match result? {
            Ok(outcome) => Ok(outcome),
            Err(refusal) => Err(refusals::to_error(&refusal, &operation)),
        })
    }

    /// Like [`RoutedRequest::submit`], for callers that handle refusals themselves.
    pub(crate) fn try_submit(
        &self,
        command: Command,
    ) -> impl Future<Output = ApiResult<Result<Outcome, Refusal>>> + Send {
        self.service.submit(command)
    }
}

/// How many JSON values a body may have for each of the entries that `entries_max` allows.
const VALUES_PER_ENTRY: usize = 32;
/// The limit of JSON values is at least this, even in installations that allow few entries.
const LOWEST_VALUES_MAX: usize = 10_000;

fn too_many_values(values_max: usize, entries_max: usize) -> ApiError {
    let detail = format!(
        "The body has more than {values_max} JSON values, {VALUES_PER_ENTRY} for each of the \
         {entries_max} entries that placement.entries_max allows."
    );
    ApiError::new(413, detail)
}

/// Validates a value of a body against a schema.
///
/// # Errors
///
/// 400 with the reason.
pub(crate) fn check_against_schema(value: &Json<'_>, schema: &Schema) -> ApiResult<()> {
    schema::validate(value, schema, UuidForms::Body)
        .map_err(|reason| ApiError::bad_request(format!("JSON does not validate: {reason}")))
}

/// A generation as the state compares it. A negative number becomes its two's complement, which equals
/// no generation, and which errors convert back to the number that the client sent.
pub(crate) fn generation(value: Option<&Json<'_>>) -> u64 {
    value.and_then(Json::integer).unwrap_or(-1).cast_unsigned()
}
