//! `/v2/images/{image_id}/tags/{tag}`: one tag.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::Image;
use placewright_http::{ApiError, ApiResult, Reply};

use crate::access::Viewer;
use crate::attributes;
use crate::request::RoutedRequest;

pub(crate) async fn add(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    attributes::check_tag(request.part)?;
    let add = |image: &mut Image| {
        image.tags.insert(request.part.to_owned());
        attributes::check_tag_count(&image.tags)
    };
    change(request, add).await
}

pub(crate) async fn remove(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let remove = |image: &mut Image| {
        if image.tags.remove(request.part) {
            return Ok(());
        }
        Err(ApiError::not_found("The image does not have the tag."))
    };
    change(request, remove).await
}

async fn change(
    request: &RoutedRequest<'_>,
    change_tags: impl Fn(&mut Image) -> ApiResult<()> + Send + Sync,
) -> ApiResult<Reply> {
    let viewer = Viewer::of(request);
    let change = |image: &Image| {
        viewer.check_changes(request.image, image)?;
        request.authorize(Rule::ImagesUpdate, &image.owner)?;
        let mut image = image.clone();
        change_tags(&mut image)?;
        image.updated_at = request.now();
        Ok((Some(image), ()))
    };
    request.change_image(change).await?;
    Ok(Reply::empty(204))
}
