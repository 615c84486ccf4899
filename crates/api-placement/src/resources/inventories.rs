//! `/resource_providers/{uuid}/inventories` and `/resource_providers/{uuid}/inventories/{resource_class}`

use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_placement::{Command, Inventory, Outcome, Refusal, State};
use uuid::Uuid;

use crate::json::Json;
use crate::pattern::Pattern;
use crate::refusals::{RefusedOperation, to_error};
use crate::routed_request::{self, RoutedRequest};
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

/// The inventory of a validated JSON object.
pub(crate) fn from_json(inventory_json: &Json<'_>) -> Inventory {
    let integer_field = |field: &str, default: i32| {
        let number = inventory_json.get(field).and_then(Json::integer);
        number
            .and_then(|number| i32::try_from(number).ok())
            .unwrap_or(default)
    };
    Inventory {
        total: integer_field("total", 0),
        reserved: integer_field("reserved", 0),
        min_unit: integer_field("min_unit", 1),
        max_unit: integer_field("max_unit", schemas::MAX_INT),
        step_size: integer_field("step_size", 1),
        allocation_ratio: inventory_json
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

/// Writes an inventory with the numbers as the client wrote them (`10.0` stays `10.0`), and the defaults of
/// the fields that the client left out.
fn write_as_given(writer: &mut Writer, inventory_json: &Json<'_>) {
    for field in FIELDS {
        writer.plain_key(field);
        match (inventory_json.get(field), field) {
            (Some(Json::Int(number)), _) => writer.integer(*number),
            (Some(Json::Float(number)), _) => writer.float(*number),
            (_, "allocation_ratio") => writer.float(1.0),
            (_, "max_unit") => writer.integer(schemas::MAX_INT),
            (_, "reserved") => writer.integer(0),
            _ => writer.integer(1),
        }
    }
}

/// The response about one inventory, with the numbers as the client wrote them.
fn given_inventory_json(inventory_json: &Json<'_>, generation: u64) -> Writer {
    let mut writer = Writer::with_capacity(256);
    writer.open_object();
    write_as_given(&mut writer, inventory_json);
    write_generation(&mut writer, generation);
    writer.close_object();
    writer
}

/// Writes the provider's generation. As in the reference, the response about one inventory omits
/// generation 0.
fn write_generation(writer: &mut Writer, generation: u64) {
    if generation != 0 {
        writer.plain_key("resource_provider_generation");
        writer.integer(generation);
    }
}

fn not_found(request: &RoutedRequest<'_>) -> ApiError {
    let uuid = request.path_parameter();
    ApiError::not_found(format!(
        "No resource provider with uuid {uuid} found : No resource provider with uuid {uuid} found"
    ))
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let uuid = request.provider_uuid().map_err(|_| not_found(request))?;
    let found = request
        .read(|state| {
            let provider = state.provider_by_uuid(uuid)?;
            let mut writer = Writer::with_capacity(128 + provider.inventories.len() * 160);
            writer.open_object();
            writer.plain_key("resource_provider_generation");
            writer.integer(provider.generation);
            writer.plain_key("inventories");
            writer.open_object();
            for row in &provider.inventories {
                writer.key(state.class_name(row.class));
                writer.open_object();
                write_stored(&mut writer, &row.inventory);
                writer.close_object();
            }
            writer.close_object();
            writer.close_object();
            let times = provider
                .inventories
                .iter()
                .map(|row| row.modified_at.seconds());
            Some((writer, times.max()))
        })
        .await;
    let (writer, last_modified) = found.ok_or_else(|| not_found(request))?;
    Ok(Reply::json(writer).with_cache_headers(request.has_cache_headers(), last_modified))
}

pub(crate) async fn get(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let uuid = request.provider_uuid().map_err(|_| not_found(request))?;
    let class = request.path_parameters[1];
    let found = request
        .read(|state| {
            let provider = state.provider_by_uuid(uuid)?;
            let row = state
                .class_id(class)
                .and_then(|class| provider.inventory(class));
            Some(row.map(|row| {
                let mut writer = Writer::with_capacity(256);
                writer.open_object();
                write_stored(&mut writer, &row.inventory);
                write_generation(&mut writer, provider.generation);
                writer.close_object();
                (writer, row.modified_at.seconds())
            }))
        })
        .await;
    let inventory = found.ok_or_else(|| not_found(request))?;
    let (writer, last_modified) = inventory.ok_or_else(|| {
        ApiError::not_found(format!(
            "No inventory of class {class} for {}",
            request.path_parameter()
        ))
    })?;
    Ok(Reply::json(writer).with_cache_headers(request.has_cache_headers(), Some(last_modified)))
}

pub(crate) async fn create(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let provider = request.provider_uuid()?;
    let inventory_json = request
        .json_of_provider(provider, &schemas::inventories::CREATE)
        .await?;
    let class = inventory_json
        .get("resource_class")
        .and_then(Json::text)
        .unwrap_or_default()
        .to_owned();
    let location = format!("/resource_providers/{provider}/inventories/{class}");
    let command = Command::AddInventory {
        provider,
        class,
        inventory: from_json(&inventory_json),
        may_reserve_all: request.version.since(26),
        at: request.received_at,
    };
    let outcome = request
        .submit(
            command,
            RefusedOperation::AddInventory(request.path_parameter()),
        )
        .await?;
    let reply = Reply::json(given_inventory_json(
        &inventory_json,
        generation_of(&outcome),
    ))
    .with_status(201);
    Ok(reply
        .with_location(location)
        .with_cache_headers(request.has_cache_headers(), Some(request.received_s())))
}

/// The generation in the outcome of a command on inventories. Such a command has no other outcome.
fn generation_of(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Generation(generation) => *generation,
        _ => 0,
    }
}

pub(crate) async fn update(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let provider = request.provider_uuid()?;
    let inventory_json = request
        .json_of_provider(provider, &schemas::inventories::UPDATE)
        .await?;
    let command = Command::UpdateInventory {
        provider,
        generation: routed_request::generation(inventory_json.get("resource_provider_generation")),
        class: request.path_parameters[1].to_owned(),
        inventory: from_json(&inventory_json),
        may_reserve_all: request.version.since(26),
        at: request.received_at,
    };
    let outcome = request
        .submit(
            command,
            RefusedOperation::UpdateInventory(request.path_parameter()),
        )
        .await?;
    let reply = Reply::json(given_inventory_json(
        &inventory_json,
        generation_of(&outcome),
    ));
    Ok(reply.with_cache_headers(request.has_cache_headers(), Some(request.received_s())))
}

/// The inventories of a validated body, including those under keys that no pattern of the schema
/// matches.
///
/// # Errors
///
/// 400 when an inventory under such a key is not valid.
pub(crate) fn parse_inventories(inventories: &Json<'_>) -> ApiResult<Vec<(String, Inventory)>> {
    let parse_inventory = |(class, inventory_json): &(std::borrow::Cow<'_, str>, Json<'_>)| {
        if !Pattern::Name.matches(class) {
            routed_request::check_against_schema(
                inventory_json,
                &schemas::inventories::INVENTORY_UNDER_OTHER_KEY,
            )?;
        }
        Ok((class.clone().into_owned(), from_json(inventory_json)))
    };
    inventories.members().iter().map(parse_inventory).collect()
}

/// The refusal because a provider does not exist, or has another generation than the client gave; none if the
/// generation is the same.
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

pub(crate) async fn set(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let provider = request.provider_uuid()?;
    let body = request
        .json_of_provider(provider, &schemas::inventories::SET)
        .await?;
    let inventories_json = body.get("inventories").unwrap_or(&Json::Null);
    request.check_entries(inventories_json.members().len(), "inventories")?;
    let operation = RefusedOperation::SetInventories(request.path_parameter());
    let generation = routed_request::generation(body.get("resource_provider_generation"));
    let inventories = match parse_inventories(inventories_json) {
        Ok(inventories) => inventories,
        Err(error) => {
            // As in the reference, an inventory under a key that is not a class name is validated only after the
            // generation. If the generation is refused, that refusal is reported instead.
            let earlier_refusal = request
                .read(|state| first_refusal(state, provider, generation))
                .await;
            return Err(earlier_refusal.map_or(error, |refusal| to_error(&refusal, &operation)));
        }
    };
    let command = Command::SetInventories {
        provider,
        generation: Some(generation),
        inventories,
        may_reserve_all: request.version.since(26),
        at: request.received_at,
    };
    let outcome = request.submit(command, operation).await?;
    let mut writer = Writer::with_capacity(128 + inventories_json.members().len() * 160);
    writer.open_object();
    writer.plain_key("resource_provider_generation");
    writer.integer(generation_of(&outcome));
    writer.plain_key("inventories");
    writer.open_object();
    for (class, inventory_json) in inventories_json.members() {
        writer.key(class);
        writer.open_object();
        write_as_given(&mut writer, inventory_json);
        writer.close_object();
    }
    writer.close_object();
    writer.close_object();
    let last_modified = (!inventories_json.members().is_empty()).then(|| request.received_s());
    Ok(Reply::json(writer).with_cache_headers(request.has_cache_headers(), last_modified))
}

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let provider = request.provider_uuid()?;
    let class = request.path_parameters[1];
    let command = Command::DeleteInventory {
        provider,
        class: class.to_owned(),
        at: request.received_at,
    };
    request
        .submit(command, RefusedOperation::DeleteInventory(class))
        .await?;
    Ok(Reply::empty(204))
}

pub(crate) async fn delete_all(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let provider = request.provider_uuid()?;
    let command = Command::SetInventories {
        provider,
        // The client names no generation, so none is compared.
        generation: None,
        inventories: Vec::new(),
        // This only concerns new inventories, and there are none.
        may_reserve_all: true,
        at: request.received_at,
    };
    request
        .submit(command, RefusedOperation::DeleteInventories)
        .await?;
    Ok(Reply::empty(204))
}
