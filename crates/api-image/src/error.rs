//! Error responses in the form of the Image API, and the conversion of refusals to them.

use std::time::Duration;

use placewright_conductor::super_conductor::Refusal;
use placewright_http::{ApiError, keystone_error, reason_phrase};
use serde_json::{Value, json};
use uuid::Uuid;

/// The time after which a client may try again when too many images are being transferred, or when control could not
/// make a change.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A 404 for a path that does not exist.
pub(crate) fn path_not_found() -> ApiError {
    ApiError::not_found("There is nothing at this path.")
}

/// A 404 for an image that does not exist, or that the caller may not see.
pub(crate) fn image_not_found(id: Uuid) -> ApiError {
    ApiError::not_found(format!("There is no image {id}."))
}

/// The JSON body of an error response.
pub(crate) fn body(error: &ApiError) -> Value {
    let status = error.status();
    let title = match status {
        501 => "Not Implemented",
        507 => "Insufficient Storage",
        status => reason_phrase(status),
    };
    if status == 401 {
        return keystone_error(error);
    }
    let message = match error.detail() {
        "" => title,
        detail => detail,
    };
    json!({"code": format!("{status} {title}"), "title": title, "message": message})
}

/// The response to a refusal of the state machine.
pub(crate) fn from_refusal(refusal: &Refusal) -> ApiError {
    match refusal {
        Refusal::NotFound { .. } => ApiError::not_found(sentence(refusal)),
        Refusal::TooMany { .. } => {
            ApiError::too_large(format!("{} image.images_max says so.", sentence(refusal)))
        }
        Refusal::TooManyImageBytes { most } => over_project_bytes(*most),
        Refusal::WrongState {
            state: "protected",
            id,
            ..
        } => ApiError::forbidden(format!(
            "Image {id} is protected: it cannot be deleted before protected is false."
        )),
        _ => ApiError::conflict(sentence(refusal)),
    }
}

/// The response when the images of a project would become too large.
pub(crate) fn over_project_bytes(most: u64) -> ApiError {
    ApiError::too_large(format!(
        "The images of the project would have more than {most} bytes; image.project_bytes_max \
         allows no more."
    ))
}

fn sentence(refusal: &Refusal) -> String {
    let text = refusal.to_string();
    let mut chars = text.chars();
    let first: String = chars
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    format!("{first}{}.", chars.as_str())
}

/// 409, because each attempt to change an image met a change by another request.
pub(crate) fn changed_by_others() -> ApiError {
    ApiError::conflict("Others change the same image all the time: try again.")
}
