//! A span of time on the command line.

use std::str::FromStr;
use std::time::Duration;

/// A span of time: a number with one of s, m, h and d.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeSpan(pub(crate) Duration);

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad_span = || format!("{text:?} is no time: write 90s, 15m, 12h or 7d");
        let unit = text.chars().last().ok_or_else(bad_span)?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return Err(bad_span()),
        };
        let count: u32 = text[..text.len() - 1].parse().map_err(|_| bad_span())?;
        if count == 0 {
            return Err(bad_span());
        }
        Ok(Self(Duration::from_secs(u64::from(count) * seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!("90s".parse(), Ok(TimeSpan(Duration::from_secs(90))));
        assert_eq!("7d".parse(), Ok(TimeSpan(Duration::from_secs(604_800))));
        for text in ["", "7", "d", "0s", "-1s", "1.5h", "1é"] {
            assert!(text.parse::<TimeSpan>().is_err(), "{text}");
        }
    }
}
