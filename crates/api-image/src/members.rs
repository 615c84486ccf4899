//! `/v2/images/{image_id}/members`: the projects with which an image is shared.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::{Image, Member, MemberStatus, Visibility};
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use crate::access::Viewer;
use crate::options::{MEMBERS_MAX, NAME_CHARS_MAX};
use crate::request::RoutedRequest;
use crate::{attributes, images, view};

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ImagesShow, request.project())?;
    let image = images::visible(request).await?;
    check_shared(&image)?;
    let viewer = Viewer::of(request);
    let is_shown = |project: &str| {
        viewer.check_changes(request.image, &image).is_ok() || project == viewer.project
    };
    let members = image
        .members
        .iter()
        .filter(|(project, _)| is_shown(project));
    let members = members.map(|(project, member)| view::member(request.image, project, member));
    let members: Vec<Value> = members.collect();
    Reply::value(
        200,
        &json!({"members": members, "schema": "/v2/schemas/members"}),
    )
}

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ImagesShow, request.project())?;
    let image = images::visible(request).await?;
    let viewer = Viewer::of(request);
    if viewer.check_changes(request.image, &image).is_err() && request.part != viewer.project {
        return Err(not_a_member(request));
    }
    let member = image.members.get(request.part);
    let member = member.ok_or_else(|| not_a_member(request))?;
    Reply::value(200, &view::member(request.image, request.part, member))
}

pub(crate) async fn add(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json()?;
    let project = body.get("member").unwrap_or(&Value::Null);
    let project = project
        .as_str()
        .filter(|project| (1..=NAME_CHARS_MAX).contains(&project.chars().count()))
        .ok_or_else(|| attributes::wrong_type("member", "the id of a project", project))?;
    let (viewer, now) = (Viewer::of(request), request.now());
    let add = |image: &Image| {
        viewer.check_changes(request.image, image)?;
        request.authorize(Rule::ImagesShare, &image.owner)?;
        check_shared(image)?;
        if image.members.contains_key(project) {
            let detail = format!("The image is shared with {project} already.");
            return Err(ApiError::conflict(detail));
        }
        if image.members.len() >= MEMBERS_MAX {
            let detail = format!("The image has {MEMBERS_MAX} members, and may have no more.");
            return Err(ApiError::too_large(detail));
        }
        let member = Member {
            status: MemberStatus::Pending,
            created_at: now,
            updated_at: now,
        };
        let mut image = image.clone();
        image.members.insert(project.to_owned(), member.clone());
        Ok((Some(image), member))
    };
    let member = request.change_image(add).await?;
    Reply::value(200, &view::member(request.image, project, &member))
}

pub(crate) async fn update(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json()?;
    let status = match body.get("status").and_then(Value::as_str) {
        Some("pending") => MemberStatus::Pending,
        Some("accepted") => MemberStatus::Accepted,
        Some("rejected") => MemberStatus::Rejected,
        _ => {
            let value = body.get("status").unwrap_or(&Value::Null);
            let expected = "pending, accepted or rejected";
            return Err(attributes::wrong_type("status", expected, value));
        }
    };
    let (viewer, now) = (Viewer::of(request), request.now());
    let update = |image: &Image| {
        viewer.check_sees(request.image, image)?;
        let is_own = request.part == viewer.project;
        if !is_own && !viewer.is_administrator {
            let is_owner = viewer.check_changes(request.image, image).is_ok();
            // Only the project itself, or an administrator, says whether the project accepts the image.
            return Err(match is_owner {
                true => ApiError::forbidden("Only the member itself may set its status."),
                false => not_a_member(request),
            });
        }
        request.authorize(Rule::ImagesShow, viewer.project)?;
        let mut image = image.clone();
        let member = image.members.get_mut(request.part);
        let member = member.ok_or_else(|| not_a_member(request))?;
        member.status = status;
        member.updated_at = now;
        let member = member.clone();
        Ok((Some(image), member))
    };
    let member = request.change_image(update).await?;
    Reply::value(200, &view::member(request.image, request.part, &member))
}

pub(crate) async fn remove(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let viewer = Viewer::of(request);
    let remove = |image: &Image| {
        viewer.check_changes(request.image, image)?;
        request.authorize(Rule::ImagesShare, &image.owner)?;
        let mut image = image.clone();
        let removed = image.members.remove(request.part);
        removed.ok_or_else(|| not_a_member(request))?;
        Ok((Some(image), ()))
    };
    request.change_image(remove).await?;
    Ok(Reply::empty(204))
}

fn check_shared(image: &Image) -> ApiResult<()> {
    if image.visibility == Visibility::Shared {
        return Ok(());
    }
    let visibility = view::visibility(image.visibility);
    Err(ApiError::forbidden(format!(
        "The image is {visibility}: only one whose visibility is shared has members."
    )))
}

fn not_a_member(request: &RoutedRequest<'_>) -> ApiError {
    ApiError::not_found(format!(
        "Image {} is not shared with {:?}.",
        request.image, request.part
    ))
}
