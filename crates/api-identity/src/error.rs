//! Error responses in the form of the Identity API, and the conversion of other errors to them.

use placewright_auth::AuthError;
use placewright_conductor::super_conductor::Refusal;
use placewright_http::{ApiError, keystone_error};
use serde_json::Value;

/// A 404 for a path that does not exist.
pub(crate) fn path_not_found() -> ApiError {
    ApiError::not_found("There is nothing at this path.")
}

/// A 404 for an object that does not exist.
pub(crate) fn missing(what: &str, id: &str) -> ApiError {
    ApiError::not_found(format!("There is no {what} {id}."))
}

/// A 401 without the reason.
pub(crate) fn unauthorized() -> ApiError {
    ApiError::new(401, "The credentials or the token are not valid.")
}

/// A 403 for a caller who may not do this.
pub(crate) fn forbidden() -> ApiError {
    ApiError::forbidden("Your roles do not allow this.")
}

/// The response to a refusal of the state machine.
pub(crate) fn from_refusal(refusal: &Refusal) -> ApiError {
    match refusal {
        Refusal::NotFound { what, id } => missing(what, id),
        Refusal::TooMany { what, most } => {
            ApiError::forbidden(format!("There may be no more than {most} {what}."))
        }
        Refusal::Exists { what, id } => {
            ApiError::conflict(format!("There is a {what} {id} already."))
        }
        Refusal::InUse { what, id } => {
            ApiError::forbidden(format!("The {what} {id} cannot be removed or renamed."))
        }
        other => ApiError::conflict(format!("The change was not made: {other}.")),
    }
}

/// The response when a password cannot be checked.
pub(crate) fn from_auth(error: AuthError) -> ApiError {
    match error {
        AuthError::Unauthorized { .. } => unauthorized(),
        AuthError::TooLarge { reason } => ApiError::bad_request(reason),
        AuthError::TooMany {
            reason,
            retry_after,
        } => ApiError::new(429, reason).with_retry_after(retry_after),
        AuthError::Unavailable {
            reason,
            retry_after,
        } => ApiError::unavailable(reason).with_retry_after(retry_after),
    }
}

/// The JSON body of an error response.
pub(crate) fn body(error: &ApiError) -> Value {
    match (error.detail(), error.status()) {
        ("", 401) => keystone_error(&ApiError::new(401, "The request needs a valid token.")),
        _ => keystone_error(error),
    }
}
