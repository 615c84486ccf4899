//! `/resource_providers/{uuid}/aggregates`

use placewright_http::json::Writer;
use placewright_http::{ApiResult, Reply};
use placewright_placement::{Command, Outcome};

use crate::json::Json;
use crate::refusals::{self, RefusedOperation};
use crate::routed_request::{self, RoutedRequest};
use crate::schemas;

fn aggregates_reply<'a>(
    request: &RoutedRequest<'_>,
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
    if request.version.since(19) {
        writer.plain_key("resource_provider_generation");
        writer.integer(generation);
    }
    writer.close_object();
    // The state does not record when a provider became a member of an aggregate, so the response has the present time.
    Reply::json(writer).with_cache_headers(request.has_cache_headers(), Some(request.received_s()))
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let uuid = request.provider_uuid()?;
    let found = request
        .read(|state| {
            let provider = state.provider_by_uuid(uuid)?;
            let uuids = provider
                .aggregates
                .iter()
                .map(|id| state.aggregate_uuid(*id));
            Some(aggregates_reply(request, uuids, provider.generation))
        })
        .await;
    found.ok_or_else(|| refusals::provider_not_found(request.path_parameter()))
}

pub(crate) async fn set(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let provider = request.provider_uuid()?;
    let body = request
        .json_of_provider(provider, schemas::providers::aggregates(request.version))
        .await?;
    let has_generation = request.version.since(19);
    let listed = if has_generation {
        body.get("aggregates").unwrap_or(&Json::Null)
    } else {
        &body
    };
    request.check_entries(listed.items().len(), "aggregates")?;
    let aggregates: Vec<String> = listed
        .items()
        .iter()
        .filter_map(Json::text)
        .map(str::to_owned)
        .collect();
    let generation = body.get("resource_provider_generation");
    let command = Command::SetAggregates {
        provider,
        generation: has_generation.then(|| routed_request::generation(generation)),
        aggregates: aggregates.clone(),
        at: request.received_at,
    };
    let generation = match request
        .submit(command, RefusedOperation::SetAggregates)
        .await?
    {
        Outcome::Generation(generation) => generation,
        _ => 0,
    };
    Ok(aggregates_reply(
        request,
        aggregates.iter().map(String::as_str),
        generation,
    ))
}
