//! `FragmentationWeigher`: prefers hosts whose fragmentation a request increases least.

use super::weigher::{RawValues, Weigher};
use crate::hosts::fragmentation::{Demand, WHOLE_DEVICE};

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "FragmentationWeigher",
    multiplier_key: "fragmentation_weight_multiplier",
    multiplier: |config| config.fragmentation_weight_multiplier,
    is_subtracted: false,
    low: None,
    high: None,
    compile: |context| {
        let Some(packing) = context.hosts.packing() else {
            return Ok(RawValues::Constant(0.0));
        };
        let (loss_cache, demand) = (packing.loss_cache(), packing.demand(context.request));
        let worst_value = worst_value(&demand);
        Ok(match loss_cache.gradients(demand) {
            Some(gradients) => RawValues::Each(Box::new(move |slot| {
                gradients.growth(slot).map_or(worst_value, |growth| -growth)
            })),
            // Losses are only cached for requests of searches. For others, as in explanations, they
            // are computed host by host.
            None => RawValues::Each(Box::new(move |slot| {
                let choice = loss_cache.choose_devices(slot, &demand);
                choice.map_or(worst_value, |choice| -choice.growth)
            })),
        })
    },
};

/// The raw value of a host whose devices do not fit the request: that of losing as many whole
/// devices.
fn worst_value(demand: &Demand) -> f64 {
    -f64::from(WHOLE_DEVICE) * f64::from(demand.devices.max(1))
}
