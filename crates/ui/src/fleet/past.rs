//! The fleet of a state of the past, in the form of one event of the stream.

use placewright_conductor::ControlState;

use super::rows::{ByKind, Rows};

/// The rows of all hosts of a state, as the data of one event for a page that has none.
pub(crate) fn past_fleet(control: &ControlState) -> String {
    let mut rows = Rows::new();
    let slot_count = u32::try_from(control.placement.provider_slots()).unwrap_or(u32::MAX);
    for slot in 0..slot_count {
        rows.look_at_past(control, slot);
    }
    // The page knows no values yet, and gets all rows: those that changed after version 0.
    let mut known_values: ByKind<usize> = ByKind::default();
    let data = rows.write(0..slot_count, 0, &mut known_values);
    data.unwrap_or_else(|| r#"{"hosts":[],"live":[],"gone":[]}"#.to_owned())
}
