//! `/allocations` and `/allocations/{consumer_uuid}`

use std::collections::{HashMap, hash_map::Entry};

use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_placement::{
    AllocationRequest, ClassId, Command, Consumer, ConsumerClaim, ConsumerGeneration, ConsumerUuid,
    ProviderId, Refusal, State,
};
use uuid::Uuid;

use crate::json::Json;
use crate::refusals::{self, RefusedOperation};
use crate::routed_request::{self, RoutedRequest};
use crate::{schemas, uuids};

/// The type that is shown for a consumer without a type.
const UNKNOWN_TYPE: &str = "unknown";

/// The name of a request's entries in the error about too many of them.
const ENTRY_KIND: &str = "allocations";

/// Claims of one or several consumers. After the first provider that cannot exist, further allocations are left out.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(crate) consumers: Vec<ConsumerClaim>,
    /// The first provider whose UUID is not in the canonical form, so that it cannot exist.
    unknown_provider: Option<String>,
}

impl Claims {
    /// Adds a consumer with the members of its validated body.
    pub(crate) fn add(
        &mut self,
        request: &RoutedRequest<'_>,
        consumer: ConsumerUuid,
        body: &Json<'_>,
    ) {
        let options = &request.service.options;
        let text = |key: &str, default: &str| {
            body.get(key)
                .and_then(Json::text)
                .unwrap_or(default)
                .to_owned()
        };
        let generation = match body.get("consumer_generation") {
            _ if !request.version.since(28) => ConsumerGeneration::Any,
            None | Some(Json::Null) => ConsumerGeneration::Is(None),
            given => ConsumerGeneration::Is(Some(routed_request::generation(given))),
        };
        let consumer_type = body.get("consumer_type").and_then(Json::text);
        let allocations = match body.get("allocations") {
            Some(Json::Array(items)) => self.allocations_of_list(items),
            Some(object) => self.allocations_of_object(object),
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

    /// Parses allocations as a list, which is their form before microversion 1.12. Of two items for one
    /// provider the last is used.
    fn allocations_of_list(&mut self, items: &[Json<'_>]) -> Vec<AllocationRequest> {
        let mut allocations: Vec<AllocationRequest> = Vec::with_capacity(items.len());
        let mut indexes: HashMap<Uuid, usize> = HashMap::with_capacity(items.len());
        for item in items {
            let provider = item
                .get("resource_provider")
                .and_then(|provider| provider.get("uuid"));
            let uuid = provider.and_then(Json::text).unwrap_or_default();
            let Some(allocation) = self.parse_allocation(uuid, item) else {
                continue;
            };
            match indexes.entry(allocation.provider) {
                Entry::Occupied(index) => allocations[*index.get()] = allocation,
                Entry::Vacant(index) => {
                    index.insert(allocations.len());
                    allocations.push(allocation);
                }
            }
        }
        allocations
    }

    fn allocations_of_object(&mut self, object: &Json<'_>) -> Vec<AllocationRequest> {
        let members = object.members().iter();
        members
            .filter_map(|(provider, item)| self.parse_allocation(provider, item))
            .collect()
    }

    fn parse_allocation(&mut self, provider: &str, item: &Json<'_>) -> Option<AllocationRequest> {
        if self.unknown_provider.is_some() {
            return None;
        }
        let Some(uuid) = uuids::parse_canonical(provider) else {
            self.unknown_provider = Some(provider.to_owned());
            return None;
        };
        let resources = item.get("resources").map_or(&[][..], Json::members).iter();
        // The schema admits only whole numbers, so the default is never used.
        let amount = |value: &Json<'_>| value.integer().unwrap_or(i64::MAX);
        Some(AllocationRequest {
            provider: uuid,
            resources: resources
                .map(|(class, value)| (class.to_string(), amount(value)))
                .collect(),
        })
    }

    /// Whether a claim is on a provider that cannot exist.
    pub(crate) fn has_unknown_provider(&self) -> bool {
        self.unknown_provider.is_some()
    }

    /// Refuses claims on a provider that cannot exist, unless an earlier check of the reference refuses
    /// the claims for another reason.
    ///
    /// # Errors
    ///
    /// The first refusal, when there is such a provider.
    pub(crate) async fn refuse_unknown_provider(
        &self,
        request: &RoutedRequest<'_>,
        operation: RefusedOperation<'_>,
    ) -> ApiResult<()> {
        let Some(unknown_provider) = &self.unknown_provider else {
            return Ok(());
        };
        let earlier_refusal = request
            .read(|state| first_refusal(state, &self.consumers))
            .await;
        Err(match earlier_refusal {
            Some(refusal) => refusals::to_error(&refusal, &operation),
            None => refusals::allocation_provider_not_found(unknown_provider),
        })
    }
}

/// The first refusal of the claims by the checks that come before those of the resources: of the consumers'
/// generations, then of whether the providers exist. None if both checks pass.
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
        .map(|allocation| allocation.provider);
    providers
        .find(|uuid| state.provider_id(*uuid).is_none())
        .map(|uuid| Refusal::AllocationProviderNotFound { uuid })
}

/// The number of amounts in the allocations of a consumer's validated body; a provider without amounts counts as one.
fn entry_count(body: &Json<'_>) -> usize {
    let provider_entries = |item: &Json<'_>| {
        let resources = item
            .get("resources")
            .map_or(0, |amounts| amounts.members().len());
        resources.max(1)
    };
    match body.get("allocations") {
        Some(Json::Array(items)) => items.iter().map(provider_entries).sum(),
        Some(object) => object
            .members()
            .iter()
            .map(|(_, item)| provider_entries(item))
            .sum(),
        None => 0,
    }
}

/// The number of amounts in the allocations of several consumers; a consumer without amounts counts
/// as one.
pub(crate) fn entry_count_of_all(by_consumer: &Json<'_>) -> usize {
    let members = by_consumer.members().iter();
    members.map(|(_, body)| entry_count(body).max(1)).sum()
}

/// Parses an object whose keys are consumers.
///
/// # Errors
///
/// 400 for a key that ends in a newline, the only malformed one that the schema's pattern lets
/// through; 413 for too many allocations.
pub(crate) fn claims_of(request: &RoutedRequest<'_>, by_consumer: &Json<'_>) -> ApiResult<Claims> {
    request.check_entries(entry_count_of_all(by_consumer), ENTRY_KIND)?;
    let mut claims = Claims::default();
    claims.consumers.reserve(by_consumer.members().len());
    for (key, body) in by_consumer.members() {
        let consumer = ConsumerUuid::parse(key).ok_or_else(|| malformed(key))?;
        claims.add(request, consumer, body);
    }
    Ok(claims)
}

/// Parses the body of a request for one consumer. Not a part of [`set`], whose future would keep the parsed body.
fn claims_of_one(request: &RoutedRequest<'_>, consumer: ConsumerUuid) -> ApiResult<Claims> {
    let body = request.json(schemas::allocations::put(request.version))?;
    request.check_entries(entry_count(&body), ENTRY_KIND)?;
    let mut claims = Claims::default();
    claims.add(request, consumer, &body);
    Ok(claims)
}

fn malformed(consumer: &str) -> ApiError {
    ApiError::bad_request(format!("Malformed consumer_uuid: {consumer}"))
}

pub(crate) async fn set(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let consumer = uuids::parse_any_form(request.path_parameter())
        .ok_or_else(|| malformed(request.path_parameter()))?;
    let consumer = ConsumerUuid::from_uuid(consumer);
    let claims = claims_of_one(request, consumer)?;
    let operation = RefusedOperation::Allocate(consumer.as_str());
    claims.refuse_unknown_provider(request, operation).await?;
    let command = Command::Claim {
        consumers: claims.consumers,
        at: request.received_at,
    };
    request.submit(command, operation).await?;
    Ok(Reply::empty(204))
}

pub(crate) async fn set_several(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json(schemas::allocations::post(request.version))?;
    let claims = claims_of(request, &body)?;
    claims
        .refuse_unknown_provider(request, RefusedOperation::AllocateSeveral)
        .await?;
    let command = Command::Claim {
        consumers: claims.consumers,
        at: request.received_at,
    };
    request
        .submit(command, RefusedOperation::AllocateSeveral)
        .await?;
    Ok(Reply::empty(204))
}

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let text = request.path_parameter();
    let consumer = ConsumerUuid::parse(text)
        .ok_or_else(|| ApiError::not_found(format!("No allocations for consumer '{text}'")))?;
    request
        .submit(Command::Release { consumer }, RefusedOperation::Release)
        .await?;
    Ok(Reply::empty(204))
}

pub(crate) async fn of_consumer(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let uuid = ConsumerUuid::parse(request.path_parameter());
    let (writer, last_modified) = request
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
            for (provider, amounts) in by_provider(consumer) {
                let Some(provider) = state.provider(provider) else {
                    continue;
                };
                writer.key(provider.uuid.hyphenated().encode_lower(&mut [0; 36]));
                writer.open_object();
                writer.key("resources");
                writer.open_object();
                for (class, amount) in amounts {
                    writer.key(state.class_name(class));
                    writer.integer(amount);
                }
                writer.close_object();
                writer.key("generation");
                writer.integer(provider.generation);
                writer.close_object();
            }
            writer.close_object();
            write_consumer(&mut writer, request, state, consumer);
            writer.close_object();
            (writer, Some(consumer.allocated_at.seconds()))
        })
        .await;
    let last_modified = last_modified.unwrap_or_else(|| request.received_s());
    Ok(Reply::json(writer).with_cache_headers(request.has_cache_headers(), Some(last_modified)))
}

/// The amounts that a consumer holds of one provider, by class.
type Amounts = Vec<(ClassId, u32)>;

/// The allocations of a consumer by provider, in the order in which providers were first named.
fn by_provider(consumer: &Consumer) -> Vec<(ProviderId, Amounts)> {
    let mut grouped: Vec<(ProviderId, Amounts)> = Vec::new();
    let mut indexes: HashMap<ProviderId, usize> = HashMap::new();
    for allocation in &consumer.allocations {
        let index = *indexes.entry(allocation.provider).or_insert_with(|| {
            grouped.push((allocation.provider, Amounts::new()));
            grouped.len() - 1
        });
        let (_, amounts) = &mut grouped[index];
        amounts.push((allocation.class, allocation.amount));
    }
    grouped
}

/// Writes the consumer's owner, generation and type, as far as the microversion has them.
fn write_consumer(
    writer: &mut Writer,
    request: &RoutedRequest<'_>,
    state: &State,
    consumer: &Consumer,
) {
    if request.version.since(12) {
        writer.key("project_id");
        writer.text(state.project_name(consumer.project));
        writer.key("user_id");
        writer.text(state.user_name(consumer.user));
    }
    if request.version.since(28) {
        writer.key("consumer_generation");
        writer.integer(consumer.generation);
    }
    if request.version.since(38) {
        writer.key("consumer_type");
        let type_name = consumer
            .consumer_type
            .map(|id| state.consumer_type_name(id));
        writer.text(type_name.unwrap_or(UNKNOWN_TYPE));
    }
}
