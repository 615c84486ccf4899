//! Keys and their ids.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

use crate::error::KeyError;

/// The length of a key in bytes.
pub(crate) const KEY_BYTES: usize = 32;
/// The length of a key's id in bytes.
const ID_BYTES: usize = 6;

/// The id of a key: a part of its hash, so that it needs no record of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; ID_BYTES]);

impl KeyId {
    /// The id with this text.
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

/// A key of the installation.
#[derive(Clone)]
pub struct Key {
    id: KeyId,
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

impl Key {
    /// Makes a random key.
    ///
    /// # Errors
    ///
    /// [`KeyError::NoRandomness`].
    pub fn random() -> Result<Self, KeyError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        let filled = SystemRandom::new().fill(&mut bytes[..]);
        filled.map_err(|_| KeyError::NoRandomness)?;
        Ok(Self::of(bytes))
    }

    /// Reads a key as a line of a key file: 32 bytes in base 64, or as 64 hexadecimal digits.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let engines = [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD];
        let of_base_64 = |text: &str| engines.iter().find_map(|one| one.decode(text).ok());
        let decoded = Zeroizing::new(match line.len() {
            64 => decode_hex(line)?,
            _ => of_base_64(line)?,
        });
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        if decoded.len() != bytes.len() {
            return None;
        }
        bytes.copy_from_slice(&decoded);
        Some(Self::of(bytes))
    }

    fn of(bytes: Zeroizing<[u8; KEY_BYTES]>) -> Self {
        let mut hashed = digest::Context::new(&digest::SHA256);
        hashed.update(b"placewright key id\0");
        hashed.update(&bytes[..]);
        let mut id = [0; ID_BYTES];
        let hash = hashed.finish();
        id.iter_mut()
            .zip(hash.as_ref())
            .for_each(|(to, from)| *to = *from);
        Self {
            id: KeyId(id),
            bytes,
        }
    }

    /// The id of the key, which says nothing of the key.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..]
    }

    /// The key as a line of a key file.
    pub(crate) fn line(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.bytes()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Key").field(&self.id).finish()
    }
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
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
