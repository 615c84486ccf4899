//! New images, which have no bytes yet.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::{Image, LimitCheck, Refusal, Visibility};
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::Value;
use uuid::Uuid;

use crate::request::RoutedRequest;
use crate::{attributes, error, properties, view};

pub(crate) async fn create(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ImagesCreate, request.project())?;
    let body = request.json()?;
    let fields = body
        .as_object()
        .ok_or_else(|| ApiError::bad_request("The body must be an object."))?;
    let now = request.now();
    let mut image = Image {
        name: None,
        owner: request.project().to_owned(),
        visibility: Visibility::default(),
        is_protected: false,
        is_hidden: false,
        container_format: None,
        disk_format: None,
        min_disk_gb: 0,
        min_ram_mb: 0,
        tags: [].into(),
        properties: [].into(),
        members: [].into(),
        content: None,
        created_at: now,
        updated_at: now,
    };
    let mut id = Uuid::new_v4();
    for (name, value) in fields {
        match name.as_str() {
            "id" => id = parse_id(value)?,
            name => attributes::set(&mut image, name, value)?,
        }
    }
    properties::check(&image.properties)?;
    check_owner(request, &image.owner)?;
    check_visibility(request, &image)?;
    let limits = &request.api_state.options.limits;
    let check = LimitCheck::Images {
        project: image.owner.clone(),
        max: limits.images_max,
    };
    let shown = view::image(id, &image);
    // The known row is `None`: no image may have this id yet.
    let created = request
        .api_state
        .set_image(id, None, Some(image), vec![check]);
    match created.await? {
        Ok(_) => {}
        Err(Refusal::Changed) => {
            return Err(ApiError::conflict(format!("Image {id} exists already.")));
        }
        Err(refusal) => return Err(error::from_refusal(&refusal)),
    }
    request.note_created(id);
    Ok(Reply::value(201, &shown)?.with_location(format!("/v2/images/{id}")))
}

/// Checks that the caller may give an image to a project.
pub(crate) fn check_owner(request: &RoutedRequest<'_>, owner: &str) -> ApiResult<()> {
    if owner.is_empty() {
        return Err(ApiError::field("owner", "it must be a project"));
    }
    if owner == request.project() || request.is_administrator() {
        return Ok(());
    }
    Err(ApiError::forbidden("owner: it must be your own project.").with_field("owner"))
}

/// Checks that the caller may let others see an image.
pub(crate) fn check_visibility(request: &RoutedRequest<'_>, image: &Image) -> ApiResult<()> {
    match image.visibility {
        Visibility::Public => request.authorize(Rule::ImagesPublicize, &image.owner),
        Visibility::Community => request.authorize(Rule::ImagesCommunitize, &image.owner),
        Visibility::Private | Visibility::Shared => Ok(()),
    }
}

fn parse_id(value: &Value) -> ApiResult<Uuid> {
    let id = value.as_str().and_then(|text| Uuid::try_parse(text).ok());
    id.ok_or_else(|| attributes::wrong_type("id", "a UUID", value))
}
