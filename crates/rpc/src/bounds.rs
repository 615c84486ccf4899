//! What may be said: every number, text and list of every message is bounded.
//!
//! A peer that is broken, or that somebody else speaks for, may say anything. What is beyond these
//! bounds is refused at the door, with a sentence that names the field, before anything is changed by
//! it. Behind the door arithmetic on such numbers cannot overflow.
//!
//! The bounds are far from what any role says; they are part of the protocols and no options.
//! docs/limits.md lists them.

mod agents;
mod cells;

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use placewright_conductor::ids::NUMBER_END;
use placewright_placement::Timestamp;
use tonic::Status;

/// Names of hosts, classes, properties, levels.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Names that users choose: 255 characters, each of four bytes at most.
pub(crate) const TITLE_BYTES_MAX: usize = 1020;
/// Sentences and values.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 10;
/// What an instance is to be, and explanations.
pub(crate) const BODY_BYTES_MAX: usize = 8 << 20;
/// Things of one message: hosts, guests, instances, news.
pub(crate) const LIST_MAX: usize = 100_000;
/// Parts of one thing: its metrics, properties, amounts, rules.
pub(crate) const PARTS_MAX: usize = 10_000;
/// What one provider can have of a class.
pub(crate) const AMOUNT_MAX: i64 = i32::MAX as i64;
/// The end of the year 9999.
pub(crate) const TIME_MAX: Timestamp = Timestamp(253_402_300_799_999_999);
/// Sessions are counted or are times, in microseconds or nanoseconds; one is at most this far ahead of
/// the time in nanoseconds: ten years. Nobody can use up the numbers of somebody else's host.
const SESSION_AHEAD: u64 = 315_576_000_000_000_000;
/// An agent is told of sessions that a cell let in; their clocks differ.
const AFTER_AHEAD: u64 = SESSION_AHEAD + SESSION_AHEAD / 10;

/// Something that nobody can mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Absurd(pub(crate) String);

impl From<Absurd> for Status {
    fn from(absurd: Absurd) -> Self {
        Self::invalid_argument(absurd.0)
    }
}

/// A message that can be checked.
pub(crate) trait Bounded {
    /// Whether it is a list, which begins with its length.
    const IS_LIST: bool = false;

    /// Whether all of it is within the bounds.
    ///
    /// # Errors
    /// The first field that is not.
    fn check(&self, at: At<'_>) -> Result<(), Absurd>;
}

/// Where in a message.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    inside: Option<&'a At<'a>>,
    name: &'static str,
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inside {
            Some(inside) => write!(f, "{inside}.{}", self.name),
            None => f.write_str(self.name),
        }
    }
}

impl At<'static> {
    pub(crate) fn message(name: &'static str) -> Self {
        Self { inside: None, name }
    }
}

impl At<'_> {
    pub(crate) fn field<'a>(&'a self, name: &'static str) -> At<'a> {
        At {
            inside: Some(self),
            name,
        }
    }

    fn beyond(&self, what: impl fmt::Display, limit: impl fmt::Display) -> Absurd {
        Absurd(format!("{self}: {what}, and at most {limit} is allowed"))
    }

    pub(crate) fn text(&self, text: &str, max: usize) -> Result<(), Absurd> {
        if text.len() > max {
            return Err(self.beyond(format_args!("{} bytes", text.len()), max));
        }
        Ok(())
    }

    pub(crate) fn maybe_text(&self, text: Option<&str>, max: usize) -> Result<(), Absurd> {
        text.map_or(Ok(()), |text| self.text(text, max))
    }

    pub(crate) fn count(&self, count: usize, max: usize) -> Result<(), Absurd> {
        if count > max {
            return Err(self.beyond(format_args!("{count} of them"), max));
        }
        Ok(())
    }

    pub(crate) fn each<T: Bounded>(&self, list: &[T], max: usize) -> Result<(), Absurd> {
        self.count(list.len(), max)?;
        list.iter().try_for_each(|one| one.check(*self))
    }

    pub(crate) fn number(&self, number: u64) -> Result<(), Absurd> {
        if number >= NUMBER_END {
            return Err(self.beyond(number, NUMBER_END - 1));
        }
        Ok(())
    }

    /// A session that begins.
    pub(crate) fn session(&self, session: u64) -> Result<(), Absurd> {
        self.ahead(session, SESSION_AHEAD)
    }

    /// A session that somebody says was before.
    pub(crate) fn after(&self, after: u64) -> Result<(), Absurd> {
        self.ahead(after, AFTER_AHEAD)
    }

    fn ahead(&self, number: u64, ahead: u64) -> Result<(), Absurd> {
        self.number(number)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = since.map_or(0, |since| {
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        });
        let most = now.saturating_add(ahead);
        if number > most {
            return Err(self.beyond(number, most));
        }
        Ok(())
    }

    pub(crate) fn amount(&self, amount: i64) -> Result<(), Absurd> {
        if !(0..=AMOUNT_MAX).contains(&amount) {
            return Err(Absurd(format!(
                "{self}: {amount}, and 0 to {AMOUNT_MAX} is allowed"
            )));
        }
        Ok(())
    }

    pub(crate) fn time(&self, time: Timestamp) -> Result<(), Absurd> {
        if time < Timestamp(0) || time > TIME_MAX {
            return Err(Absurd(format!(
                "{self}: {} is no time from 1970 to 9999 in microseconds",
                time.0
            )));
        }
        Ok(())
    }

    pub(crate) fn measure(&self, value: f64) -> Result<(), Absurd> {
        if !value.is_finite() {
            return Err(Absurd(format!("{self}: {value} is no number")));
        }
        Ok(())
    }
}

/// A text that is no longer than it may be: what is too long loses its end.
pub(crate) fn cut(text: &mut String, max: usize) {
    text.truncate(text.floor_char_boundary(max));
}
