//! `/resource_providers/{uuid}/allocations`

use std::collections::HashMap;

use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult, Reply, pieces_of_list};
use placewright_placement::{ClassId, Consumer, ConsumerId, ConsumerUuid, ProviderId, State};
use smallvec::SmallVec;
use uuid::Uuid;

use crate::routed_request::RoutedRequest;

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let not_found = || {
        let uuid = request.path_parameter();
        ApiError::not_found(format!(
            "Resource provider '{uuid}' not found: No resource provider with uuid {uuid} found"
        ))
    };
    let uuid = request.provider_uuid().map_err(|_| not_found())?;
    let collected = request.read_in_slices(HolderCollector::default, |state, collector| {
        collector.run_slice(state, uuid)
    });
    let HolderCollector {
        holders,
        classes,
        generation,
        last_modified,
        bytes,
        ..
    } = collected.await.ok_or_else(not_found)?;
    let memory_bytes = holders.len() * size_of::<Holder>() + bytes;
    let permit = request.check_and_reserve_response(
        holders.len() * HOLDER_BYTES + bytes,
        memory_bytes,
        TOO_MANY_HOLDERS_ADVICE,
    )?;
    let with_generation = request.version.since(28);
    let pieces = pieces_of_list(
        |writer| {
            writer.open_object();
            writer.key("allocations");
            writer.open_object();
        },
        holders.into_iter(),
        move |writer, holder: Holder| holder.write(writer, &classes, with_generation),
        move |writer| {
            writer.close_object();
            writer.key("resource_provider_generation");
            writer.integer(generation.unwrap_or_default());
            writer.close_object();
        },
    );
    let last_modified = last_modified.unwrap_or_else(|| request.received_s());
    Ok(Reply::json_in_pieces(pieces, permit)
        .with_cache_headers(request.has_cache_headers(), Some(last_modified)))
}

/// The approximate size of a consumer in a response, without its amounts.
const HOLDER_BYTES: usize = 90;
/// The approximate size of one amount in a response.
const AMOUNT_BYTES: usize = 32;
/// The advice to a client whose response is too large.
const TOO_MANY_HOLDERS_ADVICE: &str = "Ask for the allocations of its consumers instead.";

/// The consumers that are read in one slice.
const HOLDERS_PER_SLICE: usize = 4_096;

/// The consumers that hold allocations of a provider, collected in slices.
#[derive(Debug, Default)]
struct HolderCollector {
    holders: Vec<Holder>,
    classes: HashMap<ClassId, Box<str>>,
    /// The last consumer that was read.
    last: Option<ConsumerId>,
    generation: Option<u64>,
    last_modified: Option<i64>,
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

impl HolderCollector {
    /// Reads one slice. Returns none until the collection is complete, and `Some(None)` if the provider
    /// does not exist.
    fn run_slice(&mut self, state: &State, uuid: Uuid) -> Option<Option<Self>> {
        let Some((id, provider)) = state
            .provider_id(uuid)
            .and_then(|id| Some((id, state.provider(id)?)))
        else {
            return Some(None);
        };
        // The generation that the provider has in the first slice: a client that sends it back is
        // refused if anything has changed since.
        self.generation.get_or_insert(provider.generation);
        let position_after = |last| {
            provider
                .consumers
                .partition_point(|consumer| *consumer <= last)
        };
        let start = self.last.map_or(0, position_after);
        let end = provider.consumers.len().min(start + HOLDERS_PER_SLICE);
        for consumer in &provider.consumers[start..end] {
            self.last = Some(*consumer);
            if let Some(consumer) = state.consumer_by_id(*consumer) {
                self.add(state, id, consumer);
            }
        }
        (end == provider.consumers.len()).then(|| Some(std::mem::take(self)))
    }

    fn add(&mut self, state: &State, provider: ProviderId, consumer: &Consumer) {
        self.last_modified = self
            .last_modified
            .max(Some(consumer.allocated_at.seconds()));
        let allocations = consumer.allocations.iter();
        let allocations = allocations.filter(|allocation| allocation.provider == provider);
        let amounts: SmallVec<_> = allocations
            .map(|allocation| (allocation.class, allocation.amount))
            .collect();
        for (class, _) in &amounts {
            let name = self.classes.entry(*class);
            let name = name.or_insert_with(|| state.class_name(*class).into());
            self.bytes += AMOUNT_BYTES + name.len();
        }
        self.holders.push(Holder {
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
