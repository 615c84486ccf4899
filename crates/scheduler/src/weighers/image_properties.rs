//! `ImagePropertiesWeigher`: the number of instances on the host that have the same image
//! properties.
//!
//! If the configured multiplier is 0, the weigher is disabled even for aggregates that override the
//! multiplier.

use super::weigher::{RawValues, Weigher};
use crate::config;
use crate::context::Context;
use crate::hosts::property_counts::counted_properties;

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "ImagePropertiesWeigher",
    multiplier_key: "image_props_weight_multiplier",
    multiplier: |config| config.image_props_weight_multiplier,
    negates_multiplier: false,
    declared_low: None,
    declared_high: None,
    compile: |context| {
        let pairs = pairs_with_ratios(context);
        if pairs.is_empty() {
            return Ok(RawValues::Constant(0.0));
        }
        let counts = context.hosts.property_counts();
        Ok(RawValues::Each(Box::new(move |slot| {
            let products = pairs
                .iter()
                .map(|(number, ratio)| ratio * f64::from(counts.count(slot, *number)));
            products.sum()
        })))
    },
};

/// The image properties of the request that some instance has as well: each pair of a property and its value by the
/// pair's number, with the property's ratio.
fn pairs_with_ratios(context: &Context<'_>) -> Vec<(u32, f64)> {
    let Some(image) = context.request.image.as_ref() else {
        return Vec::new();
    };
    if !context.hosts.counts_image_properties() {
        return Vec::new();
    }
    let (ratios, _) = config::parse_ratios(&context.config.image_props_weight_setting);
    let ratio_of = |name: &str| {
        if ratios.is_empty() {
            return 1.0;
        }
        // Of several ratios for a property the last counts.
        let configured = ratios.iter().rfind(|(property, _)| property == name);
        configured.map_or(0.0, |(_, ratio)| *ratio)
    };
    let properties = counted_properties(&image.properties).into_iter();
    let numbered = properties.filter_map(|(name, value)| {
        let number = context.hosts.property_counts().pair_number(name, &value)?;
        Some((number, ratio_of(name)))
    });
    numbered.filter(|(_, ratio)| *ratio != 0.0).collect()
}
