//! Hosts where a request leaves the least of shared devices to waste come first.

use super::{Raw, Weigher};
use crate::weigher::fragmentation::{Demand, WHOLE};

/// `FragmentationWeigher`
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
            // Nobody searched with this request: it is only asked about.
            None => Raw::Each(Box::new(move |slot| {
                let place = board.place(slot, &demand);
                place.map_or(least, |place| -place.growth)
            })),
        })
    },
};

/// The number of a host where the request does not fit by its devices: as if it all were lost.
fn worst(demand: &Demand) -> f64 {
    -f64::from(WHOLE) * f64::from(demand.devices.max(1))
}
