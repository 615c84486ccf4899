//! How names are written in URIs, and what names are allowed.

use thiserror::Error;

/// The longest name of a cell, host or service, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// The longest name of an installation, in bytes: that of a DNS label.
const INSTALLATION_BYTES_MAX: usize = 63;

/// Why a text is no name, or names are no identity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// The text is no URI of this scheme in one of the known forms.
    #[error("{0:?} is no name of a role: see `placewright pki issue --help` for their forms")]
    NotAName(String),
    /// The name of an installation has other characters, or too many.
    #[error(
        "{0:?} is no name of an installation: up to 63 of a-z, 0-9, - and ., beginning with a \
         letter or digit"
    )]
    Installation(String),
    /// The name of a cell, host or service is empty, too long, or has control characters.
    #[error("{0:?} is no name of a cell, host or service: 1 to 255 bytes, no control characters")]
    Name(String),
    /// There is no name of a role.
    #[error("there is no name of a role among the names")]
    None,
    /// The names are of several roles, cells or installations.
    #[error("the names are of more than one role, cell or installation: {0} and {1}")]
    Mixed(String, String),
    /// There are more names than a certificate may have.
    #[error("there are {0} names, and a certificate has at most {1}")]
    TooMany(usize, usize),
}

/// Checks the name of an installation.
pub(crate) fn installation(text: &str) -> Result<(), NameError> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let begins = text.bytes().next().is_some_and(is_plain);
    let is_allowed = |byte: u8| is_plain(byte) || matches!(byte, b'-' | b'.');
    if begins && text.len() <= INSTALLATION_BYTES_MAX && text.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(NameError::Installation(text.to_owned()))
}

/// Checks the name of a cell, host or service.
pub(crate) fn name(text: &str) -> Result<(), NameError> {
    let is_whole = (1..=NAME_BYTES_MAX).contains(&text.len());
    if is_whole && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(NameError::Name(text.to_owned()))
}

/// Writes a name as a segment of a URI.
pub(crate) fn encode(name: &str, into: &mut String) {
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            into.push(char::from(byte));
        } else {
            into.push('%');
            for half in [byte >> 4, byte & 15] {
                let digit = char::from_digit(u32::from(half), 16).unwrap_or('0');
                into.push(digit.to_ascii_uppercase());
            }
        }
    }
}

/// Reads a segment of a URI; none if it is not written as [`encode`] writes it, so that each name has
/// one form only.
pub(crate) fn decode(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let both = digit()? << 4 | digit()?;
        bytes.push(u8::try_from(both).ok()?);
    }
    let name = String::from_utf8(bytes).ok()?;
    let mut again = String::with_capacity(segment.len());
    encode(&name, &mut again);
    (again == segment).then_some(name)
}
