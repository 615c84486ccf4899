//! `/resource_providers/{uuid}/inventories` and one inventory of them

use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_placement::{Command, Inventory, Outcome, Refusal, State};
use uuid::Uuid;

use crate::call::{self, RoutedRequest};
use crate::json::Json;
use crate::pattern::Pattern;
use crate::refusals::{RefusedOperation, to_error};
use crate::schemas;

/// The fields of an inventory in the order in which they are shown.
const FIELDS: [&str; 6] = [
    "total",
    "reserved",
    "min_unit",
    "max_unit",
    "step_size",
    "allocation_ratio",
];

/// The inventory of a validated record.
pub(crate) fn from_json(record: &Json<'_>) -> Inventory {
    let whole = |field: &str, default: i32| {
        let given = record.get(field).and_then(Json::integer);
        given
            .and_then(|number| i32::try_from(number).ok())
            .unwrap_or(default)
    };
    Inventory {
        total: whole("total", 0),
        reserved: whole("reserved", 0),
        min_unit: whole("min_unit", 1),
        max_unit: whole("max_unit", schemas::MAX_INT),
        step_size: whole("step_size", 1),
        allocation_ratio: record
            .get("allocation_ratio")
            .and_then(Json::number)
            .unwrap_or(1.0),
    }
}

fn write_stored(writer: &mut Writer, inventory: &Inventory) {
    writer.plain_key("total");
    writer.integer(inventory.total);
    writer.plain_key("reserved");
    writer.integer(inventory.reserved);
    writer.plain_key("min_unit");
    writer.integer(inventory.min_unit);
    writer.plain_key("max_unit");
    writer.integer(inventory.max_unit);
    writer.plain_key("step_size");
    writer.integer(inventory.step_size);
    writer.plain_key("allocation_ratio");
    writer.float(inventory.allocation_ratio);
}

/// Writes a record as the client wrote it: `10.0` stays `10.0`.
fn write_given(writer: &mut Writer, record: &Json<'_>) {
    for field in FIELDS {
        writer.plain_key(field);
        match (record.get(field), field) {
            (Some(Json::Int(number)), _) => writer.integer(*number),
            (Some(Json::Float(number)), _) => writer.float(*number),
            (_, "allocation_ratio") => writer.float(1.0),
            (_, "max_unit") => writer.integer(schemas::MAX_INT),
            (_, "reserved") => writer.integer(0),
            _ => writer.integer(1),
        }
    }
}

fn one(record: &Json<'_>, generation: u64) -> Writer {
    let mut writer = Writer::with_capacity(256);
    writer.open_object();
    write_given(&mut writer, record);
    write_generation(&mut writer, generation);
    writer.close_object();
    writer
}

/// Generation 0 is omitted from the response about one inventory.
fn write_generation(writer: &mut Writer, generation: u64) {
    if generation != 0 {
        writer.plain_key("resource_provider_generation");
        writer.integer(generation);
    }
}

fn not_found(call: &RoutedRequest<'_>) -> ApiError {
    let uuid = call.parameter();
    ApiError::not_found(format!(
        "No resource provider with uuid {uuid} found : No resource provider with uuid {uuid} found"
    ))
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let uuid = call.provider_uuid().map_err(|_| not_found(call))?;
    let found = call
        .read(|state| {
            let provider = state.provider_by_uuid(uuid)?;
            let mut writer = Writer::with_capacity(128 + provider.inventories.len() * 160);
            writer.open_object();
            writer.plain_key("resource_provider_generation");
            writer.integer(provider.generation);
            writer.plain_key("inventories");
            writer.open_object();
            for record in &provider.inventories {
                writer.key(state.class_name(record.class));
                writer.open_object();
                write_stored(&mut writer, &record.inventory);
                writer.close_object();
            }
            writer.close_object();
            writer.close_object();
            let times = provider
                .inventories
                .iter()
                .map(|record| record.modified_at.seconds());
            Some((writer, times.max()))
        })
        .await;
    let (writer, modified) = found.ok_or_else(|| not_found(call))?;
    Ok(Reply::json(writer).modified(call.has_cache_headers(), modified))
}

pub(crate) async fn get(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let uuid = call.provider_uuid().map_err(|_| not_found(call))?;
    let class = call.parameters[1];
    let found = call
        .read(|state| {
            let provider = state.provider_by_uuid(uuid)?;
            let record = state
                .class_id(class)
                .and_then(|class| provider.inventory(class));
            Some(record.map(|record| {
                let mut writer = Writer::with_capacity(256);
                writer.open_object();
                write_stored(&mut writer, &record.inventory);
                write_generation(&mut writer, provider.generation);
                writer.close_object();
                (writer, record.modified_at.seconds())
            }))
        })
        .await;
    let record = found.ok_or_else(|| not_found(call))?;
    let (writer, modified) = record.ok_or_else(|| {
        ApiError::not_found(format!(
            "No inventory of class {class} for {}",
            call.parameter()
        ))
    })?;
    Ok(Reply::json(writer).modified(call.has_cache_headers(), Some(modified)))
}

pub(crate) async fn create(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let provider = call.provider_uuid()?;
    let record = call
        .json_of_provider(provider, &schemas::inventories::CREATE)
        .await?;
    let class = record
        .get("resource_class")
        .and_then(Json::text)
        .unwrap_or_default()
        .to_owned();
    let location = format!("/resource_providers/{provider}/inventories/{class}");
    let command = Command::AddInventory {
        provider,
        class,
        inventory: from_json(&record),
        may_reserve_all: call.version.since(26),
        at: call.at,
    };
    let outcome = call
        .submit(command, RefusedOperation::AddInventory(call.parameter()))
        .await?;
    let reply = Reply::json(one(&record, generation_of(&outcome))).with_status(201);
    Ok(reply
        .with_location(location)
        .modified(call.has_cache_headers(), Some(call.now())))
}

fn generation_of(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Generation(generation) => *generation,
        _ => 0,
    }
}

pub(crate) async fn update(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let provider = call.provider_uuid()?;
    let record = call
        .json_of_provider(provider, &schemas::inventories::UPDATE)
        .await?;
    let command = Command::UpdateInventory {
        provider,
        generation: call::generation(record.get("resource_provider_generation")),
        class: call.parameters[1].to_owned(),
        inventory: from_json(&record),
        may_reserve_all: call.version.since(26),
        at: call.at,
    };
    let outcome = call
        .submit(command, RefusedOperation::UpdateInventory(call.parameter()))
        .await?;
    let reply = Reply::json(one(&record, generation_of(&outcome)));
    Ok(reply.modified(call.has_cache_headers(), Some(call.now())))
}

/// The inventories of a validated body, including those under keys that no pattern of the schema
/// matches.
///
/// # Errors
///
/// 400 for a record under such a key that is not valid.
pub(crate) fn records(inventories: &Json<'_>) -> ApiResult<Vec<(String, Inventory)>> {
    let record = |(class, record): &(std::borrow::Cow<'_, str>, Json<'_>)| {
        if !Pattern::Name.matches(class) {
            call::check(record, &schemas::inventories::RECORD_OF_ANY_CLASS)?;
        }
        Ok((class.clone().into_owned(), from_json(record)))
    };
    inventories.members().iter().map(record).collect()
}

/// The first refusal of the state about a provider and the generation that the client gave.
pub(super) fn first_refusal(state: &State, uuid: Uuid, given: u64) -> Option<Refusal> {
    let Some(provider) = state.provider_by_uuid(uuid) else {
        return Some(Refusal::ProviderNotFound { uuid });
    };
    let actual = provider.generation;
    (actual != given).then_some(Refusal::ProviderGenerationConflict {
        uuid,
        actual,
        given,
    })
}

pub(crate) async fn set(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let provider = call.provider_uuid()?;
    let body = call
        .json_of_provider(provider, &schemas::inventories::SET)
        .await?;
    let given = body.get("inventories").unwrap_or(&Json::Null);
    call.check_entries(given.members().len(), "inventories")?;
    let attempt = RefusedOperation::SetInventories(call.parameter());
    let generation = call::generation(body.get("resource_provider_generation"));
    let inventories = match records(given) {
        Ok(inventories) => inventories,
        Err(error) => {
            // Records that the schema did not cover are validated after the generation.
            let earlier = call
                .read(|state| first_refusal(state, provider, generation))
                .await;
            return Err(earlier.map_or(error, |refusal| to_error(&refusal, &attempt)));
        }
    };
    let command = Command::SetInventories {
        provider,
        generation: Some(generation),
        inventories,
        may_reserve_all: call.version.since(26),
        at: call.at,
    };
    let outcome = call.submit(command, attempt).await?;
    let mut writer = Writer::with_capacity(128 + given.members().len() * 160);
    writer.open_object();
    writer.plain_key("resource_provider_generation");
    writer.integer(generation_of(&outcome));
    writer.plain_key("inventories");
    writer.open_object();
    for (class, record) in given.members() {
        writer.key(class);
        writer.open_object();
        write_given(&mut writer, record);
        writer.close_object();
    }
    writer.close_object();
    writer.close_object();
    let modified = (!given.members().is_empty()).then(|| call.now());
    Ok(Reply::json(writer).modified(call.has_cache_headers(), modified))
}

pub(crate) async fn delete(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let provider = call.provider_uuid()?;
    let class = call.parameters[1];
    let command = Command::DeleteInventory {
        provider,
        class: class.to_owned(),
        at: call.at,
    };
    call.submit(command, RefusedOperation::DeleteInventory(class))
        .await?;
    Ok(Reply::empty(204))
}

pub(crate) async fn delete_all(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let provider = call.provider_uuid()?;
    let command = Command::SetInventories {
        provider,
        generation: None,
        inventories: Vec::new(),
        may_reserve_all: true,
        at: call.at,
    };
    call.submit(command, RefusedOperation::DeleteInventories)
        .await?;
    Ok(Reply::empty(204))
}
