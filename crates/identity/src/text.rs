//! Which names are allowed, and how they are encoded in URIs.

use thiserror::Error;

/// The maximum length of the name of a cell, host or service, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// The maximum length of the name of an installation, in bytes: that of a DNS label.
const INSTALLATION_BYTES_MAX: usize = 63;

/// Why a text is no valid name, or why names do not make an identity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// The text is not a URI in one of the known forms.
    #[error("{0:?} is no name of a role: see `placewright pki issue --help` for their forms")]
    UnknownForm(String),
    /// The name of an installation is empty, too long, or has characters that are not allowed where they are.
    #[error(
        "{0:?} is no name of an installation: up to 63 of a-z, 0-9, - and ., beginning with a \
         letter or digit"
    )]
    Installation(String),
    /// The name of a cell, host or service is empty, too long, or has control characters; or a host was given on the
    /// command line as `NAME=UUID`, and the UUID is not valid.
    #[error("{0:?} is no name of a cell, host or service: 1 to 255 bytes, no control characters")]
    Name(String),
    /// None of the names is that of a role, or an agent has no host.
    #[error("there is no name of a role among the names")]
    NoRole,
    /// The names are of several roles, cells or installations.
    #[error("the names are of more than one role, cell or installation: {0} and {1}")]
    Mixed(String, String),
    /// There are more names than a certificate may have.
    #[error("there are {0} names, and a certificate has at most {1}")]
    TooMany(usize, usize),
}

/// Checks the name of an installation.
pub(crate) fn check_installation(text: &str) -> Result<(), NameError> {
    let is_lowercase_or_digit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let has_valid_start = text.bytes().next().is_some_and(is_lowercase_or_digit);
    let is_allowed = |byte: u8| is_lowercase_or_digit(byte) || matches!(byte, b'-' | b'.');
    if has_valid_start && text.len() <= INSTALLATION_BYTES_MAX && text.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(NameError::Installation(text.to_owned()))
}

/// Checks the name of a cell, host or service.
pub(crate) fn check_name(text: &str) -> Result<(), NameError> {
    let has_valid_length = (1..=NAME_BYTES_MAX).contains(&text.len());
    if has_valid_length && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(NameError::Name(text.to_owned()))
}

/// Appends a name to a URI as a percent-encoded segment.
pub(crate) fn encode(name: &str, uri: &mut String) {
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            uri.push(char::from(byte));
        } else {
            uri.push('%');
            for nibble in [byte >> 4, byte & 15] {
                let digit = char::from_digit(u32::from(nibble), 16).unwrap_or('0');
                uri.push(digit.to_ascii_uppercase());
            }
        }
    }
}

/// Decodes a segment of a URI. `None` if the segment is not as [`encode`] writes it, so that each name has one
/// form only.
pub(crate) fn decode(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut bytes_left = segment.bytes();
    while let Some(byte) = bytes_left.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes_left.next()?).to_digit(16);
        let decoded = digit()? << 4 | digit()?;
        bytes.push(u8::try_from(decoded).ok()?);
    }
    let name = String::from_utf8(bytes).ok()?;
    let mut encoded = String::with_capacity(segment.len());
    encode(&name, &mut encoded);
    (encoded == segment).then_some(name)
}
