//! One image: showing and deleting it.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::Image;
use placewright_http::{ApiResult, Reply};

use crate::access::Viewer;
use crate::request::RoutedRequest;
use crate::{error, view};

/// The image in the path, if the caller sees it.
///
/// # Errors
///
/// 404 if the image does not exist, or the caller does not see it.
pub(crate) async fn visible(request: &RoutedRequest<'_>) -> ApiResult<Image> {
    let (id, viewer) = (request.image, Viewer::of(request));
    let find = move |state: &placewright_conductor::ControlState| {
        let image = state.conductor.images().get(&id);
        let image = image.ok_or_else(|| error::image_not_found(id))?;
        viewer.check_sees(id, image)?;
        Ok(image.clone())
    };
    request.read(find).await
}

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ImagesShow, request.project())?;
    let image = visible(request).await?;
    Reply::value(200, &view::image(request.image, &image))
}

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let viewer = Viewer::of(request);
    let remove = |image: &Image| {
        viewer.check_changes(request.image, image)?;
        request.authorize(Rule::ImagesDelete, &image.owner)?;
        Ok((None, ()))
    };
    request.change_image(remove).await?;
    let (folder, id) = (request.api_state.folder.clone(), request.image);
    let removed = tokio::task::spawn_blocking(move || folder.remove(id)).await;
    if !matches!(removed, Ok(Ok(()))) {
        // The image is gone. A later start removes the file.
        tracing::warn!(image = %id, "the file of a deleted image cannot be removed now");
    }
    Ok(Reply::empty(204))
}
