//! Times in the formats of the API, all in UTC.

use jiff::civil::DateTime;
use jiff::tz::Offset;
use placewright_placement::Timestamp;

/// The present time of the system clock.
pub(crate) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_microsecond())
}

/// Formats a time as servers show it: `2026-11-21T10:00:00Z`.
pub(crate) fn format_seconds(time: Timestamp) -> String {
    let second = jiff::Timestamp::from_second(time.seconds()).unwrap_or_default();
    second.to_string()
}

/// Formats a time as most other resources show it: `2026-11-21T10:00:00.000000`.
pub(crate) fn format_micros(time: Timestamp) -> String {
    let instant = jiff::Timestamp::from_microsecond(time.0).unwrap_or_default();
    let civil = Offset::UTC.to_datetime(instant);
    format!(
        "{}.{:06}",
        format_to_second(civil),
        civil.subsec_nanosecond() / 1000
    )
}

fn format_to_second(time: DateTime) -> String {
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        time.year(),
        time.month(),
        time.day(),
        time.hour(),
        time.minute(),
        time.second()
    )
}

/// Parses an ISO 8601 time; UTC unless it has an offset.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let to_timestamp = |time: jiff::Timestamp| Timestamp(time.as_microsecond());
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(to_timestamp(time));
    }
    let time: DateTime = text.parse().ok()?;
    Offset::UTC.to_timestamp(time).ok().map(to_timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        let time = Timestamp(1_795_228_460_000_042);
        assert_eq!(format_seconds(time), "2026-11-21T02:34:20Z");
        assert_eq!(format_micros(time), "2026-11-21T02:34:20.000042");
        for text in [
            "2026-11-21T02:34:20.000042",
            "2026-11-21T02:34:20.000042Z",
            "2026-11-21T03:34:20.000042+01:00",
        ] {
            assert_eq!(parse(text), Some(time), "{text}");
        }
        assert_eq!(parse("2026-11-21"), parse("2026-11-21T00:00:00Z"));
        assert_eq!(parse("yesterday"), None);
    }
}
