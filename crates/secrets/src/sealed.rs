//! One sealed secret.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::error::{OpenError, SealError};
use crate::key::KEY_BYTES;
use crate::key_id::KeyId;
use crate::keyring::Keyring;

/// The length of the nonce in bytes: so many random ones never come twice.
const NONCE_BYTES: usize = 24;

/// The record that a sealed secret belongs to. It opens nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The UUID of the server.
    pub server: Uuid,
    /// The field of the server.
    pub field: &'static str,
}

impl Binding {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"placewright secret 1\0".to_vec();
        bytes.extend_from_slice(self.server.as_bytes());
        bytes.extend_from_slice(self.field.as_bytes());
        bytes
    }
}

/// A secret under a key of a [`Keyring`], for one field of one server.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    key: KeyId,
    nonce: [u8; NONCE_BYTES],
    ciphertext: Vec<u8>,
}

impl Sealed {
    /// Seals bytes with the current key of a keyring.
    ///
    /// # Errors
    ///
    /// See [`SealError`].
    pub fn seal(keyring: &Keyring, binding: &Binding, secret: &[u8]) -> Result<Self, SealError> {
        let key = keyring.current();
        let (nonce, ciphertext) = encrypt(key.bytes(), &binding.bytes(), secret)?;
        Ok(Self {
            key: key.id(),
            nonce,
            ciphertext,
        })
    }

    /// Opens it.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(
        &self,
        keyring: &Keyring,
        binding: &Binding,
    ) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        let key = keyring.key(self.key);
        let key = key.ok_or(OpenError::UnknownKey(self.key))?;
        decrypt(key.bytes(), &binding.bytes(), &self.nonce, &self.ciphertext)
    }

    /// The id of its key.
    #[must_use]
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// Reads the text that [`Display`](fmt::Display) writes.
    ///
    /// # Errors
    ///
    /// [`OpenError::Unreadable`].
    pub fn parse(text: &str) -> Result<Self, OpenError> {
        let (key, rest) = text.split_once('.').ok_or(OpenError::Unreadable)?;
        let (nonce, ciphertext) = decode(rest)?;
        Ok(Self {
            key: KeyId::parse(key).ok_or(OpenError::Unreadable)?,
            nonce,
            ciphertext,
        })
    }
}

/// The key's id, and nonce and ciphertext in base 64.
impl fmt::Display for Sealed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = encode(&self.nonce, &self.ciphertext);
        write!(formatter, "{}.{rest}", self.key)
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sealed")
            .field("key", &self.key)
            .field("bytes", &self.ciphertext.len())
            .finish()
    }
}

/// A key that is made for one set of secrets and never used again. The servers of one request
/// share the sealed set, and each has the key sealed for itself.
pub(crate) struct DataKey(Zeroizing<[u8; KEY_BYTES]>);

impl DataKey {
    pub(crate) fn random() -> Result<Self, SealError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        fill(&mut bytes[..])?;
        Ok(Self(bytes))
    }

    pub(crate) fn of(bytes: &[u8]) -> Result<Self, OpenError> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        if bytes.len() != key.len() {
            return Err(OpenError::Unreadable);
        }
        key.copy_from_slice(bytes);
        Ok(Self(key))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0[..]
    }

    /// Seals bytes; the result is text. The key is bound to a server, so the text needs not be.
    pub(crate) fn seal(&self, field: &str, secret: &[u8]) -> Result<String, SealError> {
        let (nonce, ciphertext) = encrypt(&self.0[..], field.as_bytes(), secret)?;
        Ok(encode(&nonce, &ciphertext))
    }

    pub(crate) fn open(&self, field: &str, text: &str) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        let (nonce, ciphertext) = decode(text)?;
        decrypt(&self.0[..], field.as_bytes(), &nonce, &ciphertext)
    }
}

fn fill(bytes: &mut [u8]) -> Result<(), SealError> {
    let filled = SystemRandom::new().fill(bytes);
    filled.map_err(|_| SealError::NoRandomness)
}

/// A key for one nonce. Each secret has a key of its own this way, so a key of the installation may
/// seal any number of secrets, and the cipher's own nonce can always be zero.
fn derived(key: &[u8], nonce: &[u8; NONCE_BYTES]) -> Option<LessSafeKey> {
    let from = Salt::new(HKDF_SHA256, nonce).extract(key);
    let info: &[&[u8]] = &[b"placewright secret key 1"];
    let material = from.expand(info, &CHACHA20_POLY1305).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(material)))
}

fn zero() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn encrypt(
    key: &[u8],
    bound_to: &[u8],
    secret: &[u8],
) -> Result<([u8; NONCE_BYTES], Vec<u8>), SealError> {
    let mut nonce = [0; NONCE_BYTES];
    fill(&mut nonce)?;
    let cipher = derived(key, &nonce).ok_or(SealError::TooLarge)?;
    // Room for the tag, so that the open bytes are not left behind by a reallocation.
    let mut bytes = Vec::with_capacity(secret.len() + CHACHA20_POLY1305.tag_len());
    bytes.extend_from_slice(secret);
    let sealed = cipher.seal_in_place_append_tag(zero(), Aad::from(bound_to), &mut bytes);
    sealed.map_err(|_| SealError::TooLarge)?;
    Ok((nonce, bytes))
}

fn decrypt(
    key: &[u8],
    bound_to: &[u8],
    nonce: &[u8; NONCE_BYTES],
    ciphertext: &[u8],
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let cipher = derived(key, nonce).ok_or(OpenError::NotAuthentic)?;
    let mut bytes = Zeroizing::new(ciphertext.to_vec());
    let opened = cipher.open_in_place(zero(), Aad::from(bound_to), &mut bytes);
    let length = opened.map_err(|_| OpenError::NotAuthentic)?.len();
    bytes.truncate(length);
    Ok(bytes)
}

fn encode(nonce: &[u8; NONCE_BYTES], ciphertext: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(NONCE_BYTES + ciphertext.len());
    bytes.extend_from_slice(nonce);
    bytes.extend_from_slice(ciphertext);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(text: &str) -> Result<([u8; NONCE_BYTES], Vec<u8>), OpenError> {
    let bytes = URL_SAFE_NO_PAD.decode(text);
    let bytes = bytes.map_err(|_| OpenError::Unreadable)?;
    let (nonce, ciphertext) = bytes
        .split_first_chunk::<NONCE_BYTES>()
        .ok_or(OpenError::Unreadable)?;
    Ok((*nonce, ciphertext.to_vec()))
}
