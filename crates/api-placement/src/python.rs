//! Reimplementations of a few Python built-ins whose behaviour clients of Placement can observe.
//!
//! The reference parses numbers of a query with `int()`, and prints rejected values with `repr()`.

use placewright_http::json::repr_float;

use crate::json::Json;

/// The code points of the zeros among Unicode's decimal digits (category Nd); the nine code points
/// after each zero are the other digits.
const DIGIT_ZEROS: [u32; 66] = [
    0x30, 0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66,
    0xDE6, 0xE50, 0xED0, 0xF20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90,
    0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
    0x104A0, 0x10D30, 0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0, 0x11650,
    0x116C0, 0x11730, 0x118E0, 0x11950, 0x11C50, 0x11D50, 0x11DA0, 0x16A60, 0x16AC0, 0x16B50,
    0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6, 0x1E140, 0x1E2F0, 0x1E950, 0x1FBF0,
];

/// The value of a decimal digit of any script; none for any other character.
fn digit_value(character: char) -> Option<u8> {
    if character.is_ascii() {
        return character
            .to_digit(10)
            .and_then(|value| u8::try_from(value).ok());
    }
    let code = u32::from(character);
    let index = DIGIT_ZEROS
        .partition_point(|&zero| zero <= code)
        .checked_sub(1)?;
    u8::try_from(code - DIGIT_ZEROS[index])
        .ok()
        .filter(|&value| value < 10)
}

/// `str.strip()`: unlike `str::trim` it also removes the four separators U+001C to U+001F.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// `int(text)`: it accepts surrounding white space, a sign, digits of any script, and single
/// underscores between digits. None for any other text.
///
/// A number too large for `i128` becomes the nearest `i128`: it is beyond all limits either way.
pub(crate) fn int(text: &str) -> Option<i128> {
    // Almost all numbers are plain ASCII digits, and fit.
    if text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let text = strip(text);
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut value: i128 = 0;
    let mut is_after_digit = false;
    for character in digits.chars() {
        if character == '_' && is_after_digit {
            is_after_digit = false;
            continue;
        }
        let digit = digit_value(character)?;
        value = value.saturating_mul(10).saturating_add(i128::from(digit));
        is_after_digit = true;
    }
    is_after_digit.then_some(if is_negative { -value } else { value })
}

/// `repr()` of the Python object that `json.loads` would have made of a value, truncated if it is long.
pub(crate) fn repr(value: &Json<'_>) -> String {
    let mut output = String::new();
    if write(&mut output, value).is_err() {
        output.push_str("...");
    }
    output
}

/// `repr()` of a string, truncated if it is long.
pub(crate) fn repr_str(text: &str) -> String {
    let mut output = String::new();
    if write_str(&mut output, text).is_err() {
        output.push_str("...");
    }
    output
}

/// The longest part of a client's value that an error repeats, in bytes.
const SHOWN_BYTES_MAX: usize = 2000;

/// The text has reached its maximum length, so that writing stops.
struct LengthReached;

fn push(output: &mut String, text: &str) -> Result<(), LengthReached> {
    output.push_str(text);
    if output.len() > SHOWN_BYTES_MAX {
        Err(LengthReached)
    } else {
        Ok(())
    }
}

fn write_str(output: &mut String, text: &str) -> Result<(), LengthReached> {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    output.push(quote);
    for character in text.chars() {
        match character {
            '\\' => push(output, "\\\\")?,
            '\n' => push(output, "\\n")?,
            '\r' => push(output, "\\r")?,
            '\t' => push(output, "\\t")?,
            _ if character == quote => {
                output.push('\\');
                output.push(character);
            }
            _ if character.is_control() => {
                push(output, &format!("\\x{:02x}", u32::from(character)))?;
            }
            _ => push(output, character.encode_utf8(&mut [0; 4]))?,
        }
    }
    output.push(quote);
    Ok(())
}

fn write(output: &mut String, value: &Json<'_>) -> Result<(), LengthReached> {
    match value {
        Json::Null => push(output, "None"),
        Json::Bool(true) => push(output, "True"),
        Json::Bool(false) => push(output, "False"),
        Json::Int(number) => push(output, &number.to_string()),
        Json::Float(number) => push(output, &repr_float(*number)),
        Json::Text(text) => write_str(output, text),
        Json::Array(items) => {
            output.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    push(output, ", ")?;
                }
                write(output, item)?;
            }
            push(output, "]")
        }
        Json::Object(members) => {
            output.push('{');
            for (index, (key, item)) in members.iter().enumerate() {
                if index > 0 {
                    push(output, ", ")?;
                }
                write_str(output, key)?;
                push(output, ": ")?;
                write(output, item)?;
            }
            push(output, "}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn int_accepts_what_python_accepts() {
        for (text, expected) in [
            ("1", Some(1)),
            (" 1\n", Some(1)),
            ("\u{1f}7", Some(7)),
            ("+1", Some(1)),
            ("-2", Some(-2)),
            ("1_0", Some(10)),
            ("01", Some(1)),
            ("٣", Some(3)),
            ("𝟙𝟘", Some(10)),
            ("", None),
            ("_1", None),
            ("1_", None),
            ("1__0", None),
            ("+ 1", None),
            ("1.0", None),
            ("0x1", None),
            ("½", None),
        ] {
            assert_eq!(int(text), expected, "{text:?}");
        }
        assert_eq!(int(&"9".repeat(60)), Some(i128::MAX));
    }

    #[test]
    fn repr_uses_double_quotes_only_around_single_ones() {
        assert_eq!(repr_str("a'b"), "\"a'b\"");
        assert_eq!(repr_str("a'b\""), "'a\\'b\"'");
        assert_eq!(repr_str("a\nb\u{1}"), "'a\\nb\\x01'");
    }
}
