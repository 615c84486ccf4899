//! Dates in the format of HTTP.

use std::cell::RefCell;

use hyper::header::HeaderValue;

thread_local! {
    /// The latest date that this thread formatted; successive responses mostly have the same.
    static LAST: RefCell<Option<(i64, HeaderValue)>> = const { RefCell::new(None) };
}

/// [`http_date`] as a header's value.
pub(crate) fn header(seconds: i64) -> Option<HeaderValue> {
    LAST.with_borrow_mut(|last| match last {
        Some((second, value)) if *second == seconds => Some(value.clone()),
        _ => {
            let value = HeaderValue::try_from(http_date(seconds)).ok()?;
            *last = Some((seconds, value.clone()));
            Some(value)
        }
    })
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` for seconds since 1970 (RFC 9110, section 5.6.7).
fn http_date(seconds: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, month_day) = civil(day);
    let weekday = DAYS[usize::try_from(day.rem_euclid(7)).unwrap_or(0)];
    let month = MONTHS[usize::try_from(month - 1).unwrap_or(0)];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Formatted by hand, because every response has such a date.
    let mut text = String::with_capacity(29);
    text.push_str(weekday);
    text.push_str(", ");
    push_two(&mut text, month_day);
    text.push(' ');
    text.push_str(month);
    text.push(' ');
    if (0..10_000).contains(&year) {
        push_two(&mut text, year / 100);
        push_two(&mut text, year % 100);
    } else {
        text.push_str(&format!("{year:04}"));
    }
    for (sign, part) in [(' ', hour), (':', minute), (':', second)] {
        text.push(sign);
        push_two(&mut text, part);
    }
    text.push_str(" GMT");
    text
}

/// Appends a number below 100 with two digits.
fn push_two(text: &mut String, number: i64) {
    let digit = |number: i64| char::from(b'0' + u8::try_from(number % 10).unwrap_or(0));
    text.push(digit(number / 10));
    text.push(digit(number));
}

/// Year, month (1 to 12) and day of a day since 1970, computed by eras of 400 years.
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_795_228_460, "Sat, 21 Nov 2026 02:34:20 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
            (-62_167_219_201, "Fri, 31 Dec -001 23:59:59 GMT"),
            (253_402_300_800, "Sat, 01 Jan 10000 00:00:00 GMT"),
        ] {
            assert_eq!(http_date(seconds), expected);
            for _ in 0..2 {
                assert_eq!(header(seconds).unwrap(), expected);
            }
        }
    }
}
