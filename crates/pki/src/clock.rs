//! Times of certificates, in whole seconds since 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;

use crate::error::PkiError;

/// How far the clocks of two machines may differ. The validity of a certificate begins this long before the certificate
/// is issued.
pub const SKEW: Duration = Duration::from_secs(300);

/// The present time in seconds since 1970.
#[must_use]
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// The end of the year 9999, the latest time that a certificate can have.
const LATEST: i64 = 253_402_300_799;

/// The time after a duration, but at most [`LATEST`].
pub(crate) fn later(at: i64, by: Duration) -> i64 {
    let by = i64::try_from(by.as_secs()).unwrap_or(i64::MAX);
    at.saturating_add(by).min(LATEST)
}

/// Converts a time for `rcgen`.
pub(crate) fn date(at: i64) -> Result<OffsetDateTime, PkiError> {
    OffsetDateTime::from_unix_timestamp(at)
        .map_err(|error| PkiError::Certificate(format!("{at} is no time: {error}")))
}
