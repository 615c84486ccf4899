//! `POST /v1/destinations`: a host for each instance, with or without a claim, and alternates.

use placewright_http::Reply;

use crate::error_response::HandlerResult;
use crate::shared::{RoutedRequest, json_reply};

mod request;
mod response;

use response::DestinationsResponse;

pub(crate) async fn select(request: &RoutedRequest<'_>) -> HandlerResult<Reply> {
    let destinations_request = request::validate(request.parse_body()?)?;
    let is_claimed = destinations_request.with_claim;
    let destinations = request
        .api_state
        .destinations
        .select(destinations_request)
        .await?;
    json_reply(200, &DestinationsResponse::new(&destinations, is_claimed))
}
