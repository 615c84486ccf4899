//! `POST /v1/destinations`: a host for each instance, with or without a claim, and alternates.

use placewright_http::Reply;

use crate::error_response::HandlerResult;
use crate::shared::{RoutedRequest, json_reply};
use crate::topology_rules;

mod request;
mod response;

use request::DestinationsBody;
pub(crate) use request::{ALTERNATES_MAX, EXPLAIN_HOSTS_MAX, INSTANCES_MAX};
use response::DestinationsResponse;

pub(crate) async fn select(request: &RoutedRequest<'_>) -> HandlerResult<Reply> {
    let mut body: DestinationsBody = request.parse_body()?;
    topology_rules::complete(request, &mut body.request).await?;
    let is_brief = body.brief;
    let destinations_request = request::validate(body)?;
    let is_claimed = destinations_request.with_claim;
    let destinations = request
        .api_state
        .destinations
        .select(destinations_request)
        .await?;
    let response = DestinationsResponse::new(&destinations, is_claimed, is_brief);
    json_reply(200, &response)
}
