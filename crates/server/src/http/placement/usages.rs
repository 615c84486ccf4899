//! `/usages` and `/resource_providers/{uuid}/usages`

use std::collections::BTreeMap;

use placewright_placement::{ClassId, Consumer, State};

use crate::http::call::Call;
use crate::http::error::{ApiError, ApiResult};
use crate::http::json::Writer;
use crate::http::reply::Reply;
use crate::http::schemas;

/// Sums by class; the order is that of the class numbers.
type Sums = BTreeMap<ClassId, u64>;

pub(crate) async fn of_provider(call: &Call<'_>) -> ApiResult<Reply> {
    let not_found = || {
        let uuid = call.parameter();
        ApiError::not_found(format!(
            "No resource provider with uuid {uuid} found: No resource provider with uuid {uuid} \
             found"
        ))
    };
    let uuid = call.provider_uuid().map_err(|_| not_found())?;
    let writer = call
        .read(|state| {
            let provider = state.provider_by_uuid(uuid)?;
            let mut writer = Writer::with_capacity(256);
            writer.open_object();
            writer.key("resource_provider_generation");
            writer.integer(provider.generation);
            writer.key("usages");
            writer.open_object();
            for record in &provider.inventories {
                writer.key(state.class_name(record.class));
                writer.integer(record.used);
            }
            writer.close_object();
            writer.close_object();
            Some(writer)
        })
        .await;
    let reply = Reply::json(writer.ok_or_else(not_found)?);
    Ok(reply.modified(call.caches(), Some(call.now())))
}

fn add(sums: &mut Sums, consumer: &Consumer) {
    for held in &consumer.allocations {
        *sums.entry(held.class).or_default() += u64::from(held.amount);
    }
}

fn write_sums(writer: &mut Writer, state: &State, sums: &Sums) {
    for (class, sum) in sums {
        writer.key(state.class_name(*class));
        writer.integer(*sum);
    }
}

pub(crate) async fn of_project(call: &Call<'_>) -> ApiResult<Reply> {
    let query = call.query(schemas::usages::get(call.version))?;
    let project = query.get("project_id").unwrap_or("");
    let user = query.get("user_id");
    let by_type = call.version.since(38);
    let wanted_type = query.get("consumer_type").filter(|_| by_type);
    let writer = call
        .read(|state| {
            let consumers = state
                .project_consumers(project)
                .filter(|consumer| user.is_none_or(|user| state.user_name(consumer.user) == user));
            let mut writer = Writer::with_capacity(256);
            writer.open_object();
            writer.key("usages");
            writer.open_object();
            if by_type {
                write_by_type(&mut writer, state, consumers, wanted_type);
            } else {
                let mut sums = Sums::new();
                consumers.for_each(|consumer| add(&mut sums, consumer));
                write_sums(&mut writer, state, &sums);
            }
            writer.close_object();
            writer.close_object();
            writer
        })
        .await;
    Ok(Reply::json(writer).modified(call.caches(), Some(call.now())))
}

/// Consumers written before microversion 1.38 have the type `unknown`; `all` puts all types
/// together.
fn write_by_type<'a>(
    writer: &mut Writer,
    state: &'a State,
    consumers: impl Iterator<Item = &'a Consumer>,
    wanted: Option<&str>,
) {
    let mut groups: BTreeMap<&str, (Sums, u64)> = BTreeMap::new();
    for consumer in consumers {
        let known = consumer
            .consumer_type
            .map(|id| state.consumer_type_name(id));
        let own = known.unwrap_or("unknown");
        let group = match wanted {
            Some("all") => "all",
            Some(wanted) if wanted != own => continue,
            _ => own,
        };
        let (sums, count) = groups.entry(group).or_default();
        add(sums, consumer);
        *count += 1;
    }
    for (name, (sums, count)) in &groups {
        writer.key(name);
        writer.open_object();
        write_sums(writer, state, sums);
        writer.key("consumer_count");
        writer.integer(*count);
        writer.close_object();
    }
}
