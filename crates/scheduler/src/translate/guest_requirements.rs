//! Requirements that both flavor and image can express, and the resolution of conflicts.

use crate::error::BadRequest;
use crate::flavor::{Flavor, extra_spec_field};
use crate::image::{self, ImageProperties};
use crate::request::RequestSpec;
use placewright_types::text::means_true;

/// The requirements of a request: the flavor and the properties of its image.
#[derive(Clone, Copy, Debug)]
pub struct GuestRequirements<'a> {
    /// The flavor with its extra specs.
    pub flavor: &'a Flavor,
    /// The properties of the image; `None` without an image.
    pub image: Option<&'a ImageProperties>,
}

/// A value and the field that it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourcedValue<'a> {
    pub(crate) value: &'a str,
    pub(crate) field: String,
}

impl<'a> GuestRequirements<'a> {
    /// The flavor and image of a request.
    #[must_use]
    pub fn new(spec: &'a RequestSpec) -> Self {
        Self {
            flavor: &spec.flavor,
            image: spec.image.as_ref().map(|image| &image.properties),
        }
    }

    /// The value of the flavor's extra spec `<scope>:<key>`; `None` if the flavor lacks it.
    pub(crate) fn flavor_value(&self, scope: &str, key: &str) -> Option<&'a str> {
        let specs = &self.flavor.extra_specs;
        look_up_joined(specs.is_empty(), [scope, ":", key], |name| {
            self.flavor.extra_spec(name)
        })
    }

    /// The value of the image's property `<scope>_<key>`; `None` if there is no image, or the image lacks it.
    pub(crate) fn image_value(&self, scope: &str, key: &str) -> Option<&'a str> {
        let image = self.image?;
        look_up_joined(!image.has_values(), [scope, "_", key], |name| {
            image.get(name)
        })
    }

    /// The value that flavor or image have; `None` if neither has one. Fails if both have different values. An empty
    /// text counts as absent.
    pub(crate) fn merged(
        &self,
        scope: &str,
        key: &str,
    ) -> Result<Option<SourcedValue<'a>>, BadRequest> {
        let flavor_value = self
            .flavor_value(scope, key)
            .filter(|text| !text.is_empty());
        let image_value = self.image_value(scope, key).filter(|text| !text.is_empty());
        if let (Some(flavor), Some(image)) = (flavor_value, image_value)
            && flavor != image
        {
            return Err(contradiction(scope, key, flavor, image));
        }
        Ok(match (flavor_value, image_value) {
            (Some(value), _) => Some(SourcedValue {
                value,
                field: flavor_field(scope, key),
            }),
            (None, Some(value)) => Some(SourcedValue {
                value,
                field: image_field(scope, key),
            }),
            (None, None) => None,
        })
    }

    /// As [`Self::merged`]; fails if the value is not one of the allowed words.
    pub(crate) fn merged_keyword(
        &self,
        scope: &str,
        key: &str,
        allowed: &'static [&'static str],
    ) -> Result<Option<&'a str>, BadRequest> {
        let Some(sourced) = self.merged(scope, key)? else {
            return Ok(None);
        };
        check_keyword(&sourced, allowed)?;
        Ok(Some(sourced.value))
    }

    /// Whether flavor or image set a flag. Fails if they set it to opposite values.
    pub(crate) fn merged_flag(&self, key: &str) -> Result<bool, BadRequest> {
        let flavor_value = self.flavor_value("hw", key);
        let image_value = self.image_value("hw", key);
        if let (Some(flavor), Some(image)) = (flavor_value, image_value)
            && means_true(flavor) != means_true(image)
        {
            return Err(contradiction("hw", key, flavor, image));
        }
        Ok([flavor_value, image_value]
            .into_iter()
            .flatten()
            .any(means_true))
    }
}

/// Looks up the name that the parts form when they are joined. An empty map has no name, so the name is not even
/// formed: dozens of names are looked up for each request, and most requests have an empty map.
fn look_up_joined<'a>(
    is_map_empty: bool,
    parts: [&str; 3],
    look_up: impl FnOnce(&str) -> Option<&'a str>,
) -> Option<&'a str> {
    if is_map_empty {
        return None;
    }
    look_up(&parts.concat())
}

/// Refuses a value that is not one of the allowed words.
pub(crate) fn check_keyword(
    sourced: &SourcedValue<'_>,
    allowed: &'static [&'static str],
) -> Result<(), BadRequest> {
    if allowed.contains(&sourced.value) {
        return Ok(());
    }
    Err(BadRequest::NotAllowed {
        field: sourced.field.clone(),
        value: sourced.value.to_owned(),
        allowed,
    })
}

/// The name of an extra spec in error messages.
pub(crate) fn flavor_field(scope: &str, key: &str) -> String {
    extra_spec_field(&format!("{scope}:{key}"))
}

/// The name of an image property in error messages.
pub(crate) fn image_field(scope: &str, key: &str) -> String {
    image::field(&format!("{scope}_{key}"))
}

fn contradiction(scope: &str, key: &str, flavor_value: &str, image_value: &str) -> BadRequest {
    BadRequest::conflict(
        image_field(scope, key),
        flavor_field(scope, key),
        format!("the image says {image_value:?}, the flavor {flavor_value:?}"),
    )
}
