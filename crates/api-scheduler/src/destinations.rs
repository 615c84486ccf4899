//! `POST /v1/destinations`: a host for each instance, with or without a claim, and alternates.

use placewright_http::Reply;

use crate::error_response::Answer;
use crate::shared::{RoutedRequest, json};

mod request;
mod response;

use response::DestinationsBody;

pub(crate) async fn select(call: &RoutedRequest<'_>) -> Answer<Reply> {
    let request = request::check(call.read()?)?;
    let claimed = request.claim;
    let found = call.core.destinations.select(request).await?;
    json(200, &DestinationsBody::new(&found, claimed))
}
