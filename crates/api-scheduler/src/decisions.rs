//! `/v1/decisions/{instance}`: why an instance is where it is, as it was decided.

use placewright_conductor::InstanceId;
use placewright_control::shown_decisions;
use placewright_http::Reply;
use uuid::Uuid;

use crate::error_response::{ErrorResponse, HandlerResult, code};
use crate::shared::{RoutedRequest, json_reply};

pub(crate) async fn show(request: &RoutedRequest<'_>, instance: Uuid) -> HandlerResult<Reply> {
    let engine = request.api_state.scheduler.engine();
    let found = engine.read(move |machine| shown_decisions(&machine.state, InstanceId(instance)));
    match found.await {
        None => Err(ErrorResponse::not_found(format!(
            "There is no server {instance}, or it was not built by this installation."
        ))),
        Some(Ok(body)) => json_reply(200, &body),
        Some(Err(why)) => Err(ErrorResponse::new(500, code::INTERNAL, why)),
    }
}
