//! `ImagePropertiesWeigher`: the number of instances on the host whose image has the same
//! properties.
//!
//! Disabled while the configured multiplier is 0, whatever aggregates say.

use super::weigher::{RawValues, Weigher};
use crate::config;
use crate::context::Context;
use crate::hosts::property_counts::compared;

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "ImagePropertiesWeigher",
    multiplier_key: "image_props_weight_multiplier",
    multiplier: |config| config.image_props_weight_multiplier,
    is_subtracted: false,
    low: None,
    high: None,
    compile: |context| {
        let wanted = wanted(context);
        if wanted.is_empty() {
            return Ok(RawValues::Constant(0.0));
        }
        let properties = context.hosts.properties();
        Ok(RawValues::Each(Box::new(move |slot| {
            let shares = wanted
                .iter()
                .map(|(number, ratio)| ratio * f64::from(properties.count(slot, *number)));
            shares.sum()
        })))
    },
};

/// The request's image properties that any instance has, with their ratios.
fn wanted(context: &Context<'_>) -> Vec<(u32, f64)> {
    let Some(image) = context.request.image.as_ref() else {
        return Vec::new();
    };
    if !context.hosts.counts_properties() {
        return Vec::new();
    }
    let (ratios, _) = config::pairs(&context.config.image_props_weight_setting);
    let ratio_of = |name: &str| {
        if ratios.is_empty() {
            return 1.0;
        }
        // Of several ratios for a name the last counts.
        let found = ratios.iter().rfind(|(property, _)| property == name);
        found.map_or(0.0, |(_, ratio)| *ratio)
    };
    let compared = compared(&image.properties).into_iter();
    let numbered = compared.filter_map(|(name, value)| {
        let number = context.hosts.properties().number(name, &value)?;
        Some((number, ratio_of(name)))
    });
    numbered.filter(|(_, ratio)| *ratio != 0.0).collect()
}
