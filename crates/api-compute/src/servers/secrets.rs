//! Secrets of servers: sealed before they become part of a command, and opened to be shown to those
//! who may see them.

use placewright_http::{ApiError, ApiResult};
use placewright_secrets::{Fields, RequestSeal, SealError, Secret};
use uuid::Uuid;

use super::common_fields::read_user_data;
use super::server_view::ServerView;
use crate::error;
use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;

/// Reads the secrets of a create.
pub(super) fn read(parsed: &mut ObjectParser<'_>) -> ApiResult<Fields> {
    let password = parsed.text("adminPass", 0..=255)?;
    Ok(Fields {
        user_data: read_user_data(parsed)?,
        admin_pass: password.map(|password| Secret::new(password.to_owned())),
    })
}

/// Seals the secrets of a request.
pub(crate) fn seal(call: &RoutedRequest<'_>, fields: Fields) -> ApiResult<RequestSeal> {
    call.core
        .conductor
        .sealer()
        .seal(fields)
        .map_err(not_sealed)
}

/// The error of a request whose secrets cannot be sealed: they are never kept in the clear.
pub(crate) fn not_sealed(why: SealError) -> ApiError {
    tracing::error!(%why, "secrets of a request cannot be sealed");
    error::unavailable("The secrets of the request cannot be sealed: try again later.")
}

/// A mark for a body that is given other secrets.
pub(crate) fn new_mark() -> String {
    Uuid::new_v4().simple().to_string()
}

/// The user data of a server, as it is shown; none if it has none, or none that can be opened.
pub(crate) fn user_data(call: &RoutedRequest<'_>, seen: &ServerView<'_>) -> Option<Secret<String>> {
    let spec = seen.spec();
    if !spec.has_secrets() {
        return None;
    }
    match call.core.conductor.sealer().open_fields(seen.id, spec) {
        Ok(fields) => fields.user_data,
        Err(why) => {
            tracing::warn!(instance = %seen.id, %why, "secrets of a server cannot be opened");
            None
        }
    }
}
