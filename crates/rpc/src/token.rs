//! The shared secret that authenticates callers.

use std::path::Path;
use std::sync::Arc;

use thiserror::Error;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};

/// The key of the gRPC metadata that carries the token.
const METADATA_KEY: &str = "authorization";
/// The fewest bytes of a token; shorter ones could be guessed.
const BYTES_MIN: usize = 16;

/// The shared secret by which a server authenticates callers. It is never printed.
#[derive(Clone)]
pub struct Token(Arc<MetadataValue<Ascii>>);

/// Why a token cannot be used.
#[derive(Debug, Error)]
pub enum TokenError {
    /// The token's file cannot be read.
    #[error("{path}: cannot read the token: {error}")]
    Unreadable {
        /// The path of the file.
        path: String,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The token is shorter than the minimum.
    #[error("the token has fewer than {BYTES_MIN} characters")]
    TooShort,
    /// The token has characters that cannot be sent in a header.
    #[error("the token has characters other than visible ASCII")]
    BadCharacters,
}

impl Token {
    /// Makes a token from its text, without surrounding white space.
    ///
    /// # Errors
    ///
    /// The text is too short, or has characters other than visible ASCII.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.len() < BYTES_MIN {
            return Err(TokenError::TooShort);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::BadCharacters);
        }
        let value = MetadataValue::try_from(format!("Bearer {text}"));
        let mut value = value.map_err(|_| TokenError::BadCharacters)?;
        value.set_sensitive(true);
        Ok(Self(Arc::new(value)))
    }

    /// Reads a token from a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or its content is not a valid token.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let text = std::fs::read_to_string(path).map_err(|error| TokenError::Unreadable {
            path: path.display().to_string(),
            error,
        })?;
        Self::new(&text)
    }

    /// Whether the metadata of a call has the token.
    pub(crate) fn is_in(&self, metadata: &MetadataMap) -> bool {
        let sent = metadata
            .get(METADATA_KEY)
            .map_or(&[] as &[u8], |value| value.as_bytes());
        let expected = self.0.as_bytes();
        // Compares in constant time, so that the duration does not reveal how much of a guess is
        // right.
        let differences = sent
            .iter()
            .zip(expected)
            .fold(0, |differences, (a, b)| differences | (a ^ b));
        sent.len() == expected.len() && differences == 0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(hidden)")
    }
}

/// Adds the token to the metadata of a call.
pub(crate) fn attach_token<T>(token: Option<&Token>, request: &mut Request<T>) {
    if let Some(token) = token {
        request
            .metadata_mut()
            .insert(METADATA_KEY, (*token.0).clone());
    }
}
