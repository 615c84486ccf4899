//! Dynamically typed values, compared and printed with the semantics of Python.
//!
//! Flavors, aggregates and hints have texts that operators wrote for Nova's filters, which are in
//! Python. In Python `"1_000"` is a number, `True` equals 1, and a list prints as `['a', 'b']`.
//! Whether a host passes can depend on such details, so this module has the same semantics.

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Whether a character separates words.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// A text without the white space around it.
#[must_use]
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// The words of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Removes underscores between digits; `None` if there is an underscore elsewhere.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_digit = |index: usize| bytes.get(index).is_some_and(u8::is_ascii_digit);
    let is_between_digits = |index: usize| index > 0 && is_digit(index - 1) && is_digit(index + 1);
    let is_misplaced = |(index, byte): (usize, &u8)| *byte == b'_' && !is_between_digits(index);
    if bytes.iter().enumerate().any(is_misplaced) {
        return None;
    }
    Some(text.replace('_', ""))
}

/// Parses a number as Python's `float(text)` does: surrounding white space, underscores, `inf` and `nan` are allowed.
/// `None` if the text is no number.
#[must_use]
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    without_underscores(strip(text))?.parse().ok()
}

/// Parses an integer as Python's `int(text)` does; `None` if the text is no integer. Values beyond 64 bits saturate.
#[must_use]
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let digits = without_underscores(strip(text))?;
    match digits.parse::<i64>() {
        Ok(number) => Some(number),
        Err(error) => match error.kind() {
            std::num::IntErrorKind::PosOverflow => Some(i64::MAX),
            std::num::IntErrorKind::NegOverflow => Some(i64::MIN),
            _ => None,
        },
    }
}

/// Python's truth value: false for null, zero and empty values.
#[must_use]
pub(crate) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// The number that a value is equal to: booleans are 0 or 1; `None` for other types.
fn as_number(value: &Value) -> Option<Number> {
    match value {
        Value::Bool(value) => Some(Number::from(i64::from(*value))),
        Value::Number(number) => Some(number.clone()),
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The order of two numbers, if they have one.
fn compare_numbers(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// Whether two values are equal. Numbers of different types are equal if their values are.
#[must_use]
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    if let (Some(left), Some(right)) = (as_number(left), as_number(right)) {
        return compare_numbers(&left, &right) == Some(Ordering::Equal);
    }
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let has_equal = |(key, value): (&String, &Value)| {
                right.get(key).is_some_and(|other| equal(value, other))
            };
            left.len() == right.len() && left.iter().all(has_equal)
        }
        _ => left == right,
    }
}

/// The order of two values; `None` for values that cannot be ordered.
#[must_use]
pub(crate) fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    if let (Some(left), Some(right)) = (as_number(left), as_number(right)) {
        return compare_numbers(&left, &right);
    }
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Array(left), Value::Array(right)) => {
            let different = left
                .iter()
                .zip(right)
                .find(|(left, right)| !equal(left, right));
            match different {
                Some((left, right)) => compare(left, right),
                None => Some(left.len().cmp(&right.len())),
            }
        }
        _ => None,
    }
}

/// A value as Python's `str(value)` prints it: a text without quotes, but texts inside lists with quotes.
#[must_use]
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        _ => {
            let mut out = String::new();
            print(value, &mut out);
            out
        }
    }
}

/// Prints a value as Python's `repr(value)` does, in which texts have quotes.
fn print(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => print_float(float, out),
            _ => {
                let _ = write!(out, "{number}");
            }
        },
        Value::String(text) => print_quoted(text, out),
        Value::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                print(element, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                print_quoted(key, out);
                out.push_str(": ");
                print(value, out);
            }
            out.push('}');
        }
    }
}

/// Prints the shortest digits that parse to the same number, with an exponent from 1e16 on and
/// below 1e-4.
fn print_float(float: f64, out: &mut String) {
    let magnitude = float.abs();
    if !float.is_finite() || magnitude == 0.0 || (1e-4..1e16).contains(&magnitude) {
        // Rust writes `NaN`, Python `nan`. Infinities are written alike.
        let text = format!("{float:?}");
        out.push_str(if float.is_nan() { "nan" } else { &text });
        return;
    }
    let text = format!("{float:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    let _ = write!(out, "{digits}e{sign}{exponent:0>2}");
}

/// Prints a text in quotes, with escapes, as Python's `repr(text)` does.
fn print_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if character == quote => {
                out.push('\\');
                out.push(character);
            }
            _ if character.is_control() && u32::from(character) < 0x100 => {
                let _ = write!(out, "\\x{:02x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push(quote);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_read_with_spaces_underscores_and_signs() {
        assert_eq!(parse_float(" 1_000.5 "), Some(1000.5));
        assert_eq!(parse_float("-inf"), Some(f64::NEG_INFINITY));
        assert_eq!(parse_float("1e3"), Some(1000.0));
        assert_eq!(parse_int("+1_0\n"), Some(10));
        assert_eq!(parse_int("99999999999999999999"), Some(i64::MAX));
        for wrong in ["", "_1", "1_", "1__0", "1 0", "ten", "0x10", "1."] {
            assert_eq!(parse_int(wrong), None, "{wrong:?}");
        }
        assert_eq!(parse_float("1._5"), None);
        assert_eq!(parse_float("1."), Some(1.0));
    }

    #[test]
    fn values_compare_by_value_and_across_number_types_only() {
        assert!(equal(&json!(1), &json!(true)) && equal(&json!([1.0]), &json!([1])));
        assert!(!equal(&json!("1"), &json!(1)) && !equal(&json!(null), &json!(false)));
        assert!(equal(
            &json!({"a": 1, "b": 2}),
            &json!({"b": 2.0, "a": true})
        ));
        assert_eq!(compare(&json!("b"), &json!("a")), Some(Ordering::Greater));
        assert_eq!(
            compare(&json!([1, 2]), &json!([1])),
            Some(Ordering::Greater)
        );
        assert_eq!(compare(&json!("1"), &json!(1)), None);
        assert_eq!(compare(&json!({}), &json!({})), None);
    }

    #[test]
    fn values_print_with_the_right_quotes_and_exponents() {
        let value = json!({"a": [1, 2.0, null, true, "it's"], "b": "say \"it's\"\n"});
        let expected = r#"{'a': [1, 2.0, None, True, "it's"], 'b': 'say "it\'s"\n'}"#;
        assert_eq!(text(&value), expected);
        assert_eq!(text(&json!("plain")), "plain");
        for (number, printed) in [
            (1e16, "1e+16"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (123456789012345.6, "123456789012345.6"),
            (1e300, "1e+300"),
            (-0.0, "-0.0"),
        ] {
            assert_eq!(text(&json!(number)), printed);
        }
    }
}
