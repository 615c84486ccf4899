//! Secrets of servers. They are sealed before they become part of a command, and opened to show
//! them to callers who may see them.

use placewright_http::{ApiError, ApiResult};
use placewright_secrets::{RequestSecrets, SealError, Secret, SecretFields};
use uuid::Uuid;

use super::common_fields::parse_user_data;
use super::server_view::ServerView;
use crate::error;
use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;

/// Parses the secrets of a create request.
pub(super) fn parse(parser: &mut ObjectParser<'_>) -> ApiResult<SecretFields> {
    let password = parser.text("adminPass", 0..=255)?;
    Ok(SecretFields {
        user_data: parse_user_data(parser)?,
        admin_pass: password.map(|password| Secret::new(password.to_owned())),
    })
}

/// Seals the secrets of a request.
pub(crate) fn seal(
    request: &RoutedRequest<'_>,
    secrets: SecretFields,
) -> ApiResult<RequestSecrets> {
    request
        .api_state
        .control
        .sealer()
        .seal(secrets)
        .map_err(not_sealed)
}

/// The error of a request whose secrets cannot be sealed. Secrets are never stored in the clear.
pub(crate) fn not_sealed(why: SealError) -> ApiError {
    tracing::error!(%why, "secrets of a request cannot be sealed");
    error::unavailable("The secrets of the request cannot be sealed: try again later.")
}

/// A new `secrets_mark` for the body of a specification. The digest of a specification does not cover its sealed
/// secrets, so without a new mark a rebuild that changes only secrets would have the digest of the build before it.
pub(crate) fn new_mark() -> String {
    Uuid::new_v4().simple().to_string()
}

/// The user data of a server; `None` if the server has none, or if its secrets cannot be opened.
pub(crate) fn user_data(
    request: &RoutedRequest<'_>,
    server: &ServerView<'_>,
) -> Option<Secret<String>> {
    let spec = server.spec();
    if !spec.has_secrets() {
        return None;
    }
    match request
        .api_state
        .control
        .sealer()
        .open_fields(server.id, spec)
    {
        Ok(secrets) => secrets.user_data,
        Err(why) => {
            tracing::warn!(instance = %server.id, %why, "secrets of a server cannot be opened");
            None
        }
    }
}
