//! Percent signs in paths and queries.
//!
//! A percent sign is decoded where two hexadecimal digits follow, and stays as it is elsewhere.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// A decoded text is not UTF-8: the first wrong byte and its position, in the words of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("'utf-8' codec can't decode byte {byte:#04x} in position {at}")]
pub struct NotUtf8 {
    /// The first byte that does not belong to a character.
    pub byte: u8,
    /// The position of the byte in the decoded text.
    pub at: usize,
}

/// Decodes percent signs.
///
/// # Errors
///
/// The decoded text is not UTF-8.
pub fn decode_percent(text: &str) -> Result<Cow<'_, str>, NotUtf8> {
    decode_bytes(text.as_bytes().into())
}

/// Decodes percent signs, and plus signs as spaces, as queries have them.
pub(crate) fn decode_form(text: &str) -> Result<Cow<'_, str>, NotUtf8> {
    if !text.contains('+') {
        return decode_percent(text);
    }
    decode_bytes(text.replace('+', " ").into_bytes().into())
}

fn decode_bytes(encoded: Cow<'_, [u8]>) -> Result<Cow<'_, str>, NotUtf8> {
    let decoded = match encoded {
        Cow::Borrowed(bytes) => Cow::from(percent_decode(bytes)),
        Cow::Owned(bytes) => Cow::Owned(percent_decode(&bytes).collect()),
    };
    let not_utf8 = |bytes: &[u8], at: usize| NotUtf8 {
        byte: bytes.get(at).copied().unwrap_or_default(),
        at,
    };
    match decoded {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes)
            .map(Cow::Borrowed)
            .map_err(|error| not_utf8(bytes, error.valid_up_to())),
        Cow::Owned(bytes) => String::from_utf8(bytes)
            .map(Cow::Owned)
            .map_err(|error| not_utf8(error.as_bytes(), error.utf8_error().valid_up_to())),
    }
}

/// Decodes percent signs in a path. Each byte becomes a character, as WSGI passes paths to services
/// in Python, which is visible in texts that repeat a path.
#[must_use]
pub fn latin1_path(path: &str) -> Cow<'_, str> {
    if !path.contains('%') && path.is_ascii() {
        return Cow::Borrowed(path);
    }
    let decoded: String = percent_decode(path.as_bytes()).map(char::from).collect();
    // A final newline does not count, as in the reference: its routes are regular expressions, in which `$` also
    // matches before a final newline.
    Cow::Owned(match decoded.strip_suffix('\n') {
        Some(rest) => rest.to_owned(),
        None => decoded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_percent_signs_before_two_digits_are_decoded() {
        assert_eq!(decode_percent("a%2Fb%2").unwrap(), "a/b%2");
        // Signs are not hexadecimal digits.
        assert_eq!(decode_percent("%+a%-1").unwrap(), "%+a%-1");
        assert_eq!(decode_form("2+3%2B%zz%").unwrap(), "2 3+%zz%");
        let wrong = NotUtf8 { byte: 0xff, at: 1 };
        assert_eq!(decode_percent("a%ff"), Err(wrong));
        assert_eq!(decode_form("+%ff"), Err(wrong));
    }

    #[test]
    fn each_byte_of_a_path_becomes_a_character() {
        assert_eq!(
            latin1_path("/traits/%41%e2%98%83%0a"),
            "/traits/A\u{e2}\u{98}\u{83}"
        );
        assert_eq!(latin1_path("/traits/%ff%2"), "/traits/\u{ff}%2");
        assert_eq!(latin1_path("/traits/é"), "/traits/\u{c3}\u{a9}");
    }
}
