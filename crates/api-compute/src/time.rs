//! Times in the formats of the API, all in UTC.

use jiff::civil::DateTime;
use jiff::tz::Offset;
use placewright_placement::Timestamp;

/// The present time of the system clock.
pub(crate) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_microsecond())
}

/// `2026-11-21T10:00:00Z`, the format of servers.
pub(crate) fn seconds(at: Timestamp) -> String {
    let second = jiff::Timestamp::from_second(at.seconds()).unwrap_or_default();
    second.to_string()
}

/// `2026-11-21T10:00:00.000000`, the format of most other resources.
pub(crate) fn micros(at: Timestamp) -> String {
    let time = jiff::Timestamp::from_microsecond(at.0).unwrap_or_default();
    let time = Offset::UTC.to_datetime(time);
    format!("{}.{:06}", plain(time), time.subsec_nanosecond() / 1000)
}

fn plain(time: DateTime) -> String {
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
    let micros = |time: jiff::Timestamp| Timestamp(time.as_microsecond());
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(micros(time));
    }
    let time: DateTime = text.parse().ok()?;
    Offset::UTC.to_timestamp(time).ok().map(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        let at = Timestamp(1_795_228_460_000_042);
        assert_eq!(seconds(at), "2026-11-21T02:34:20Z");
        assert_eq!(micros(at), "2026-11-21T02:34:20.000042");
        for text in [
            "2026-11-21T02:34:20.000042",
            "2026-11-21T02:34:20.000042Z",
            "2026-11-21T03:34:20.000042+01:00",
        ] {
            assert_eq!(parse(text), Some(at), "{text}");
        }
        assert_eq!(parse("2026-11-21"), parse("2026-11-21T00:00:00Z"));
        assert_eq!(parse("yesterday"), None);
    }
}
