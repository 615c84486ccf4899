//! Which replica leads, since when and why.

use std::time::{SystemTime, UNIX_EPOCH};

/// Which replica leads, as far as this replica knows from the journal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leadership {
    /// The entry with which the leading replica began to lead; 0 if none is known.
    pub epoch: u64,
    /// The number of the replica that leads.
    pub origin: u64,
    /// The address at which the replica that leads is reached.
    pub address: String,
    /// Whether this replica is the one that leads.
    pub is_own: bool,
    /// The time at which the leading replica began to lead, by its own clock, in milliseconds since 1970; 0 if that is
    /// not known.
    pub since_ms: u64,
    /// Why the leading replica began to lead.
    pub reason: TakeoverReason,
}

/// Why a replica began to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TakeoverReason {
    /// No entry that the replica read names an earlier leader. A replica does not read the entries that are covered by
    /// the snapshot from which it recovered its state.
    #[default]
    NoneKnown,
    /// The replica that led before could not be reached.
    Unreachable,
    /// The replica that led before handed over.
    HandedOver,
    /// A reason of a later release.
    Other,
}

impl TakeoverReason {
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::NoneKnown => 0,
            Self::Unreachable => 1,
            Self::HandedOver => 2,
            Self::Other => u8::MAX,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::NoneKnown,
            1 => Self::Unreachable,
            2 => Self::HandedOver,
            _ => Self::Other,
        }
    }

    /// The reason for people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::NoneKnown => "no replica led before, as far as the journal tells",
            Self::Unreachable => "the replica that led before could not be reached",
            Self::HandedOver => "the replica that led before handed over",
            Self::Other => "a reason of a later release",
        }
    }
}

/// The present time, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
