//! The system clock.

use std::time::{SystemTime, UNIX_EPOCH};

use placewright_placement::Timestamp;

/// The present time, for records.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let us = since.map_or(0, |since| since.as_micros());
    Timestamp(i64::try_from(us).unwrap_or(i64::MAX))
}
