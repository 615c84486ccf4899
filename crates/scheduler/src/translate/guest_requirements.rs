//! Requirements that both flavor and image can express, and how conflicts are resolved.

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
    pub fn of(spec: &'a RequestSpec) -> Self {
        Self {
            flavor: &spec.flavor,
            image: spec.image.as_ref().map(|image| &image.properties),
        }
    }

    /// The flavor's extra spec `hw:<key>`, or one with another scope.
    pub(crate) fn of_flavor(&self, scope: &str, key: &str) -> Option<&'a str> {
        let specs = &self.flavor.extra_specs;
        joined(specs.is_empty(), [scope, ":", key], |name| {
            self.flavor.extra_spec(name)
        })
    }

    /// The image's property `hw_<key>`, or one with another scope.
    pub(crate) fn of_image(&self, scope: &str, key: &str) -> Option<&'a str> {
        let image = self.image?;
        joined(!image.has_values(), [scope, "_", key], |name| {
            image.get(name)
        })
    }

    /// The value of flavor or image, which must not contradict each other; an empty text counts as
    /// absent.
    pub(crate) fn merged(
        &self,
        scope: &str,
        key: &str,
    ) -> Result<Option<SourcedValue<'a>>, BadRequest> {
        let of_flavor = self.of_flavor(scope, key).filter(|text| !text.is_empty());
        let of_image = self.of_image(scope, key).filter(|text| !text.is_empty());
        if let (Some(flavor), Some(image)) = (of_flavor, of_image)
            && flavor != image
        {
            return Err(contradiction(scope, key, flavor, image));
        }
        Ok(match (of_flavor, of_image) {
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

    /// As [`Self::merged`], checked against a set of words.
    pub(crate) fn merged_keyword(
        &self,
        scope: &str,
        key: &str,
        allowed: &'static [&'static str],
    ) -> Result<Option<&'a str>, BadRequest> {
        let Some(given) = self.merged(scope, key)? else {
            return Ok(None);
        };
        check_keyword(&given, allowed)?;
        Ok(Some(given.value))
    }

    /// Whether flavor or image set a flag, if they do not set it to opposite values.
    pub(crate) fn merged_flag(&self, key: &str) -> Result<bool, BadRequest> {
        let of_flavor = self.of_flavor("hw", key);
        let of_image = self.of_image("hw", key);
        if let (Some(flavor), Some(image)) = (of_flavor, of_image)
            && means_true(flavor) != means_true(image)
        {
            return Err(contradiction("hw", key, flavor, image));
        }
        Ok([of_flavor, of_image].into_iter().flatten().any(means_true))
    }
}

/// Looks up a name composed of parts. The empty map is checked first, because plain requests are
/// asked for dozens of names and have none.
fn joined<'a>(
    is_empty: bool,
    parts: [&str; 3],
    look_up: impl FnOnce(&str) -> Option<&'a str>,
) -> Option<&'a str> {
    if is_empty {
        return None;
    }
    look_up(&parts.concat())
}

/// Refuses a word that is not one of those allowed.
pub(crate) fn check_keyword(
    given: &SourcedValue<'_>,
    allowed: &'static [&'static str],
) -> Result<(), BadRequest> {
    if allowed.contains(&given.value) {
        return Ok(());
    }
    Err(BadRequest::NotAllowed {
        field: given.field.clone(),
        value: given.value.to_owned(),
        allowed,
    })
}

/// The name of an extra spec in messages.
pub(crate) fn flavor_field(scope: &str, key: &str) -> String {
    extra_spec_field(&format!("{scope}:{key}"))
}

/// The name of an image property in messages.
pub(crate) fn image_field(scope: &str, key: &str) -> String {
    image::field(&format!("{scope}_{key}"))
}

fn contradiction(scope: &str, key: &str, of_flavor: &str, of_image: &str) -> BadRequest {
    BadRequest::conflict(
        image_field(scope, key),
        flavor_field(scope, key),
        format!("the image says {of_image:?}, the flavor {of_flavor:?}"),
    )
}
