//! `/resource_classes`

use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_placement::rows::Named;
use placewright_placement::{Command, Outcome, Refusal};

use crate::json::{self, Json};
use crate::refusals::{RefusedOperation, to_error};
use crate::routed_request::{self, RoutedRequest};
use crate::schemas;

fn class_path(name: &str) -> String {
    format!("/resource_classes/{name}")
}

fn write_class(writer: &mut Writer, name: &str) {
    writer.open_object();
    writer.key("name");
    writer.text(name);
    writer.key("links");
    writer.open_array();
    writer.open_object();
    writer.key("rel");
    writer.text("self");
    writer.key("href");
    writer.text(&class_path(name));
    writer.close_object();
    writer.close_array();
    writer.close_object();
}

/// The time of the last change of a class. A standard class has no such time, so the present time is shown.
fn modified_at(class: &Named, now: i64) -> i64 {
    if placewright_placement::names::is_custom(&class.name) {
        class.modified_at.seconds()
    } else {
        now
    }
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let now = request.received_s();
    let (writer, last_modified) = request
        .read(|state| {
            let mut writer = Writer::with_capacity(4096);
            let mut last_modified = i64::MIN;
            writer.open_object();
            writer.key("resource_classes");
            writer.open_array();
            for (_, class) in state.all_classes() {
                write_class(&mut writer, &class.name);
                last_modified = last_modified.max(modified_at(class, now));
            }
            writer.close_array();
            writer.close_object();
            (writer, last_modified)
        })
        .await;
    let last_modified = if last_modified == i64::MIN {
        now
    } else {
        last_modified
    };
    Ok(Reply::json(writer).with_cache_headers(request.has_cache_headers(), Some(last_modified)))
}

pub(crate) async fn get(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let (name, now) = (request.path_parameter(), request.received_s());
    let last_modified = request
        .read(|state| state.class(name).map(|class| modified_at(class, now)))
        .await;
    let Some(last_modified) = last_modified else {
        return Err(not_found(name));
    };
    let mut writer = Writer::with_capacity(128);
    write_class(&mut writer, name);
    Ok(Reply::json(writer).with_cache_headers(request.has_cache_headers(), Some(last_modified)))
}

fn not_found(name: &str) -> ApiError {
    ApiError::not_found(format!("No such resource class {name}.")).without_vary()
}

/// The name in a body. The pattern allows a final newline, which the `Location` header cannot have.
fn name_without_newline(value: &Json<'_>) -> ApiResult<String> {
    match value.get("name").and_then(Json::text) {
        Some(name) if !name.ends_with('\n') => Ok(name.to_owned()),
        _ => Err(ApiError::bad_request(
            "The name of a resource class cannot end with a line end.",
        )),
    }
}

pub(crate) async fn create(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let name = name_without_newline(&request.json(&schemas::names::RESOURCE_CLASS)?)?;
    let location = class_path(&name);
    let command = Command::CreateClass {
        name,
        exist_ok: false,
        at: request.received_at,
    };
    request.submit(command, RefusedOperation::Class).await?;
    Ok(Reply::empty(201).with_location(location))
}

/// `PUT` before microversion 1.7 renames a class to the name in the body.
pub(crate) async fn rename(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let new_name = name_without_newline(&request.json(&schemas::names::RESOURCE_CLASS)?)?;
    let name = request.path_parameter();
    let mut writer = Writer::with_capacity(128);
    write_class(&mut writer, &new_name);
    let command = Command::RenameClass {
        name: name.to_owned(),
        new_name: new_name.clone(),
        at: request.received_at,
    };
    match request.try_submit(command).await? {
        Ok(_) => Ok(Reply::json(writer)),
        Err(Refusal::ClassExists { .. }) => Err(ApiError::conflict(format!(
            "Resource class already exists: {new_name}"
        ))),
        Err(Refusal::ClassStandard { .. }) => Err(ApiError::bad_request(format!(
            "Cannot update standard resource class {name}"
        ))),
        Err(refusal) => Err(to_error(&refusal, &RefusedOperation::Class)),
    }
}

/// `PUT` from microversion 1.7 on creates a class if it is missing; the body is ignored.
pub(crate) async fn ensure(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    // As in the reference, the name is inserted into the text of a JSON object without escaping, so that
    // escapes in it are decoded, and quotes can end it.
    let mut body = Vec::from(b"{\"name\": \"");
    body.extend_from_slice(request.path_parameter().as_bytes());
    body.extend_from_slice(b"\"}");
    let value = json::parse(&body)
        .map_err(|reason| ApiError::bad_request(format!("Malformed JSON: {reason}")))?;
    routed_request::check_against_schema(&value, &schemas::names::RESOURCE_CLASS)?;
    let name = name_without_newline(&value)?;
    let location = class_path(&name);
    let command = Command::CreateClass {
        name,
        exist_ok: true,
        at: request.received_at,
    };
    let created = match request.submit(command, RefusedOperation::Class).await? {
        Outcome::Named { created, .. } => created,
        _ => false,
    };
    Ok(Reply::empty(if created { 201 } else { 204 }).with_location(location))
}

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let command = Command::DeleteClass {
        name: request.path_parameter().to_owned(),
    };
    request.submit(command, RefusedOperation::Class).await?;
    Ok(Reply::empty(204))
}
