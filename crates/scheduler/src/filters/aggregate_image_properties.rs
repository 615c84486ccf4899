//! `AggregateImagePropertiesIsolation`: the hosts of an aggregate that lists values of an image
//! property accept no image with another value. An image without the property may use any host.

use super::filter::Filter;
use crate::hosts::verdict::Verdict;
use crate::image::ImageProperties;
use crate::image::known::{Kind, kind};
use crate::values::strip;

/// The filter as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "AggregateImagePropertiesIsolation",
    is_once_per_request: true,
    runs_on_rebuild: true,
    compile: |context| {
        let prefix = &context
            .config
            .aggregate_image_properties_isolation_namespace;
        let aggregates = context.hosts.aggregates();
        // With a prefix, Nova compares only properties whose names start with the prefix. No image property that Nova
        // knows has such a name, so every host passes.
        let is_prefixed = prefix.as_ref().is_some_and(|prefix| !prefix.is_empty());
        let Some(image) = context.request.image.as_ref().filter(|_| !is_prefixed) else {
            return Ok(Verdict::All);
        };
        // The properties of the image that are metadata keys of any aggregate, with the image's values.
        let compared: Vec<(&str, String)> = aggregates
            .keys()
            .filter_map(|key| Some((key, property_text(&image.properties, key)?)))
            .collect();
        if compared.is_empty() {
            return Ok(Verdict::All);
        }
        Ok(aggregates.verdict(|combination| {
            compared.iter().all(|(key, image_value)| {
                let lists = combination.values(key);
                let mut values = lists.iter().flat_map(|list| list.split(',')).map(strip);
                lists.is_empty() || values.any(|value| value == image_value)
            })
        }))
    },
};

/// The value of a known property in the spelling of metadata; `None` if it is unset, empty, zero or false.
fn property_text(properties: &ImageProperties, name: &str) -> Option<String> {
    match name {
        "traits_required" => {
            let traits: Vec<&str> = properties.traits_required().collect();
            let is_set = !traits.is_empty();
            return is_set.then(|| crate::values::text(&traits.into()));
        }
        "hw_numa_mem" => {
            let nodes = properties.numa_memory_mb()?.to_vec();
            return Some(crate::values::text(&nodes.into()));
        }
        _ => {}
    }
    let value = properties.get(name)?;
    match kind(name)? {
        Kind::Boolean => (value == "true").then(|| "True".to_owned()),
        Kind::Integer => (value != "0").then(|| value.to_owned()),
        Kind::Text | Kind::OneOf(_) | Kind::Normalized(..) | Kind::VersionPredicate => {
            (!value.is_empty()).then(|| value.to_owned())
        }
        Kind::Structured => None,
    }
}
