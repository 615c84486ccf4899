//! Times in the format of the API, in UTC.

use placewright_placement::Timestamp;

/// Formats a time: `2026-11-21T10:00:00Z`.
pub(crate) fn format(time: Timestamp) -> String {
    let second = jiff::Timestamp::from_second(time.seconds()).unwrap_or_default();
    second.to_string()
}

/// Parses a time of ISO 8601; a time without an offset is in UTC. `None` if the text is no time.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let zoned = text.parse::<jiff::Timestamp>();
    let time = zoned.or_else(|_| format!("{text}Z").parse::<jiff::Timestamp>());
    time.ok().map(|time| Timestamp(time.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        let time = Timestamp(1_795_228_460_000_000);
        assert_eq!(format(time), "2026-11-21T02:34:20Z");
        for text in [
            "2026-11-21T02:34:20Z",
            "2026-11-21T02:34:20",
            "2026-11-21T03:34:20+01:00",
        ] {
            assert_eq!(parse(text), Some(time), "{text}");
        }
        assert_eq!(parse("yesterday"), None);
    }
}
