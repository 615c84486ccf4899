//! `CrossCellWeigher`: a move prefers hosts of the instance's present cell.

use placewright_placement::slot_set::SlotSet;

use super::weigher::{RawValues, Weigher};

/// The weigher as registered in [`super::ALL`].
pub(super) const WEIGHER: Weigher = Weigher {
    name: "CrossCellWeigher",
    multiplier_key: "cross_cell_move_weight_multiplier",
    multiplier: |config| config.cross_cell_move_weight_multiplier,
    negates_multiplier: false,
    declared_low: None,
    declared_high: None,
    compile: |context| {
        let destination = context.request.requested_destination.as_ref();
        let destination = destination.filter(|destination| destination.allow_cross_cell_move);
        let Some(cell) = destination.and_then(|destination| destination.cell) else {
            return Ok(RawValues::Constant(0.0));
        };
        let cell_hosts: Option<&SlotSet> = context.hosts.of_cell(cell);
        Ok(RawValues::Each(Box::new(move |slot| {
            let is_in_cell = cell_hosts.is_some_and(|hosts| hosts.contains(slot));
            if is_in_cell { 1.0 } else { -1.0 }
        })))
    },
};
