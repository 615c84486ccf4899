//! `FragmentationWeigher`: prefers hosts where a request wastes the least of shared devices.

use super::weigher::{RawValues, Weigher};
use crate::hosts::fragmentation::{Demand, WHOLE};

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
        let least = worst(&demand);
        Ok(match loss_cache.gradients(demand) {
            Some(gradients) => RawValues::Each(Box::new(move |slot| {
                gradients.of(slot).map_or(least, |growth| -growth)
            })),
            // No losses are cached for a request that was not searched for, so they are computed
            // host by host.
            None => RawValues::Each(Box::new(move |slot| {
                let place = loss_cache.place(slot, &demand);
                place.map_or(least, |place| -place.growth)
            })),
        })
    },
};

/// The value of a host whose devices do not fit the request: as if all of it were wasted.
fn worst(demand: &Demand) -> f64 {
    -f64::from(WHOLE) * f64::from(demand.devices.max(1))
}
