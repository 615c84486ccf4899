//! `/resource_providers/{uuid}/aggregates`

use placewright_http::json::Writer;
use placewright_http::{ApiResult, Reply};
use placewright_placement::{Command, Outcome};

use crate::call::{self, RoutedRequest};
use crate::json::Json;
use crate::refusals::{self, RefusedOperation};
use crate::schemas;

fn reply<'a>(
    call: &RoutedRequest<'_>,
    aggregates: impl Iterator<Item = &'a str>,
    generation: u64,
) -> Reply {
    let mut writer = Writer::with_capacity(256);
    writer.open_object();
    writer.plain_key("aggregates");
    writer.open_array();
    for aggregate in aggregates {
        writer.text(aggregate);
    }
    writer.close_array();
    if call.version.since(19) {
        writer.plain_key("resource_provider_generation");
        writer.integer(generation);
    }
    writer.close_object();
    // The time at which a provider became a member is not recorded.
    Reply::json(writer).modified(call.has_cache_headers(), Some(call.now()))
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let uuid = call.provider_uuid()?;
    let found = call
        .read(|state| {
            let provider = state.provider_by_uuid(uuid)?;
            let names = provider
                .aggregates
                .iter()
                .map(|id| state.aggregate_uuid(*id));
            Some(reply(call, names, provider.generation))
        })
        .await;
    found.ok_or_else(|| refusals::provider_not_found(call.parameter()))
}

pub(crate) async fn set(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let provider = call.provider_uuid()?;
    let body = call
        .json_of_provider(provider, schemas::providers::aggregates(call.version))
        .await?;
    let has_generation = call.version.since(19);
    let listed = if has_generation {
        body.get("aggregates").unwrap_or(&Json::Null)
    } else {
        &body
    };
    call.check_entries(listed.items().len(), "aggregates")?;
    let aggregates: Vec<String> = listed
        .items()
        .iter()
        .filter_map(Json::text)
        .map(str::to_owned)
        .collect();
    let given = body.get("resource_provider_generation");
    let command = Command::SetAggregates {
        provider,
        generation: has_generation.then(|| call::generation(given)),
        aggregates: aggregates.clone(),
        at: call.at,
    };
    let generation = match call
        .submit(command, RefusedOperation::SetAggregates)
        .await?
    {
        Outcome::Generation(generation) => generation,
        _ => 0,
    };
    Ok(reply(
        call,
        aggregates.iter().map(String::as_str),
        generation,
    ))
}
