//! Who sees an image, and who may change it. Policies restrict both further.

use placewright_conductor::super_conductor::Image;
use placewright_http::{ApiError, ApiResult};
use uuid::Uuid;

use crate::error;
use crate::request::RoutedRequest;

/// The caller of a request for images.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Viewer<'a> {
    /// The id of the caller's project; empty if it has none.
    pub(crate) project: &'a str,
    /// Whether the caller may see and change images of all projects.
    pub(crate) is_administrator: bool,
}

impl<'a> Viewer<'a> {
    pub(crate) fn of(request: &'a RoutedRequest<'_>) -> Self {
        Self {
            project: request.project(),
            is_administrator: request.is_administrator(),
        }
    }

    /// Whether the viewer may know of an image.
    pub(crate) fn sees(self, image: &Image) -> bool {
        self.is_administrator || image.is_visible_to(self.project)
    }

    /// Checks that the viewer may know of an image.
    ///
    /// # Errors
    ///
    /// 404, as for an image that does not exist.
    pub(crate) fn check_sees(self, id: Uuid, image: &Image) -> ApiResult<()> {
        if self.sees(image) {
            return Ok(());
        }
        Err(error::image_not_found(id))
    }

    /// Checks that the viewer may change an image.
    ///
    /// # Errors
    ///
    /// 404 if the viewer may not know of the image, otherwise 403.
    pub(crate) fn check_changes(self, id: Uuid, image: &Image) -> ApiResult<()> {
        self.check_sees(id, image)?;
        if self.is_administrator || image.is_owned_by(self.project) {
            return Ok(());
        }
        Err(ApiError::forbidden(format!(
            "Image {id} belongs to another project, which alone may change it."
        )))
    }
}
