//! Times in the format of the API, all in UTC.

use placewright_placement::Timestamp;

/// Formats a time: `2026-11-21T10:00:00.000000Z`.
pub(crate) fn format(time: Timestamp) -> String {
    let instant = jiff::Timestamp::from_microsecond(time.0).unwrap_or_default();
    instant.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Reads a time; one without a zone is in UTC.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let instant: jiff::Timestamp = match text.parse() {
        Ok(instant) => instant,
        Err(_) => format!("{text}Z").parse().ok()?,
    };
    Some(Timestamp(instant.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_a_zone() {
        let time = Timestamp(1_700_000_000_500_000);
        assert_eq!(format(time), "2023-11-14T22:13:20.500000Z");
        assert_eq!(parse("2023-11-14T22:13:20.500000Z"), Some(time));
        assert_eq!(parse("2023-11-14T22:13:20.500000"), Some(time));
        assert_eq!(parse("2023-11-14T23:13:20.5+01:00"), Some(time));
        assert_eq!(parse("tomorrow"), None);
    }
}
