//! `FragmentationWeigher`: prefers hosts where a request wastes the least of shared devices.

use super::weigher::{Raw, Weigher};
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
            return Ok(Raw::Constant(0.0));
        };
        let (board, demand) = (packing.board(), packing.demand(context.request));
        let least = worst(&demand);
        Ok(match board.growths(demand) {
            Some(growths) => Raw::Each(Box::new(move |slot| {
                growths.of(slot).map_or(least, |growth| -growth)
            })),
            // No losses are cached for a request that was not searched for, so they are computed
            // host by host.
            None => Raw::Each(Box::new(move |slot| {
                let place = board.place(slot, &demand);
                place.map_or(least, |place| -place.growth)
            })),
        })
    },
};

/// The value of a host whose devices do not fit the request: as if all of it were wasted.
fn worst(demand: &Demand) -> f64 {
    -f64::from(WHOLE) * f64::from(demand.devices.max(1))
}
