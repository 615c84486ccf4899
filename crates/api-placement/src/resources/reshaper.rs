//! `/reshaper`

use placewright_http::{ApiResult, Reply};
use placewright_placement::{Command, InventoryReplacement, Refusal, State};

use super::allocations::{claims_of, entry_count_of_all};
use super::inventories::{self, parse_inventories};
use crate::json::Json;
use crate::refusals::{self, RefusedOperation, to_error};
use crate::routed_request::{self, RoutedRequest};
use crate::{schemas, uuids};

/// The number of changed entries in a validated body: inventories and amounts of allocations.
fn entry_count(body: &Json<'_>) -> usize {
    let provider_entries = |replacement: &Json<'_>| {
        let inventories = replacement.get("inventories");
        inventories
            .map_or(0, |inventories| inventories.members().len())
            .max(1)
    };
    let inventories = body.get("inventories").unwrap_or(&Json::Null).members();
    let inventories: usize = (inventories.iter())
        .map(|(_, replacement)| provider_entries(replacement))
        .sum();
    inventories + entry_count_of_all(body.get("allocations").unwrap_or(&Json::Null))
}

pub(crate) async fn reshape(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json(schemas::allocations::reshape(request.version))?;
    request.check_entries(entry_count(&body), "inventories and allocations")?;
    let mut inventories = Vec::new();
    for (key, replacement_json) in body.get("inventories").unwrap_or(&Json::Null).members() {
        match parse_replacement(key, replacement_json) {
            Ok(replacement) => inventories.push(replacement),
            Err(error) => {
                // As in the reference, an inventory under a key that is not a class name is validated only after the
                // provider's generation. If the generation is refused, that refusal is reported instead. So that the
                // generation is compared, the provider is added without inventories.
                inventories.extend(uuids::parse_canonical(key).map(|provider| {
                    InventoryReplacement {
                        provider,
                        generation: routed_request::generation(
                            replacement_json.get("resource_provider_generation"),
                        ),
                        inventories: Vec::new(),
                    }
                }));
                let earlier_refusal = request
                    .read(|state| first_refusal(state, &inventories))
                    .await;
                return Err(earlier_refusal.map_or(error, |refusal| {
                    to_error(&refusal, &RefusedOperation::Reshape)
                }));
            }
        }
    }
    let claims = claims_of(request, body.get("allocations").unwrap_or(&Json::Null))?;
    if claims.has_unknown_provider() {
        let earlier_refusal = request
            .read(|state| first_refusal(state, &inventories))
            .await;
        if let Some(refusal) = earlier_refusal {
            return Err(to_error(&refusal, &RefusedOperation::Reshape));
        }
    }
    claims
        .refuse_unknown_provider(request, RefusedOperation::Reshape)
        .await?;
    let command = Command::Reshape {
        inventories,
        consumers: claims.consumers,
        at: request.received_at,
    };
    request.submit(command, RefusedOperation::Reshape).await?;
    Ok(Reply::empty(204))
}

/// Parses the new inventories of one provider.
///
/// # Errors
///
/// 400 when the provider cannot exist, or when an inventory under a key that is not a class name is not valid.
fn parse_replacement(key: &str, replacement: &Json<'_>) -> ApiResult<InventoryReplacement> {
    let provider =
        uuids::parse_canonical(key).ok_or_else(|| refusals::reshape_provider_not_found(key))?;
    Ok(InventoryReplacement {
        provider,
        generation: routed_request::generation(replacement.get("resource_provider_generation")),
        inventories: parse_inventories(replacement.get("inventories").unwrap_or(&Json::Null))?,
    })
}

/// The first refusal because a provider of these replacements does not exist, or has another generation than the client
/// gave; none if there is no such provider.
fn first_refusal(state: &State, replacements: &[InventoryReplacement]) -> Option<Refusal> {
    replacements.iter().find_map(|replacement| {
        let uuid = replacement.provider;
        let refusal = inventories::first_refusal(state, uuid, replacement.generation)?;
        Some(match refusal {
            Refusal::ProviderNotFound { uuid } => Refusal::ReshapeProviderNotFound { uuid },
            refusal => refusal,
        })
    })
}
