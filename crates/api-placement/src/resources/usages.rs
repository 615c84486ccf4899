//! `/usages` and `/resource_providers/{uuid}/usages`

use std::collections::BTreeMap;

use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_placement::{ClassId, Consumer, State};

use crate::routed_request::RoutedRequest;
use crate::schemas;

/// Usage by class, in the order of the class numbers.
type UsageByClass = BTreeMap<ClassId, u64>;

pub(crate) async fn of_provider(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let not_found = || {
        let uuid = request.path_parameter();
        ApiError::not_found(format!(
            "No resource provider with uuid {uuid} found: No resource provider with uuid {uuid} \
             found"
        ))
    };
    let uuid = request.provider_uuid().map_err(|_| not_found())?;
    let writer = request
        .read(|state| {
            let provider = state.provider_by_uuid(uuid)?;
            let mut writer = Writer::with_capacity(256);
            writer.open_object();
            writer.key("resource_provider_generation");
            writer.integer(provider.generation);
            writer.key("usages");
            writer.open_object();
            for row in &provider.inventories {
                writer.key(state.class_name(row.class));
                writer.integer(row.used);
            }
            writer.close_object();
            writer.close_object();
            Some(writer)
        })
        .await;
    let reply = Reply::json(writer.ok_or_else(not_found)?);
    Ok(reply.with_cache_headers(request.has_cache_headers(), Some(request.received_s())))
}

/// Adds the allocations of a consumer.
fn add_allocations(usage: &mut UsageByClass, consumer: &Consumer) {
    for allocation in &consumer.allocations {
        *usage.entry(allocation.class).or_default() += u64::from(allocation.amount);
    }
}

fn write_usage(writer: &mut Writer, state: &State, usage: &UsageByClass) {
    for (class, amount) in usage {
        writer.key(state.class_name(*class));
        writer.integer(*amount);
    }
}

/// The query about a project's usage.
struct UsageQuery<'a> {
    project: &'a str,
    user: Option<&'a str>,
    /// Whether there is a sum for each consumer type.
    is_by_type: bool,
    /// The consumer type in the query, or `all` for one sum of all types; none for a sum of each type.
    wanted_type: Option<&'a str>,
}

/// The usage of a project's consumers, summed in slices because there may be a million of them.
#[derive(Default)]
struct UsageCollector {
    /// The slot after the last consumer that was read.
    next_slot: u32,
    /// The usage and the number of consumers. A query by consumer type has one sum for each type, under its
    /// name; any other query has a single sum, under an empty name.
    sums: BTreeMap<String, (UsageByClass, u64)>,
    /// The state's counter of structural changes when the sums were started. While the counter stays the same,
    /// a `ClassId` means the same resource class.
    structure: u64,
    /// How often the sums were started. The first slice counts, because `structure` is 0 before it.
    starts: u32,
}

/// The consumers that are read in one slice.
const CONSUMERS_PER_SLICE: usize = 8_192;

/// How often the sums may be started in slices. If structural changes interrupt them more often, they are
/// computed in one slice.
const SLICED_STARTS_MAX: u32 = 8;

impl UsageCollector {
    /// Reads one slice. Returns the response once it is complete, none before.
    fn run_slice(&mut self, state: &State, query: &UsageQuery<'_>) -> Option<Writer> {
        let structure = state.tree_changes().structure_version();
        if self.structure != structure {
            *self = Self {
                structure,
                starts: self.starts + 1,
                ..Self::default()
            };
        }
        let slice_size = if self.starts > SLICED_STARTS_MAX {
            usize::MAX
        } else {
            CONSUMERS_PER_SLICE
        };
        let mut left_in_slice = slice_size;
        for (slot, consumer) in state.project_consumers_from(query.project, self.next_slot) {
            if left_in_slice == 0 {
                return None;
            }
            left_in_slice -= 1;
            self.next_slot = slot + 1;
            self.add(state, query, consumer);
        }
        Some(self.write(state, query))
    }

    /// Adds a consumer to the sum of its type. A consumer that was written with a microversion before 1.38 has the type
    /// `unknown`; a query for the type `all` has one sum of all types.
    fn add(&mut self, state: &State, query: &UsageQuery<'_>, consumer: &Consumer) {
        if (query.user).is_some_and(|user| state.user_name(consumer.user) != user) {
            return;
        }
        let consumer_type = consumer
            .consumer_type
            .map(|id| state.consumer_type_name(id));
        let type_name = consumer_type.unwrap_or("unknown");
        let sum_name = match query.wanted_type {
            _ if !query.is_by_type => "",
            Some("all") => "all",
            Some(wanted) if wanted != type_name => return,
            _ => type_name,
        };
        if !self.sums.contains_key(sum_name) {
            self.sums.insert(sum_name.to_owned(), Default::default());
        }
        if let Some((usage, count)) = self.sums.get_mut(sum_name) {
            add_allocations(usage, consumer);
            *count += 1;
        }
    }

    fn write(&self, state: &State, query: &UsageQuery<'_>) -> Writer {
        let mut writer = Writer::with_capacity(256);
        writer.open_object();
        writer.key("usages");
        writer.open_object();
        for (name, (usage, count)) in &self.sums {
            if !query.is_by_type {
                write_usage(&mut writer, state, usage);
                continue;
            }
            writer.key(name);
            writer.open_object();
            write_usage(&mut writer, state, usage);
            writer.key("consumer_count");
            writer.integer(*count);
            writer.close_object();
        }
        writer.close_object();
        writer.close_object();
        writer
    }
}

pub(crate) async fn of_project(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let query = request.query(schemas::usages::get(request.version))?;
    let is_by_type = request.version.since(38);
    let query = UsageQuery {
        project: query.get("project_id").unwrap_or(""),
        user: query.get("user_id"),
        is_by_type,
        wanted_type: query.get("consumer_type").filter(|_| is_by_type),
    };
    let writer = request
        .read_in_slices(UsageCollector::default, |state, collector| {
            collector.run_slice(state, &query)
        })
        .await;
    Ok(Reply::json(writer)
        .with_cache_headers(request.has_cache_headers(), Some(request.received_s())))
}
