//! `/allocations`, `/allocations/{consumer_uuid}` and `/resource_providers/{uuid}/allocations`

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult, Reply, pieces_of};
use placewright_placement::{
    AllocationRequest, ClassId, Command, Consumer, ConsumerClaim, ConsumerGeneration, ConsumerId,
    ConsumerUuid, ProviderId, Refusal, State,
};
use smallvec::SmallVec;
use uuid::Uuid;

use crate::call::{self, RoutedRequest};
use crate::json::Json;
use crate::refusals::{self, RefusedOperation};
use crate::{schemas, uuids};

/// The type of a consumer that was never given one.
const UNKNOWN_TYPE: &str = "unknown";

/// The name of the counted entries in an error about too many.
const ENTRIES: &str = "allocations";

/// Claims of several consumers, without those on providers whose UUID cannot exist.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(crate) consumers: Vec<ConsumerClaim>,
    /// The first provider whose UUID is not canonical, so that it cannot exist.
    unknown: Option<String>,
}

impl Claims {
    /// Adds a consumer with the members of its validated body.
    pub(crate) fn add(
        &mut self,
        call: &RoutedRequest<'_>,
        consumer: ConsumerUuid,
        body: &Json<'_>,
    ) {
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

    /// Parses the form before microversion 1.12. Of two entries for one provider the last counts.
    fn of_list(&mut self, items: &[Json<'_>]) -> Vec<AllocationRequest> {
        let mut requests: Vec<AllocationRequest> = Vec::with_capacity(items.len());
        let mut places: HashMap<Uuid, usize> = HashMap::with_capacity(items.len());
        for item in items {
            let provider = item
                .get("resource_provider")
                .and_then(|provider| provider.get("uuid"));
            let provider = provider.and_then(Json::text).unwrap_or_default();
            let Some(request) = self.request(provider, item) else {
                continue;
            };
            match places.entry(request.provider) {
                Entry::Occupied(place) => requests[*place.get()] = request,
                Entry::Vacant(place) => {
                    place.insert(requests.len());
                    requests.push(request);
                }
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
            // Nothing after it will be looked at.
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

    /// Whether a claim is on a provider that cannot exist.
    pub(crate) fn has_unknown(&self) -> bool {
        self.unknown.is_some()
    }

    /// Refuses claims on a provider that cannot exist, after everything that is checked before.
    ///
    /// # Errors
    ///
    /// When there is such a provider.
    pub(crate) async fn refuse_unknown(
        &self,
        call: &RoutedRequest<'_>,
        attempt: RefusedOperation<'_>,
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

/// The first refusal of the claims by the state, up to the existence of their providers.
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

/// The number of amounts in the allocations of a consumer's validated body; a provider without
/// amounts counts as one.
fn entries_of(body: &Json<'_>) -> usize {
    let of_provider = |item: &Json<'_>| {
        let resources = item
            .get("resources")
            .map_or(0, |amounts| amounts.members().len());
        resources.max(1)
    };
    match body.get("allocations") {
        Some(Json::Array(items)) => items.iter().map(of_provider).sum(),
        Some(object) => object
            .members()
            .iter()
            .map(|(_, item)| of_provider(item))
            .sum(),
        None => 0,
    }
}

/// The number of amounts in the allocations of several consumers; an empty consumer counts as one.
pub(crate) fn entries_of_all(by_consumer: &Json<'_>) -> usize {
    let members = by_consumer.members().iter();
    members.map(|(_, body)| entries_of(body).max(1)).sum()
}

/// Parses a body whose keys are consumers.
///
/// # Errors
///
/// 400 for a key that ends in a newline, the only malformed one that the schema's pattern lets
/// through; 413 for too many allocations.
pub(crate) fn claims_of(call: &RoutedRequest<'_>, by_consumer: &Json<'_>) -> ApiResult<Claims> {
    call.check_entries(entries_of_all(by_consumer), ENTRIES)?;
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

pub(crate) async fn set(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let consumer = uuids::normalise(call.parameter()).ok_or_else(|| malformed(call.parameter()))?;
    let consumer = ConsumerUuid::from_uuid(consumer);
    let body = call.json(schemas::allocations::put(call.version))?;
    call.check_entries(entries_of(&body), ENTRIES)?;
    let mut claims = Claims::default();
    claims.add(call, consumer, &body);
    let attempt = RefusedOperation::Allocate(consumer.as_str());
    claims.refuse_unknown(call, attempt).await?;
    let command = Command::Claim {
        consumers: claims.consumers,
        at: call.at,
    };
    call.submit(command, attempt).await?;
    Ok(Reply::empty(204))
}

pub(crate) async fn set_several(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = call.json(schemas::allocations::post(call.version))?;
    let claims = claims_of(call, &body)?;
    claims
        .refuse_unknown(call, RefusedOperation::AllocateSeveral)
        .await?;
    let command = Command::Claim {
        consumers: claims.consumers,
        at: call.at,
    };
    call.submit(command, RefusedOperation::AllocateSeveral)
        .await?;
    Ok(Reply::empty(204))
}

pub(crate) async fn delete(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let text = call.parameter();
    let consumer = ConsumerUuid::parse(text)
        .ok_or_else(|| ApiError::not_found(format!("No allocations for consumer '{text}'")))?;
    call.submit(Command::Release { consumer }, RefusedOperation::Release)
        .await?;
    Ok(Reply::empty(204))
}

pub(crate) async fn of_consumer(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
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
            write_consumer(&mut writer, call, state, consumer);
            writer.close_object();
            (writer, Some(consumer.allocated_at.seconds()))
        })
        .await;
    let modified = modified.unwrap_or_else(|| call.now());
    Ok(Reply::json(writer).modified(call.has_cache_headers(), Some(modified)))
}

/// The amounts that a consumer holds of one provider, by class.
type Amounts = Vec<(ClassId, u32)>;

/// The allocations of a consumer by provider, in the order in which providers were first named.
fn by_provider(consumer: &Consumer) -> Vec<(ProviderId, Amounts)> {
    let mut all: Vec<(ProviderId, Amounts)> = Vec::new();
    let mut places: HashMap<ProviderId, usize> = HashMap::new();
    for held in &consumer.allocations {
        let place = *places.entry(held.provider).or_insert_with(|| {
            all.push((held.provider, Amounts::new()));
            all.len() - 1
        });
        all[place].1.push((held.class, held.amount));
    }
    all
}

/// The consumer's own fields in versions from 1.12 on.
fn write_consumer(
    writer: &mut Writer,
    call: &RoutedRequest<'_>,
    state: &State,
    consumer: &Consumer,
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

pub(crate) async fn of_provider(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let not_found = || {
        let uuid = call.parameter();
        ApiError::not_found(format!(
            "Resource provider '{uuid}' not found: No resource provider with uuid {uuid} found"
        ))
    };
    let uuid = call.provider_uuid().map_err(|_| not_found())?;
    let found = call.read_in_slices(Holders::default, |state, holders| {
        holders.go_on(state, uuid)
    });
    let found = found.await.ok_or_else(not_found)?;
    let Holders {
        all,
        classes,
        generation,
        modified,
        bytes,
        ..
    } = found;
    let held = all.len() * size_of::<Holder>() + bytes;
    let permit = call.admit_answer(all.len() * HOLDER_BYTES + bytes, held, TOO_MANY_HOLDERS)?;
    let with_generation = call.version.since(28);
    let pieces = pieces_of(
        |writer| {
            writer.open_object();
            writer.key("allocations");
            writer.open_object();
        },
        all.into_iter(),
        move |writer, holder: Holder| holder.write(writer, &classes, with_generation),
        move |writer| {
            writer.close_object();
            writer.key("resource_provider_generation");
            writer.integer(generation.unwrap_or_default());
            writer.close_object();
        },
    );
    let modified = modified.unwrap_or_else(|| call.now());
    Ok(Reply::json_in_pieces(pieces, permit).modified(call.has_cache_headers(), Some(modified)))
}

/// The approximate size of a consumer in a response, besides its amounts.
const HOLDER_BYTES: usize = 90;
const AMOUNT_BYTES: usize = 32;
const TOO_MANY_HOLDERS: &str = "Ask for the allocations of its consumers instead.";

/// The consumers that are read in one slice.
const HOLDERS_OF_SLICE: usize = 4_096;

/// The consumers that hold allocations of a provider, collected in slices.
#[derive(Debug, Default)]
struct Holders {
    all: Vec<Holder>,
    classes: HashMap<ClassId, Box<str>>,
    /// The last consumer that was read.
    last: Option<ConsumerId>,
    generation: Option<u64>,
    modified: Option<i64>,
    /// The size of the amounts in the response, in bytes.
    bytes: usize,
}

/// A consumer with its allocations of the provider.
#[derive(Debug)]
struct Holder {
    consumer: ConsumerUuid,
    generation: u64,
    amounts: SmallVec<[(ClassId, u32); 3]>,
}

impl Holders {
    /// Reads one slice. Returns the collection once it is complete, or none within if the provider
    /// does not exist.
    fn go_on(&mut self, state: &State, uuid: Uuid) -> Option<Option<Self>> {
        let Some((id, provider)) = state
            .provider_id(uuid)
            .and_then(|id| Some((id, state.provider(id)?)))
        else {
            return Some(None);
        };
        // The generation of the first slice, so that a client that relies on it detects later
        // changes.
        self.generation.get_or_insert(provider.generation);
        let next = |last| {
            provider
                .consumers
                .partition_point(|consumer| *consumer <= last)
        };
        let from = self.last.map_or(0, next);
        let to = provider.consumers.len().min(from + HOLDERS_OF_SLICE);
        for consumer in &provider.consumers[from..to] {
            self.last = Some(*consumer);
            if let Some(consumer) = state.consumer_by_id(*consumer) {
                self.add(state, id, consumer);
            }
        }
        (to == provider.consumers.len()).then(|| Some(std::mem::take(self)))
    }

    fn add(&mut self, state: &State, provider: ProviderId, consumer: &Consumer) {
        self.modified = self.modified.max(Some(consumer.allocated_at.seconds()));
        let of_provider = consumer.allocations.iter();
        let of_provider = of_provider.filter(|held| held.provider == provider);
        let amounts: SmallVec<_> = of_provider.map(|held| (held.class, held.amount)).collect();
        for (class, _) in &amounts {
            let name = self.classes.entry(*class);
            self.bytes += AMOUNT_BYTES
                + name
                    .or_insert_with(|| state.class_name(*class).into())
                    .len();
        }
        self.all.push(Holder {
            consumer: consumer.uuid,
            generation: consumer.generation,
            amounts,
        });
    }
}

impl Holder {
    fn write(
        &self,
        writer: &mut Writer,
        classes: &HashMap<ClassId, Box<str>>,
        with_generation: bool,
    ) {
        writer.key(self.consumer.as_str());
        writer.open_object();
        writer.key("resources");
        writer.open_object();
        for (class, amount) in &self.amounts {
            writer.key(classes.get(class).map_or("", |name| name));
            writer.integer(*amount);
        }
        writer.close_object();
        if with_generation {
            writer.key("consumer_generation");
            writer.integer(self.generation);
        }
        writer.close_object();
    }
}
