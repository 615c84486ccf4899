//! Times as certificates have them: whole seconds since 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;

use crate::error::PkiError;

/// How far the clocks of two machines may differ: certificates begin that long before they are made.
pub const SKEW: Duration = Duration::from_secs(300);

/// The present time.
#[must_use]
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// A time so much later; at most the end of the year 9999.
pub(crate) fn later(at: i64, by: Duration) -> i64 {
    let by = i64::try_from(by.as_secs()).unwrap_or(i64::MAX);
    at.saturating_add(by).min(253_402_300_799)
}

/// A time as rcgen takes it.
pub(crate) fn date(at: i64) -> Result<OffsetDateTime, PkiError> {
    OffsetDateTime::from_unix_timestamp(at)
        .map_err(|error| PkiError::Certificate(format!("{at} is no time: {error}")))
}
