//! Times of the journal, in microseconds since 1970, as text.

use jiff::Timestamp;

/// The time in RFC 3339.
pub(super) fn text(microseconds: i64) -> String {
    Timestamp::from_microsecond(microseconds)
        .map_or_else(|_| format!("{microseconds} µs"), |at| at.to_string())
}

/// The time as a part of a file's name: 20261122T231005.123Z.
pub(super) fn for_file_name(microseconds: i64) -> String {
    let milliseconds = microseconds.div_euclid(1000);
    match Timestamp::from_millisecond(milliseconds) {
        Ok(at) => format!("{at:.3}").replace(['-', ':'], ""),
        Err(_) => milliseconds.to_string(),
    }
}
