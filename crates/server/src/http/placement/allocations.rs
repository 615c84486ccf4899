//! `/allocations`, `/allocations/{consumer_uuid}` and `/resource_providers/{uuid}/allocations`

use placewright_placement::{
    AllocationRequest, Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid, Refusal, State,
};

use crate::http::call::{self, Call};
use crate::http::error::{ApiError, ApiResult};
use crate::http::json::{Json, Writer};
use crate::http::refusals::{self, Attempt};
use crate::http::reply::Reply;
use crate::http::{schemas, uuids};

/// The type of a consumer that was never given one.
const UNKNOWN_TYPE: &str = "unknown";

/// What several consumers are to hold, as far as providers have UUIDs that can exist.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(crate) consumers: Vec<ConsumerClaim>,
    /// The first provider whose UUID is not written canonically, so that it cannot exist.
    unknown: Option<String>,
}

impl Claims {
    /// Adds a consumer with the members of its validated body.
    pub(crate) fn add(&mut self, call: &Call<'_>, consumer: ConsumerUuid, body: &Json<'_>) {
        let options = &call.service.options;
        let text = |key: &str, missing: &str| {
            body.get(key)
                .and_then(Json::text)
                .unwrap_or(missing)
                .to_owned()
        };
        let generation = match body.get("consumer_generation") {
            _ if !call.version.since(28) => ConsumerGeneration::Any,
            None | Some(Json::Null) => ConsumerGeneration::Is(None),
            given => ConsumerGeneration::Is(Some(call::generation(given))),
        };
        let consumer_type = body.get("consumer_type").and_then(Json::text);
        let allocations = match body.get("allocations") {
            Some(Json::Array(items)) => self.of_list(items),
            Some(object) => self.of_object(object),
            None => Vec::new(),
        };
        self.consumers.push(ConsumerClaim {
            consumer,
            generation,
            project: text("project_id", &options.incomplete_consumer_project_id),
            user: text("user_id", &options.incomplete_consumer_user_id),
            consumer_type: consumer_type.map(str::to_owned),
            allocations,
        });
    }

    /// The form before microversion 1.12. Of two entries for one provider the last counts.
    fn of_list(&mut self, items: &[Json<'_>]) -> Vec<AllocationRequest> {
        let mut requests: Vec<AllocationRequest> = Vec::with_capacity(items.len());
        for item in items {
            let provider = item
                .get("resource_provider")
                .and_then(|provider| provider.get("uuid"));
            let provider = provider.and_then(Json::text).unwrap_or_default();
            let Some(request) = self.request(provider, item) else {
                continue;
            };
            match requests
                .iter_mut()
                .find(|known| known.provider == request.provider)
            {
                Some(known) => *known = request,
                None => requests.push(request),
            }
        }
        requests
    }

    fn of_object(&mut self, object: &Json<'_>) -> Vec<AllocationRequest> {
        let members = object.members().iter();
        members
            .filter_map(|(provider, item)| self.request(provider, item))
            .collect()
    }

    fn request(&mut self, provider: &str, item: &Json<'_>) -> Option<AllocationRequest> {
        if self.unknown.is_some() {
            // Nothing behind it will be looked at.
            return None;
        }
        let Some(uuid) = uuids::canonical(provider) else {
            self.unknown = Some(provider.to_owned());
            return None;
        };
        let resources = item.get("resources").map_or(&[][..], Json::members).iter();
        let amount = |amount: &Json<'_>| amount.integer().unwrap_or(i64::MAX);
        Some(AllocationRequest {
            provider: uuid,
            resources: resources
                .map(|(class, item)| (class.to_string(), amount(item)))
                .collect(),
        })
    }

    /// Whether there is a provider that cannot exist.
    pub(crate) fn has_unknown(&self) -> bool {
        self.unknown.is_some()
    }

    /// Refuses claims on a provider that cannot exist, after all that is checked before it.
    ///
    /// # Errors
    /// When there is such a provider.
    pub(crate) async fn refuse_unknown(
        &self,
        call: &Call<'_>,
        attempt: Attempt<'_>,
    ) -> ApiResult<()> {
        let Some(unknown) = &self.unknown else {
            return Ok(());
        };
        let earlier = call
            .read(|state| first_refusal(state, &self.consumers))
            .await;
        Err(match earlier {
            Some(refusal) => refusals::to_error(&refusal, &attempt),
            None => refusals::allocation_provider_not_found(unknown),
        })
    }
}

/// What the state refuses first about some claims, up to the existence of their providers.
fn first_refusal(state: &State, claims: &[ConsumerClaim]) -> Option<Refusal> {
    for claim in claims {
        let actual = state
            .consumer(claim.consumer)
            .map(|consumer| consumer.generation);
        if let ConsumerGeneration::Is(given) = claim.generation
            && given != actual
        {
            return Some(Refusal::ConsumerGenerationConflict {
                consumer: claim.consumer,
                actual,
                given,
            });
        }
    }
    let mut providers = claims
        .iter()
        .flat_map(|claim| &claim.allocations)
        .map(|request| request.provider);
    providers
        .find(|uuid| state.provider_id(*uuid).is_none())
        .map(|uuid| Refusal::AllocationProviderNotFound { uuid })
}

/// Reads the consumers of a body that has them as keys.
///
/// # Errors
/// 400 for a key that is no UUID but for the pattern's tolerance of a last line end.
pub(crate) fn claims_of(call: &Call<'_>, by_consumer: &Json<'_>) -> ApiResult<Claims> {
    let mut claims = Claims::default();
    claims.consumers.reserve(by_consumer.members().len());
    for (key, body) in by_consumer.members() {
        let consumer = ConsumerUuid::parse(key).ok_or_else(|| malformed(key))?;
        claims.add(call, consumer, body);
    }
    Ok(claims)
}

fn malformed(consumer: &str) -> ApiError {
    ApiError::bad_request(format!("Malformed consumer_uuid: {consumer}"))
}

pub(crate) async fn set(call: &Call<'_>) -> ApiResult<Reply> {
    let consumer = uuids::normalise(call.parameter()).ok_or_else(|| malformed(call.parameter()))?;
    let consumer = ConsumerUuid::from_uuid(consumer);
    let body = call.json(schemas::allocations::put(call.version))?;
    let mut claims = Claims::default();
    claims.add(call, consumer, &body);
    let attempt = Attempt::Allocate(consumer.as_str());
    claims.refuse_unknown(call, attempt).await?;
    let command = Command::Claim {
        consumers: claims.consumers,
        at: call.at,
    };
    call.submit(command, attempt).await?;
    Ok(Reply::empty(204))
}

pub(crate) async fn set_several(call: &Call<'_>) -> ApiResult<Reply> {
    let body = call.json(schemas::allocations::post(call.version))?;
    let claims = claims_of(call, &body)?;
    claims
        .refuse_unknown(call, Attempt::AllocateSeveral)
        .await?;
    let command = Command::Claim {
        consumers: claims.consumers,
        at: call.at,
    };
    call.submit(command, Attempt::AllocateSeveral).await?;
    Ok(Reply::empty(204))
}

pub(crate) async fn delete(call: &Call<'_>) -> ApiResult<Reply> {
    let text = call.parameter();
    let consumer = ConsumerUuid::parse(text)
        .ok_or_else(|| ApiError::not_found(format!("No allocations for consumer '{text}'")))?;
    call.submit(Command::Release { consumer }, Attempt::Release)
        .await?;
    Ok(Reply::empty(204))
}

pub(crate) async fn of_consumer(call: &Call<'_>) -> ApiResult<Reply> {
    let uuid = ConsumerUuid::parse(call.parameter());
    let (writer, modified) = call
        .read(|state| {
            let consumer = uuid.and_then(|uuid| state.consumer(uuid));
            let mut writer = Writer::with_capacity(512);
            writer.open_object();
            writer.key("allocations");
            writer.open_object();
            let Some(consumer) = consumer else {
                writer.close_object();
                writer.close_object();
                return (writer, None);
            };
            let mut shown: Vec<_> = Vec::new();
            for held in &consumer.allocations {
                if shown.contains(&held.provider) {
                    continue;
                }
                shown.push(held.provider);
                let Some(provider) = state.provider(held.provider) else {
                    continue;
                };
                writer.key(provider.uuid.hyphenated().encode_lower(&mut [0; 36]));
                writer.open_object();
                writer.key("resources");
                writer.open_object();
                for of_provider in &consumer.allocations {
                    if of_provider.provider == held.provider {
                        writer.key(state.class_name(of_provider.class));
                        writer.integer(of_provider.amount);
                    }
                }
                writer.close_object();
                writer.key("generation");
                writer.integer(provider.generation);
                writer.close_object();
            }
            writer.close_object();
            write_consumer(&mut writer, call, state, consumer);
            writer.close_object();
            (writer, Some(consumer.allocated_at.seconds()))
        })
        .await;
    let modified = modified.unwrap_or_else(|| call.now());
    Ok(Reply::json(writer).modified(call.caches(), Some(modified)))
}

/// What versions since 1.12 say about the consumer besides what it holds.
fn write_consumer(
    writer: &mut Writer,
    call: &Call<'_>,
    state: &State,
    consumer: &placewright_placement::Consumer,
) {
    if call.version.since(12) {
        writer.key("project_id");
        writer.text(state.project_name(consumer.project));
        writer.key("user_id");
        writer.text(state.user_name(consumer.user));
    }
    if call.version.since(28) {
        writer.key("consumer_generation");
        writer.integer(consumer.generation);
    }
    if call.version.since(38) {
        writer.key("consumer_type");
        let known = consumer
            .consumer_type
            .map(|id| state.consumer_type_name(id));
        writer.text(known.unwrap_or(UNKNOWN_TYPE));
    }
}

pub(crate) async fn of_provider(call: &Call<'_>) -> ApiResult<Reply> {
    let not_found = || {
        let uuid = call.parameter();
        ApiError::not_found(format!(
            "Resource provider '{uuid}' not found: No resource provider with uuid {uuid} found"
        ))
    };
    let uuid = call.provider_uuid().map_err(|_| not_found())?;
    let found = call
        .read(|state| {
            let id = state.provider_id(uuid)?;
            let provider = state.provider(id)?;
            let mut writer = Writer::with_capacity(64 + provider.consumers.len() * 128);
            let mut modified = None;
            writer.open_object();
            writer.key("allocations");
            writer.open_object();
            for consumer in provider
                .consumers
                .iter()
                .filter_map(|id| state.consumer_by_id(*id))
            {
                modified = modified.max(Some(consumer.allocated_at.seconds()));
                writer.key(consumer.uuid.as_str());
                writer.open_object();
                writer.key("resources");
                writer.open_object();
                for held in consumer
                    .allocations
                    .iter()
                    .filter(|held| held.provider == id)
                {
                    writer.key(state.class_name(held.class));
                    writer.integer(held.amount);
                }
                writer.close_object();
                if call.version.since(28) {
                    writer.key("consumer_generation");
                    writer.integer(consumer.generation);
                }
                writer.close_object();
            }
            writer.close_object();
            writer.key("resource_provider_generation");
            writer.integer(provider.generation);
            writer.close_object();
            Some((writer, modified))
        })
        .await;
    let (writer, modified) = found.ok_or_else(not_found)?;
    let modified = modified.unwrap_or_else(|| call.now());
    Ok(Reply::json(writer).modified(call.caches(), Some(modified)))
}
