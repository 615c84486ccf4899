//! Texts that represent numbers and booleans, and values that callers may write as either.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A value of an extra spec or an image property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    List(Vec<Value>),
    /// An object. The few image properties with objects do not influence scheduling.
    Object,
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("text, a whole number or a boolean")
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Object)
    }
}

/// A text. Numbers and booleans are accepted too.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Text(text) => Ok(Self(text)),
            Value::List(_) | Value::Object => Err(serde::de::Error::custom(
                "expected text, a whole number or a boolean",
            )),
        }
    }
}

/// Reads an object whose values are texts.
pub(crate) fn map_of_texts<'de, D>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    let read = BTreeMap::<String, Text>::deserialize(deserializer)?;
    Ok(read.into_iter().map(|(key, text)| (key, text.0)).collect())
}

/// Reads an object whose values are lists of texts, or single texts.
pub(crate) fn map_of_lists<'de, D>(
    deserializer: D,
) -> Result<BTreeMap<String, Vec<String>>, D::Error>
where
    D: Deserializer<'de>,
{
    let read = BTreeMap::<String, TextOrList>::deserialize(deserializer)?;
    Ok(read
        .into_iter()
        .map(|(key, texts)| (key, texts.0))
        .collect())
}

/// A list of texts, or a single text.
struct TextOrList(Vec<String>);

impl<'de> Deserialize<'de> for TextOrList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || serde::de::Error::custom("expected text or a list of texts");
        let items = match Value::deserialize(deserializer)? {
            Value::Text(text) => return Ok(Self(vec![text])),
            Value::List(items) => items,
            Value::Object => return Err(wrong()),
        };
        let texts = items.into_iter().map(|item| match item {
            Value::Text(text) => Ok(text),
            Value::List(_) | Value::Object => Err(wrong()),
        });
        Ok(Self(texts.collect::<Result<_, _>>()?))
    }
}

/// Parses a boolean. Every text that does not represent true is false.
///
/// Source: how Nova reads booleans in extra specs and image properties (oslo.utils).
#[must_use]
pub fn means_true(text: &str) -> bool {
    let text = text.trim().to_lowercase();
    matches!(&*text, "1" | "t" | "true" | "on" | "y" | "yes")
}

/// Parses an integer as Python's `int` does: surrounding blanks, a sign, `_` between digits. `None` if the text is no
/// integer.
///
/// Values out of range saturate.
#[must_use]
pub fn whole_number(text: &str) -> Option<i64> {
    let text = text.trim();
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let mut number = 0_i64;
    let mut after_digit = false;
    for byte in digits.bytes() {
        match byte {
            b'0'..=b'9' => {
                let digit = i64::from(byte - b'0');
                number = number.saturating_mul(10).saturating_add(digit);
                after_digit = true;
            }
            b'_' if after_digit => after_digit = false,
            _ => return None,
        }
    }
    after_digit.then_some(if is_negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_as_python_reads_them() {
        let cases = [
            ("7", Some(7)),
            (" +1_0 ", Some(10)),
            ("-3", Some(-3)),
            ("", None),
            ("1__0", None),
            ("1_", None),
            ("_1", None),
            ("1.0", None),
            ("0x1", None),
            ("99999999999999999999", Some(i64::MAX)),
        ];
        for (text, number) in cases {
            assert_eq!(whole_number(text), number, "{text:?}");
        }
    }
}
