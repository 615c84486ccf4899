//! The value of the `Last-Modified` header.

use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

use httpdate::fmt_http_date;
use hyper::header::HeaderValue;

thread_local! {
    /// The time and the value of the latest header that this thread formatted. Successive responses mostly have
    /// the same time.
    static LAST: RefCell<Option<(i64, HeaderValue)>> = const { RefCell::new(None) };
}

/// The first second that has no date in HTTP: the one after the year 9999.
const END_S: u64 = 253_402_300_800;

/// `Sun, 06 Nov 1994 08:49:37 GMT` for seconds since 1970 (RFC 9110, section 5.6.7); none for a time
/// before 1970 or after 9999.
pub(crate) fn header(seconds: i64) -> Option<HeaderValue> {
    LAST.with_borrow_mut(|last| match last {
        Some((second, value)) if *second == seconds => Some(value.clone()),
        _ => {
            let since = u64::try_from(seconds).ok().filter(|since| *since < END_S)?;
            let date = fmt_http_date(UNIX_EPOCH + Duration::from_secs(since));
            let value = HeaderValue::try_from(date).ok()?;
            *last = Some((seconds, value.clone()));
            Some(value)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (784_111_777, Some("Sun, 06 Nov 1994 08:49:37 GMT")),
            (0, Some("Thu, 01 Jan 1970 00:00:00 GMT")),
            (951_782_400, Some("Tue, 29 Feb 2000 00:00:00 GMT")),
            (1_795_228_460, Some("Sat, 21 Nov 2026 02:34:20 GMT")),
            (253_402_300_799, Some("Fri, 31 Dec 9999 23:59:59 GMT")),
            (253_402_300_800, None),
            (-1, None),
            (i64::MIN, None),
        ] {
            for _ in 0..2 {
                let value = header(seconds);
                let text = value.as_ref().map(|value| value.to_str().unwrap());
                assert_eq!(text, expected, "{seconds}");
            }
        }
    }
}
