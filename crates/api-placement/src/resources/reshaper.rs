//! `/reshaper`

use placewright_http::{ApiResult, Reply};
use placewright_placement::{Command, InventoryReplacement, Refusal, State};

use super::allocations::{claims_of, entries_of_all};
use super::inventories::{self, records};
use crate::call::{self, RoutedRequest};
use crate::json::Json;
use crate::refusals::{self, RefusedOperation, to_error};
use crate::{schemas, uuids};

/// The number of changed entries in a validated body: inventories and amounts of allocations.
fn entries_of(body: &Json<'_>) -> usize {
    let of_provider = |replacement: &Json<'_>| {
        let given = replacement.get("inventories");
        given.map_or(0, |given| given.members().len()).max(1)
    };
    let inventories = body.get("inventories").unwrap_or(&Json::Null).members();
    let inventories: usize = (inventories.iter())
        .map(|(_, replacement)| of_provider(replacement))
        .sum();
    inventories + entries_of_all(body.get("allocations").unwrap_or(&Json::Null))
}

pub(crate) async fn reshape(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = call.json(schemas::allocations::reshape(call.version))?;
    call.check_entries(entries_of(&body), "inventories and allocations")?;
    let mut inventories = Vec::new();
    for (key, replacement) in body.get("inventories").unwrap_or(&Json::Null).members() {
        match read_replacement(key, replacement) {
            Ok(replacement) => inventories.push(replacement),
            Err(error) => {
                // A record that the schema did not cover is validated after its provider's
                // generation.
                inventories.extend(uuids::canonical(key).map(|provider| InventoryReplacement {
                    provider,
                    generation: call::generation(replacement.get("resource_provider_generation")),
                    inventories: Vec::new(),
                }));
                let earlier = call.read(|state| first_refusal(state, &inventories)).await;
                return Err(earlier.map_or(error, |refusal| {
                    to_error(&refusal, &RefusedOperation::Reshape)
                }));
            }
        }
    }
    let claims = claims_of(call, body.get("allocations").unwrap_or(&Json::Null))?;
    if claims.has_unknown() {
        let earlier = call.read(|state| first_refusal(state, &inventories)).await;
        if let Some(refusal) = earlier {
            return Err(to_error(&refusal, &RefusedOperation::Reshape));
        }
    }
    claims
        .refuse_unknown(call, RefusedOperation::Reshape)
        .await?;
    let command = Command::Reshape {
        inventories,
        consumers: claims.consumers,
        at: call.at,
    };
    call.submit(command, RefusedOperation::Reshape).await?;
    Ok(Reply::empty(204))
}

/// Parses the new inventories of one provider.
///
/// # Errors
///
/// The provider cannot exist, or a record that the schema did not cover is not valid.
fn read_replacement(key: &str, replacement: &Json<'_>) -> ApiResult<InventoryReplacement> {
    let provider =
        uuids::canonical(key).ok_or_else(|| refusals::reshape_provider_not_found(key))?;
    Ok(InventoryReplacement {
        provider,
        generation: call::generation(replacement.get("resource_provider_generation")),
        inventories: records(replacement.get("inventories").unwrap_or(&Json::Null))?,
    })
}

/// The first refusal of the state about the providers of some replacements.
fn first_refusal(state: &State, replacements: &[InventoryReplacement]) -> Option<Refusal> {
    replacements.iter().find_map(|replacement| {
        let uuid = replacement.provider;
        let refusal = inventories::first_refusal(state, uuid, replacement.generation)?;
        Some(match refusal {
            Refusal::ProviderNotFound { uuid } => Refusal::ReshapeProviderNotFound { uuid },
            other => other,
        })
    })
}
