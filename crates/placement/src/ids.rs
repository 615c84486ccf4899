//! Typed identifiers: dense numbers inside, UUIDs and names outside.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident, $repr:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub $repr);

        impl $name {
            /// The identifier as an index into a table.
            #[must_use]
            pub fn index(self) -> usize {
                usize::try_from(self.0).unwrap_or(usize::MAX)
            }
        }
    };
}

dense_id!(
    /// The slot of a resource provider: its row in every column and bit in every mask.
    ProviderId, u32
);
dense_id!(
    /// A resource class. Standard classes have their number in os-resource-classes, custom ones
    /// follow.
    ClassId, u16
);
dense_id!(
    /// A trait. Standard traits have the lower numbers, custom ones follow.
    TraitId, u16
);
dense_id!(
    /// An aggregate. Interned: valid within one state only.
    AggregateId, u32
);
dense_id!(
    /// The slot of a consumer.
    ConsumerId, u32
);
dense_id!(
    /// The slot of a group of consumers.
    GroupId, u32
);
dense_id!(
    /// A project. Interned: valid within one state only.
    ProjectId, u32
);
dense_id!(
    /// A user. Interned: valid within one state only.
    UserId, u32
);
dense_id!(
    /// A consumer type. Interned: valid within one state only.
    TypeId, u32
);

/// The UUID of a consumer as its client wrote it: 36 characters of hexadecimal digits and dashes.
///
/// It is kept as text, because it need not be a canonical UUID: `POST /allocations` also accepts
/// upper case, or 36 dashes, and shows the text unchanged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerUuid([u8; 36]);

impl ConsumerUuid {
    /// Parses a text of exactly 36 characters of `0-9a-fA-F-`; `None` for any other.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_ascii(text.as_bytes())
    }

    /// As [`Self::parse`], for text whose encoding was not checked.
    #[must_use]
    pub fn from_ascii(text: &[u8]) -> Option<Self> {
        let bytes: [u8; 36] = text.try_into().ok()?;
        // Without an early exit, so that the compiler checks many bytes at once: a start reads millions of these.
        let mut is_valid = true;
        for byte in bytes {
            let is_digit = byte.wrapping_sub(b'0') < 10;
            let is_letter = (byte | 0x20).wrapping_sub(b'a') < 6;
            is_valid &= is_digit | is_letter | (byte == b'-');
        }
        is_valid.then_some(Self(bytes))
    }

    /// The canonical text of a UUID.
    #[must_use]
    pub fn from_uuid(uuid: uuid::Uuid) -> Self {
        let mut bytes = [0; 36];
        uuid.hyphenated().encode_lower(&mut bytes);
        Self(bytes)
    }

    /// The 36 characters as the client wrote them.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Only ASCII is accepted, so the fallback is never used.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for ConsumerUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for ConsumerUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ConsumerUuid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ConsumerUuid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = ConsumerUuid;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("36 characters of hexadecimal digits and dashes")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ConsumerUuid, E> {
                ConsumerUuid::parse(text)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// A moment: microseconds since 1970-01-01T00:00:00Z. It comes from a command; the state never reads the time of day.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The moment this many seconds after 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// The whole seconds since 1970-01-01T00:00:00Z, rounded down.
    #[must_use]
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_uuid_has_36_digits_and_dashes() {
        let valid = *b"0123456789-abcdef-ABCDEF-0099-aaffAF";
        for at in 0..valid.len() {
            for byte in 0..=u8::MAX {
                let mut text = valid;
                text[at] = byte;
                let is_valid = byte.is_ascii_hexdigit() || byte == b'-';
                assert_eq!(
                    ConsumerUuid::from_ascii(&text).is_some(),
                    is_valid,
                    "{byte}"
                );
            }
        }
        assert_eq!(ConsumerUuid::from_ascii(&valid[1..]), None);
    }
}
