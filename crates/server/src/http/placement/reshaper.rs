//! `/reshaper`

use placewright_placement::{Command, InventoryReplacement, Refusal, State};

use super::allocations::claims_of;
use super::inventories::records;
use crate::http::call::{self, Call};
use crate::http::error::ApiResult;
use crate::http::json::Json;
use crate::http::refusals::{self, Attempt};
use crate::http::reply::Reply;
use crate::http::{schemas, uuids};

pub(crate) async fn reshape(call: &Call<'_>) -> ApiResult<Reply> {
    let body = call.json(schemas::allocations::reshape(call.version))?;
    let mut inventories = Vec::new();
    for (key, replacement) in body.get("inventories").unwrap_or(&Json::Null).members() {
        let Some(provider) = uuids::canonical(key) else {
            let earlier = call.read(|state| first_refusal(state, &inventories)).await;
            return Err(match earlier {
                Some(refusal) => refusals::to_error(&refusal, &Attempt::Reshape),
                None => refusals::reshape_provider_not_found(key),
            });
        };
        inventories.push(InventoryReplacement {
            provider,
            generation: call::generation(replacement.get("resource_provider_generation")),
            inventories: records(replacement.get("inventories").unwrap_or(&Json::Null))?,
        });
    }
    let claims = claims_of(call, body.get("allocations").unwrap_or(&Json::Null))?;
    if claims.has_unknown() {
        let earlier = call.read(|state| first_refusal(state, &inventories)).await;
        if let Some(refusal) = earlier {
            return Err(refusals::to_error(&refusal, &Attempt::Reshape));
        }
    }
    claims.refuse_unknown(call, Attempt::Reshape).await?;
    let command = Command::Reshape {
        inventories,
        consumers: claims.consumers,
        at: call.at,
    };
    call.submit(command, Attempt::Reshape).await?;
    Ok(Reply::empty(204))
}

/// What the state refuses first about the providers of some replacements.
fn first_refusal(state: &State, replacements: &[InventoryReplacement]) -> Option<Refusal> {
    replacements.iter().find_map(|replacement| {
        let uuid = replacement.provider;
        let Some(provider) = state.provider_by_uuid(uuid) else {
            return Some(Refusal::ReshapeProviderNotFound { uuid });
        };
        let (actual, given) = (provider.generation, replacement.generation);
        (actual != given).then_some(Refusal::ProviderGenerationConflict {
            uuid,
            actual,
            given,
        })
    })
}
