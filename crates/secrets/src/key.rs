//! Encryption keys of an installation, and their text in key files.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

use crate::error::KeyError;
use crate::key_id::{KeyId, decode_hex};

/// The length of a key in bytes.
pub(crate) const KEY_BYTES: usize = 32;

/// A key of the installation, under which secrets are sealed.
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
        Ok(Self::new(bytes))
    }

    /// Reads a key as a line of a key file: 32 bytes in base 64, or as 64 hexadecimal digits. `None` for any other
    /// text.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let engines = [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD];
        let decode_base_64 =
            |text: &str| engines.iter().find_map(|engine| engine.decode(text).ok());
        let decoded = Zeroizing::new(match line.len() {
            64 => decode_hex(line)?,
            _ => decode_base_64(line)?,
        });
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        if decoded.len() != bytes.len() {
            return None;
        }
        bytes.copy_from_slice(&decoded);
        Some(Self::new(bytes))
    }

    fn new(bytes: Zeroizing<[u8; KEY_BYTES]>) -> Self {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(b"placewright key id\0");
        hash.update(&bytes[..]);
        Self {
            id: KeyId::from_hash(hash.finish().as_ref()),
            bytes,
        }
    }

    /// The id of the key. It does not reveal the key.
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
