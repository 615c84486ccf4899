//! Limits of every number, text and list in every message.
//!
//! A peer that is broken or malicious may send anything. A message with a value beyond these limits is
//! rejected when it is decoded, before any state changes, with an error that names the field. So the
//! code that handles decoded messages can do arithmetic on their numbers without overflow.
//!
//! The limits are far above what any role sends. They are part of the protocols and cannot be
//! configured; docs/limits.md lists them.

mod agents;
mod cells;
mod replicas;

use std::fmt;
use std::time::SystemTime;

use placewright_placement::Timestamp;
pub(crate) use placewright_types::limits::{LIST_MAX, NAME_BYTES_MAX, PARTS_MAX, TEXT_BYTES_MAX};
use placewright_types::limits::{NUMBER_END, SESSION_AHEAD_MAX, session_max};
use tonic::Status;

/// The most bytes of a name that users choose: 255 characters of at most four bytes each.
pub(crate) const TITLE_BYTES_MAX: usize = 1020;
/// The most bytes of the body of a spec, or of the details of a fault.
pub(crate) const BODY_BYTES_MAX: usize = 8 << 20;
/// The most updates of hosts in one call between replicas. There is a limit of its own because they are applied under
/// one lock.
pub(crate) const HOST_UPDATES_MAX: usize = 1_000;
/// The largest amount of a resource class that one provider can have.
pub(crate) const AMOUNT_MAX: i64 = i32::MAX as i64;
/// The latest timestamp: the end of the year 9999, in microseconds since 1970.
pub(crate) const TIME_MAX: Timestamp = Timestamp(253_402_300_799_999_999);
/// How far a session number that a cell sends to an agent may be above the present time, in nanoseconds. This is more
/// than [`SESSION_AHEAD_MAX`], the limit for new sessions, because the cell accepted the number by its own time of day,
/// which may differ from the agent's.
const EARLIER_SESSION_AHEAD_MAX: u64 = SESSION_AHEAD_MAX + SESSION_AHEAD_MAX / 10;

/// A value beyond its limits; the text names the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitExceeded(pub(crate) String);

impl From<LimitExceeded> for Status {
    fn from(exceeded: LimitExceeded) -> Self {
        Self::invalid_argument(exceeded.0)
    }
}

/// A message whose fields can be checked against the limits.
pub(crate) trait Validate {
    /// Whether the message is a list, whose encoding begins with its length.
    const IS_LIST: bool = false;

    /// Checks that all fields are within their limits.
    ///
    /// # Errors
    ///
    /// The first field that is not within its limits.
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded>;
}

/// The path of a field within a message, for errors. The methods after [`field`](FieldPath::field) check a value
/// of the field against a limit.
#[derive(Clone, Copy)]
pub(crate) struct FieldPath<'a> {
    parent: Option<&'a FieldPath<'a>>,
    name: &'static str,
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parent {
            Some(parent) => write!(f, "{parent}.{}", self.name),
            None => f.write_str(self.name),
        }
    }
}

impl FieldPath<'static> {
    /// The path of a whole message, from which the paths of its fields are made.
    pub(crate) fn message(name: &'static str) -> Self {
        Self { parent: None, name }
    }
}

impl FieldPath<'_> {
    pub(crate) fn field<'a>(&'a self, name: &'static str) -> FieldPath<'a> {
        FieldPath {
            parent: Some(self),
            name,
        }
    }

    fn exceeded(&self, what: impl fmt::Display, limit: impl fmt::Display) -> LimitExceeded {
        LimitExceeded(format!("{self}: {what}, and at most {limit} is allowed"))
    }

    pub(crate) fn check_text(&self, text: &str, max: usize) -> Result<(), LimitExceeded> {
        self.check_bytes(text.len(), max)
    }

    pub(crate) fn check_bytes(&self, count: usize, max: usize) -> Result<(), LimitExceeded> {
        if count > max {
            return Err(self.exceeded(format_args!("{count} bytes"), max));
        }
        Ok(())
    }

    pub(crate) fn check_optional_text(
        &self,
        text: Option<&str>,
        max: usize,
    ) -> Result<(), LimitExceeded> {
        text.map_or(Ok(()), |text| self.check_text(text, max))
    }

    pub(crate) fn check_count(&self, count: usize, max: usize) -> Result<(), LimitExceeded> {
        if count > max {
            return Err(self.exceeded(format_args!("{count} of them"), max));
        }
        Ok(())
    }

    pub(crate) fn check_each<T: Validate>(
        &self,
        list: &[T],
        max: usize,
    ) -> Result<(), LimitExceeded> {
        self.check_count(list.len(), max)?;
        list.iter().try_for_each(|item| item.check(*self))
    }

    /// Checks a number that the receiver may increment, such as that of a session or a claim.
    pub(crate) fn check_number(&self, number: u64) -> Result<(), LimitExceeded> {
        if number >= NUMBER_END {
            return Err(self.exceeded(number, NUMBER_END - 1));
        }
        Ok(())
    }

    /// Checks the number of a session that begins.
    pub(crate) fn check_new_session(&self, session: u64) -> Result<(), LimitExceeded> {
        self.check_session(session, SESSION_AHEAD_MAX)
    }

    /// Checks the number that a cell sends as that of an earlier session.
    pub(crate) fn check_earlier_session(&self, session: u64) -> Result<(), LimitExceeded> {
        self.check_session(session, EARLIER_SESSION_AHEAD_MAX)
    }

    /// Checks that a session number is at most `ahead_max` nanoseconds above the present time.
    fn check_session(&self, number: u64, ahead_max: u64) -> Result<(), LimitExceeded> {
        self.check_number(number)?;
        let number_max = session_max(SystemTime::now(), ahead_max);
        if number > number_max {
            return Err(self.exceeded(number, number_max));
        }
        Ok(())
    }

    pub(crate) fn check_amount(&self, amount: i64) -> Result<(), LimitExceeded> {
        if !(0..=AMOUNT_MAX).contains(&amount) {
            return Err(LimitExceeded(format!(
                "{self}: {amount}, and 0 to {AMOUNT_MAX} is allowed"
            )));
        }
        Ok(())
    }

    pub(crate) fn check_time(&self, time: Timestamp) -> Result<(), LimitExceeded> {
        if time < Timestamp(0) || time > TIME_MAX {
            return Err(LimitExceeded(format!(
                "{self}: {} is no time from 1970 to 9999 in microseconds",
                time.0
            )));
        }
        Ok(())
    }
}

/// Truncates a text to at most `max` bytes, at a character boundary.
pub(crate) fn truncate_text(text: &mut String, max: usize) {
    text.truncate(text.floor_char_boundary(max));
}
