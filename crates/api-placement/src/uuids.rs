//! The forms of UUIDs that clients may send. Different parts of a request allow different forms.

use uuid::Uuid;

/// Parses the canonical form of a UUID: lower case with dashes. None for any other text: paths and keys allow no other
/// form.
pub(crate) fn parse_canonical(text: &str) -> Option<Uuid> {
    let bytes = text.as_bytes();
    if bytes.len() != 36 || bytes.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    Uuid::try_parse(text).ok()
}

/// The 32 hexadecimal digits of a UUID, without the prefixes, braces and dashes that the reference's
/// body validation ignores; none for other texts.
fn hex_digits(text: &str) -> Option<String> {
    let text = text.replace("urn:", "").replace("uuid:", "");
    let text = text.trim_matches(['{', '}']).replace('-', "");
    (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(text)
}

/// Whether a text is accepted as a UUID in a body, and in those parameters of a query whose form the schema
/// does not check: also in upper case, without dashes, in braces, or with `urn:uuid:`.
pub(crate) fn is_uuid_like(text: &str) -> bool {
    parse_canonical(text).is_some() || hex_digits(text).is_some()
}

/// Parses a UUID in any form that [`is_uuid_like`] accepts; none for any other text.
pub(crate) fn parse_any_form(text: &str) -> Option<Uuid> {
    parse_canonical(text).or_else(|| Uuid::try_parse(&hex_digits(text)?).ok())
}

/// Whether a text is accepted as a UUID by the schema of a query, which demands the dashes.
pub(crate) fn is_dashed_uuid(text: &str) -> bool {
    let dashed = [8, 13, 18, 23]
        .iter()
        .all(|&index| text.as_bytes().get(index) == Some(&b'-'));
    dashed && is_uuid_like(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_request_accepts_its_own_forms() {
        const PLAIN: &str = "1234567890abcdef1234567890abcdef";
        const DASHED: &str = "12345678-90ab-cdef-1234-567890abcdef";
        let upper = DASHED.to_uppercase();
        let braces = format!("{{{DASHED}}}");
        let urn = format!("urn:uuid:{DASHED}");
        for (text, is_canonical, is_like, is_dashed) in [
            (DASHED, true, true, true),
            (&upper, false, true, true),
            (PLAIN, false, true, false),
            (&braces, false, true, false),
            (&urn, false, true, false),
            ("12345678-90ab-cdef-1234-567890abcde", false, false, false),
            ("------------------------------------", false, false, false),
            ("", false, false, false),
        ] {
            assert_eq!(parse_canonical(text).is_some(), is_canonical, "{text}");
            assert_eq!(is_uuid_like(text), is_like, "{text}");
            assert_eq!(is_dashed_uuid(text), is_dashed, "{text}");
            assert_eq!(parse_any_form(text).is_some(), is_like, "{text}");
        }
        assert_eq!(parse_any_form(PLAIN), parse_canonical(DASHED));
    }
}
