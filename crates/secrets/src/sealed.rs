//! Authenticated encryption of one secret, bound to the record that it belongs to.

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

/// The length of the nonce in bytes: so long that random nonces do not collide.
const NONCE_BYTES: usize = 24;

/// The record that a sealed secret belongs to. The secret cannot be opened for another record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The UUID of the server.
    pub server: Uuid,
    /// Which of the server's secrets it is, by a name.
    pub field: &'static str,
}

impl Binding {
    /// The binding as additional data of the authenticated encryption: a fixed prefix, the server's UUID, and the
    /// field.
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
    key_id: KeyId,
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
            key_id: key.id(),
            nonce,
            ciphertext,
        })
    }

    /// Decrypts the secret.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(
        &self,
        keyring: &Keyring,
        binding: &Binding,
    ) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        let key = keyring.key(self.key_id);
        let key = key.ok_or(OpenError::UnknownKey(self.key_id))?;
        decrypt(key.bytes(), &binding.bytes(), &self.nonce, &self.ciphertext)
    }

    /// The id of the key that the secret was sealed with.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Reads the text that [`Display`](fmt::Display) writes.
    ///
    /// # Errors
    ///
    /// [`OpenError::Unreadable`].
    pub fn parse(text: &str) -> Result<Self, OpenError> {
        let (key_id, rest) = text.split_once('.').ok_or(OpenError::Unreadable)?;
        let (nonce, ciphertext) = decode(rest)?;
        Ok(Self {
            key_id: KeyId::parse(key_id).ok_or(OpenError::Unreadable)?,
            nonce,
            ciphertext,
        })
    }
}

/// The key's id, a dot, and nonce and ciphertext in base 64.
impl fmt::Display for Sealed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = encode(&self.nonce, &self.ciphertext);
        write!(formatter, "{}.{rest}", self.key_id)
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Sealed")
            .field("key", &self.key_id)
            .field("bytes", &self.ciphertext.len())
            .finish()
    }
}

/// A random key for one set of secrets (envelope encryption). The servers of one request share the
/// sealed set, and each has a copy of this key that is sealed for it alone.
pub(crate) struct DataKey(Zeroizing<[u8; KEY_BYTES]>);

impl DataKey {
    pub(crate) fn random() -> Result<Self, SealError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        fill(&mut bytes[..])?;
        Ok(Self(bytes))
    }

    pub(crate) fn new(bytes: &[u8]) -> Result<Self, OpenError> {
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

    /// Seals bytes, as text. The text is not bound to a server: the sealed copies of the data key are.
    pub(crate) fn seal(&self, field: &str, secret: &[u8]) -> Result<String, SealError> {
        let (nonce, ciphertext) = encrypt(&self.0[..], field.as_bytes(), secret)?;
        Ok(encode(&nonce, &ciphertext))
    }

    pub(crate) fn open(&self, field: &str, text: &str) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        let (nonce, ciphertext) = decode(text)?;
        decrypt(&self.0[..], field.as_bytes(), &nonce, &ciphertext)
    }
}

/// Fills a buffer with random bytes.
fn fill(bytes: &mut [u8]) -> Result<(), SealError> {
    let filled = SystemRandom::new().fill(bytes);
    filled.map_err(|_| SealError::NoRandomness)
}

/// Derives the encryption key for one nonce. So each secret has an encryption key of its own, a key
/// of the installation can seal any number of secrets, and the cipher's own nonce can always be zero.
fn derive_key(key: &[u8], nonce: &[u8; NONCE_BYTES]) -> Option<LessSafeKey> {
    let extracted = Salt::new(HKDF_SHA256, nonce).extract(key);
    let info: &[&[u8]] = &[b"placewright secret key 1"];
    let material = extracted.expand(info, &CHACHA20_POLY1305).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(material)))
}

/// The cipher's own nonce, which may be constant: see [`derive_key`].
fn zero_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn encrypt(
    key: &[u8],
    bound_to: &[u8],
    secret: &[u8],
) -> Result<([u8; NONCE_BYTES], Vec<u8>), SealError> {
    let mut nonce = [0; NONCE_BYTES];
    fill(&mut nonce)?;
    // This does not fail: a key of the cipher's length can always be derived.
    let cipher = derive_key(key, &nonce).ok_or(SealError::TooLarge)?;
    // With capacity for the tag, so that no reallocation leaves a copy of the secret in memory.
    let mut bytes = Vec::with_capacity(secret.len() + CHACHA20_POLY1305.tag_len());
    bytes.extend_from_slice(secret);
    let sealed = cipher.seal_in_place_append_tag(zero_nonce(), Aad::from(bound_to), &mut bytes);
    sealed.map_err(|_| SealError::TooLarge)?;
    Ok((nonce, bytes))
}

fn decrypt(
    key: &[u8],
    bound_to: &[u8],
    nonce: &[u8; NONCE_BYTES],
    ciphertext: &[u8],
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let cipher = derive_key(key, nonce).ok_or(OpenError::NotAuthentic)?;
    let mut bytes = Zeroizing::new(ciphertext.to_vec());
    let opened = cipher.open_in_place(zero_nonce(), Aad::from(bound_to), &mut bytes);
    let length = opened.map_err(|_| OpenError::NotAuthentic)?.len();
    bytes.truncate(length);
    Ok(bytes)
}

/// A nonce and a ciphertext in base 64.
fn encode(nonce: &[u8; NONCE_BYTES], ciphertext: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(NONCE_BYTES + ciphertext.len());
    bytes.extend_from_slice(nonce);
    bytes.extend_from_slice(ciphertext);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads what [`encode`] returned.
fn decode(text: &str) -> Result<([u8; NONCE_BYTES], Vec<u8>), OpenError> {
    let bytes = URL_SAFE_NO_PAD.decode(text);
    let bytes = bytes.map_err(|_| OpenError::Unreadable)?;
    let (nonce, ciphertext) = bytes
        .split_first_chunk::<NONCE_BYTES>()
        .ok_or(OpenError::Unreadable)?;
    Ok((*nonce, ciphertext.to_vec()))
}
