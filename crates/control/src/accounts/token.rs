//! The text of a token, which has the token's content and signature.
//!
//! The bytes of a token are a version, the number of the key, the content, and the signature (HMAC-SHA-256). The text
//! is the bytes in base 64, some 200 characters.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use placewright_conductor::accounts::AssignmentScope;
use placewright_placement::Timestamp;
use ring::hmac;
use serde::{Deserialize, Serialize};

/// The version of the bytes. A later version may have more content.
const VERSION: u8 = 1;
/// The length in bytes of the version and the number of the key, with which a token begins.
const HEAD_BYTES: usize = 5;
/// The length of a signature in bytes.
const SIGNATURE_BYTES: usize = 32;
/// The text that precedes the bytes of a token when they are signed, so that a signature for anything else is not valid
/// for a token.
const CONTEXT: &[u8] = b"placewright token\0";

/// Why a token is not valid. For the log of administrators; clients learn no reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// The text is no token of any installation of Placewright.
    #[error("it is no token")]
    Malformed,
    /// The key that the token names has not signed it, or the token was changed.
    #[error("its signature is wrong")]
    Forged,
    /// The key that signed the token is not, or no longer, in the journal.
    #[error("its key is not known")]
    UnknownKey,
    /// The token has expired.
    #[error("it has expired")]
    Expired,
    /// The token, or all tokens of its user, were revoked.
    #[error("it was revoked")]
    Revoked,
    /// The user of the token is gone or disabled.
    #[error("its user is gone or disabled")]
    NoUser,
    /// The project of the token's scope is gone or disabled.
    #[error("its project is gone or disabled")]
    NoProject,
    /// The user of the token has no role in its scope any more.
    #[error("its user has no role in its scope")]
    NoRole,
    /// The application credential of the token is gone or has expired.
    #[error("its application credential is gone")]
    NoCredential,
}

impl TokenRefusal {
    /// Whether a newer state could allow the token, because it is signed and its time is not over, or because its
    /// key may be a new one.
    #[must_use]
    pub fn depends_on_state(self) -> bool {
        !matches!(self, Self::Malformed | Self::Forged | Self::Expired)
    }
}

/// A way in which the user of a token has signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    /// The user has given a password.
    Password,
    /// The user has presented another token.
    Token,
    /// The user has given the secret of an application credential.
    ApplicationCredential,
}

impl Method {
    /// The name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Token => "token",
            Self::ApplicationCredential => "application_credential",
        }
    }
}

/// The scope for which a token is valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenScope {
    /// No scope: with the token a client can only request another token.
    None,
    /// A project, by its id.
    Project(String),
    /// A domain, by its id.
    Domain(String),
    /// The whole installation.
    System,
}

impl TokenScope {
    /// The scope of the roles that count; `None` without a scope.
    #[must_use]
    pub fn assignment(&self) -> Option<AssignmentScope> {
        match self {
            Self::None => None,
            Self::Project(id) => Some(AssignmentScope::Project(id.clone())),
            Self::Domain(id) => Some(AssignmentScope::Domain(id.clone())),
            Self::System => Some(AssignmentScope::System),
        }
    }
}

/// The content of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenContent {
    /// The id of the user.
    pub user: String,
    /// The scope for which the token is valid.
    pub scope: TokenScope,
    /// The ways in which the user has signed in, for this token and for those that it was made from.
    pub methods: Vec<Method>,
    /// When the token was issued.
    #[serde(with = "microseconds")]
    pub issued_at: Timestamp,
    /// When the token expires.
    #[serde(with = "microseconds")]
    pub expires_at: Timestamp,
    /// A random number that names the token without revealing it.
    pub audit: [u8; 16],
    /// The audit number of the token with which the user first signed in, if this token was made from another one.
    pub audit_root: Option<[u8; 16]>,
    /// The user's epoch when the token was issued: a count that increases when all tokens of the user become invalid.
    pub epoch: u64,
    /// The application credential with which the user signed in.
    pub application_credential: Option<String>,
}

impl TokenContent {
    /// The audit id, by which the token is revoked and known in logs.
    #[must_use]
    pub fn audit_id(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.audit)
    }

    /// The audit id of this token. If this token was made from another one, also the audit id of the token with which
    /// the user first signed in.
    #[must_use]
    pub fn audit_ids(&self) -> Vec<String> {
        let root = self.audit_root.map(|root| URL_SAFE_NO_PAD.encode(root));
        std::iter::once(self.audit_id()).chain(root).collect()
    }
}

/// A token whose signature was not checked yet.
pub(super) struct SignedToken {
    /// The number of the key that has signed it.
    pub(super) key: u32,
    bytes: Vec<u8>,
}

impl SignedToken {
    /// The content of the token, if the key has signed it.
    pub(super) fn verify(&self, key: &hmac::Key) -> Result<TokenContent, TokenRefusal> {
        let length = self.bytes.len().saturating_sub(SIGNATURE_BYTES);
        let (bytes, signature) = self
            .bytes
            .split_at_checked(length)
            .ok_or(TokenRefusal::Malformed)?;
        let signed = [CONTEXT, bytes].concat();
        hmac::verify(key, &signed, signature).map_err(|_| TokenRefusal::Forged)?;
        let content = bytes.get(HEAD_BYTES..).ok_or(TokenRefusal::Malformed)?;
        postcard::from_bytes(content).map_err(|_| TokenRefusal::Malformed)
    }
}

/// Reads the text of a token; `None` if the text is not a token.
pub(super) fn parse(text: &str) -> Option<SignedToken> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let [version, key @ ..] = *head;
    if version != VERSION || rest.len() <= SIGNATURE_BYTES {
        return None;
    }
    Some(SignedToken {
        key: u32::from_le_bytes(key),
        bytes,
    })
}

/// The text of a token.
pub(super) fn sign(number: u32, key: &hmac::Key, content: &TokenContent) -> String {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&number.to_le_bytes());
    // Encoding cannot fail, because the content has only texts, numbers and lists.
    bytes.extend(postcard::to_stdvec(content).unwrap_or_default());
    let signature = hmac::sign(key, &[CONTEXT, &bytes].concat());
    bytes.extend_from_slice(signature.as_ref());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Times as microseconds since 1970.
mod microseconds {
    use placewright_placement::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(time.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(from).map(Timestamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> TokenContent {
        TokenContent {
            user: "0123456789abcdef0123456789abcdef".into(),
            scope: TokenScope::Project("fedcba9876543210fedcba9876543210".into()),
            methods: vec![Method::Password],
            issued_at: Timestamp(1_700_000_000_000_000),
            expires_at: Timestamp(1_700_003_600_000_000),
            audit: [7; 16],
            audit_root: None,
            epoch: 3,
            application_credential: None,
        }
    }

    #[test]
    fn a_token_is_short_and_says_what_was_signed() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &[1; 32]);
        let text = sign(9, &key, &content());
        assert!(text.len() < 230, "{}", text.len());
        let signed = parse(&text).unwrap();
        assert_eq!(signed.key, 9);
        assert_eq!(signed.verify(&key), Ok(content()));
        let other = hmac::Key::new(hmac::HMAC_SHA256, &[2; 32]);
        assert_eq!(signed.verify(&other), Err(TokenRefusal::Forged));
    }

    #[test]
    fn no_changed_byte_passes() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &[1; 32]);
        let bytes = URL_SAFE_NO_PAD.decode(sign(9, &key, &content())).unwrap();
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            let signed = parse(&URL_SAFE_NO_PAD.encode(changed));
            assert!(signed.is_none_or(|signed| signed.verify(&key).is_err()));
        }
        for end in 0..bytes.len() {
            let signed = parse(&URL_SAFE_NO_PAD.encode(&bytes[..end]));
            assert!(signed.is_none_or(|signed| signed.verify(&key).is_err()));
        }
    }
}
