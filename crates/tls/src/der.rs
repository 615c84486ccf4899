//! The part of DER that is needed to read the validity of a certificate. Everything else in a
//! certificate is parsed and verified by webpki, which does not expose this one field.

/// A DER value: its tag, and the bytes of its content.
pub(crate) struct Value<'a> {
    pub(crate) tag: u8,
    pub(crate) content: &'a [u8],
}

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
/// The tag of a certificate's version, which is missing in version 1.
pub(crate) const CONTEXT_0: u8 = 0xa0;

/// Takes the first value from `bytes`; `None` if they do not begin with a complete one.
pub(crate) fn take_value<'a>(bytes: &mut &'a [u8]) -> Option<Value<'a>> {
    let (&tag, rest) = bytes.split_first()?;
    let (&length_byte, rest) = rest.split_first()?;
    let (length, rest) = match length_byte {
        0..=0x7f => (usize::from(length_byte), rest),
        // The length follows in up to three bytes: certificates are shorter than 16 MiB. An indefinite length
        // (0x80) is not DER.
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length_byte - 0x80))?;
            let append_digit = |length, digit: &u8| (length << 8) | usize::from(*digit);
            (digits.iter().fold(0, append_digit), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(Value { tag, content })
}

/// Takes the first value and returns its content; `None` if it has another tag.
pub(crate) fn take_value_with_tag<'a>(bytes: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    take_value(bytes)
        .filter(|value| value.tag == tag)
        .map(|value| value.content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_whole_or_not_at_all() {
        let long = [&[0x30, 0x82, 0x01, 0x00][..], &[7; 256]].concat();
        let mut bytes = &long[..];
        assert_eq!(
            take_value_with_tag(&mut bytes, SEQUENCE).map(<[u8]>::len),
            Some(256)
        );
        assert!(bytes.is_empty() && take_value(&mut bytes).is_none());
        for broken in [
            &[0x30][..],
            &[0x30, 1],
            &[0x30, 0x80, 0, 0],
            &[0x30, 0x84, 0, 0, 0, 1, 9],
            &[0x30, 0x82, 1],
            &long[..100],
        ] {
            let mut bytes = broken;
            assert!(take_value(&mut bytes).is_none(), "{broken:?}");
        }
        let mut bytes = &[0x02, 1, 5][..];
        assert!(take_value_with_tag(&mut bytes, SEQUENCE).is_none());
    }
}
