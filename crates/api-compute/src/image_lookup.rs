//! The image that a request names: from control's own images, or, where another service has them, from the operator's
//! file.

use placewright_conductor::ControlState;
use placewright_conductor::super_conductor;
use placewright_http::{ApiError, ApiResult};
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::image::{Image, ImageProperties};
use uuid::Uuid;

use crate::routed_request::RoutedRequest;

/// Finds the image with this id, which the request has in `field`. If control serves the images, checks also that the
/// caller may see the image and that it fits the flavor. `None` if the request names no image, or if another service
/// has the images and the operator's file does not have this one.
///
/// # Errors
///
/// 400 that names the field.
pub(crate) fn look_up(
    request: &RoutedRequest<'_>,
    control: &ControlState,
    (field, id): (&str, Option<&str>),
    flavor: &Flavor,
) -> ApiResult<Option<Image>> {
    let Some(id) = id else { return Ok(None) };
    if !request.api_state.options.serves_images {
        return Ok(request.api_state.images().find(id));
    }
    let uuid = Uuid::try_parse(id).ok();
    let known = uuid.and_then(|id| control.conductor.images().get(&id));
    let is_visible = |image: &&super_conductor::Image| {
        image.is_visible_to(request.project()) || request.sees_all_projects()
    };
    let image = known.filter(is_visible);
    let image = image.ok_or_else(|| ApiError::field(field, format!("there is no image {id}")))?;
    check_flavor(image, flavor).map_err(|why| ApiError::field(field, why))?;
    let properties = image.properties.iter();
    let properties = properties.map(|(name, value)| (name.clone(), value.clone()));
    let properties =
        ImageProperties::new(properties).map_err(|error| ApiError::field(field, error))?;
    Ok(Some(Image {
        id: Some(id.to_owned()),
        name: image.name.clone(),
        disk_format: image.disk_format.clone(),
        properties,
    }))
}

/// Checks that an image has bytes, and that it fits into the memory and the root disk of the flavor. A root disk of 0
/// GiB is large enough for every image.
fn check_flavor(image: &super_conductor::Image, flavor: &Flavor) -> Result<(), String> {
    let Some(content) = &image.content else {
        return Err("the image is queued: its bytes are not uploaded yet".to_owned());
    };
    if flavor.memory_mb < image.min_ram_mb {
        return Err(format!(
            "the image needs {} MiB of memory, and the flavor gives {}",
            image.min_ram_mb, flavor.memory_mb
        ));
    }
    if flavor.root_gb == 0 {
        return Ok(());
    }
    let gib_of_bytes = content.size.div_ceil(1 << 30);
    let needed = gib_of_bytes.max(u64::from(image.min_disk_gb));
    if u64::from(flavor.root_gb) < needed {
        return Err(format!(
            "the image needs a root disk of {needed} GiB, and the flavor gives {}",
            flavor.root_gb
        ));
    }
    Ok(())
}
