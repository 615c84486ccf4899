//! `/placewright/v1/status`, `/placewright/v1/hand-over` and `/placewright/v1/lost-entries/append`: the state of this
//! process as one of the replicas of control, and the orders that operators can give it.

use placewright_control::ReplicaReport;
use placewright_engine::AppendAgainError;
use placewright_errors::chain;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::json;

use crate::shared::PlacementService;

/// Shows whether this process leads, which entries it has, where its journal is, and which versions the compute services
/// of its cells have.
pub(super) fn status(service: &PlacementService) -> ApiResult<Reply> {
    let report = ReplicaReport::of(service.placement.engine());
    let mut value = json!(report);
    value["store"] = json!(service.store.get());
    let followers = service.followers.get().map(|followers| followers());
    value["followers"] = json!(followers.unwrap_or_default());
    let cells = service.cell_services.get().map(|report| report());
    value["cells"] = json!(cells.unwrap_or_default());
    Reply::value(200, &value)
}

/// Makes another replica lead, if this one leads.
pub(super) async fn hand_over(service: &PlacementService) -> ApiResult<Reply> {
    let engine = service.placement.engine();
    let (Some(leadership), Some(hand_over)) = (engine.leadership(), service.hand_over.get()) else {
        return Err(ApiError::new(409, "This process is not a replica."));
    };
    if !engine.leads() {
        let leader = leadership.borrow().address.clone();
        let detail = format!("This replica does not lead: ask the one at {leader}.");
        return Err(ApiError::new(409, detail));
    }
    hand_over().await;
    let leadership = leadership.borrow().clone();
    if leadership.is_own {
        let detail = "No other replica has taken over: this one leads on.";
        return Err(ApiError::new(409, detail));
    }
    let leader = json!({"address": leadership.address, "epoch": leadership.epoch});
    Reply::value(200, &json!({"leader": leader}))
}

/// Appends lost entries again, from the memory of this process.
pub(super) async fn append_lost(service: &PlacementService) -> ApiResult<Reply> {
    let appended = service.placement.engine().append_lost_again().await;
    let (first, last) = appended.map_err(|error| {
        let detail = chain(&error);
        match error {
            AppendAgainError::NothingLost
            | AppendAgainError::Replaced { .. }
            | AppendAgainError::NotInMemory { .. } => ApiError::new(409, detail),
            AppendAgainError::Store(_) | AppendAgainError::ShuttingDown => {
                ApiError::unavailable(detail)
            }
        }
    })?;
    Reply::value(200, &json!({"first": first, "last": last}))
}
