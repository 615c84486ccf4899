//! The ids of keys.

use std::fmt;

use zeroize::Zeroizing;

/// The length of a key's id in bytes.
const ID_BYTES: usize = 6;

/// The id of a key: a prefix of the key's hash, so that key files need not contain ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; ID_BYTES]);

impl KeyId {
    /// The id of the key with this hash.
    pub(crate) fn from_hash(hash: &[u8]) -> Self {
        let mut id = [0; ID_BYTES];
        id.iter_mut().zip(hash).for_each(|(to, from)| *to = *from);
        Self(id)
    }

    /// Parses an id in hexadecimal digits; `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        decode_hex(text)?.as_slice().try_into().ok().map(Self)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The bytes of hexadecimal digits; `None` for other characters or an odd number of digits.
pub(crate) fn decode_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = Zeroizing::new(digits?);
    let pairs = digits.chunks_exact(2);
    pairs
        .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok())
        .collect()
}
