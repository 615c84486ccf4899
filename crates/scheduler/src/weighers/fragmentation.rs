//! `FragmentationWeigher`: prefers hosts whose fragmentation a request increases least. The raw value is
//! minus the growth of the host's fragmentation: the shares of devices that the request would waste there.

use super::weigher::{RawValues, Weigher};
use crate::hosts::fragmentation::{Demand, WHOLE_DEVICE};

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "FragmentationWeigher",
    multiplier_key: "fragmentation_weight_multiplier",
    multiplier: |config| config.fragmentation_weight_multiplier,
    negates_multiplier: false,
    declared_low: None,
    declared_high: None,
    compile: |context| {
        let Some(data) = context.hosts.fragmentation_data() else {
            return Ok(RawValues::Constant(0.0));
        };
        let (loss_cache, demand) = (data.loss_cache(), data.demand(context.request));
        let worst_value = worst_value(&demand);
        Ok(match loss_cache.gradients(demand) {
            Some(gradients) => RawValues::Each(Box::new(move |slot| {
                gradients.growth(slot).map_or(worst_value, |growth| -growth)
            })),
            // A search first records its request in the demand histogram, which also brings the cached growths
            // of the request's class up to date. For a request without a search, such as one that is only
            // explained, they may be missing or outdated: the growth is then computed host by host.
            None => RawValues::Each(Box::new(move |slot| {
                let choice = loss_cache.choose_devices(slot, &demand);
                choice.map_or(worst_value, |choice| -choice.growth)
            })),
        })
    },
};

/// The raw value of a host whose free CPUs, memory or devices do not suffice for the request: as if the request
/// wasted as many whole devices as it needs, or one if it needs none.
fn worst_value(demand: &Demand) -> f64 {
    -f64::from(WHOLE_DEVICE) * f64::from(demand.devices.max(1))
}
