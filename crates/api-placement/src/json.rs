//! A JSON parser.
//!
//! Bodies are parsed into [`Json`], which borrows its strings from the body. It distinguishes `1`
//! and `1.0`, because some responses repeat a number as the client wrote it.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value as Python's `json.loads` would interpret it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'a> {
    /// The JSON value `null`.
    Null,
    /// `true` or `false`; never an integer, unlike in Python.
    Bool(bool),
    /// A number without fraction and exponent that fits into an `i64`.
    Int(i64),
    /// A number with a fraction or an exponent, or one that is too large.
    Float(f64),
    /// A string, borrowed from the body if it has no escapes.
    Text(Cow<'a, str>),
    /// An array in the order of its items.
    Array(Vec<Json<'a>>),
    /// The members of an object, in the order in which their keys first occur. A repeated key has its last value.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// The most values of a body that is parsed without a limit of its own.
pub(crate) const VALUES_MAX: usize = 320_000;

/// Parses a body. Nesting is bounded by serde_json.
///
/// # Errors
///
/// The parser's message with line and column.
pub(crate) fn parse(body: &[u8]) -> Result<Json<'_>, String> {
    parse_bounded(body, VALUES_MAX).map_err(|error| match error {
        ParseError::Malformed(reason) => reason,
        ParseError::TooManyValues => format!("there are more than {VALUES_MAX} values"),
    })
}

/// Why a body cannot be parsed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ParseError {
    /// The body is not JSON: the parser's message with line and column.
    Malformed(String),
    /// The body has too many values. A value may take 2 bytes of a body (`0,`), and occupies 16 times as many in
    /// memory.
    TooManyValues,
}

/// Parses a body of fewer than `values_max` values: numbers, strings, arrays, objects and the like.
///
/// # Errors
///
/// [`ParseError`].
pub(crate) fn parse_bounded(body: &[u8], values_max: usize) -> Result<Json<'_>, ParseError> {
    let values_left = Cell::new(values_max);
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = ValueSeed(&values_left).deserialize(&mut deserializer);
    let value = value.and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| {
        if values_left.get() == 0 {
            ParseError::TooManyValues
        } else {
            ParseError::Malformed(error.to_string())
        }
    })
}

impl<'a> Json<'a> {
    /// The member called `key` of an object; none if the object lacks it, or if this is no object.
    pub(crate) fn get(&self, key: &str) -> Option<&Json<'a>> {
        self.members()
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// The members of an object; empty for other values.
    pub(crate) fn members(&self) -> &[(Cow<'a, str>, Json<'a>)] {
        match self {
            Json::Object(members) => members,
            _ => &[],
        }
    }

    /// The items of an array; empty for other values.
    pub(crate) fn items(&self) -> &[Json<'a>] {
        match self {
            Json::Array(items) => items,
            _ => &[],
        }
    }

    /// The text of a string, or none for other values.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a number without a fraction (`1` and `1.0` alike), or the nearest `i64` if it is larger; none for
    /// other values.
    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Json::Int(number) => Some(*number),
            // The cast saturates.
            Json::Float(number) if number.fract() == 0.0 => Some(*number as i64),
            _ => None,
        }
    }

    /// The value of a number; none for other values.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Json::Int(number) => Some(*number as f64),
            Json::Float(number) => Some(*number),
            _ => None,
        }
    }
}

/// Deserializes one value, and counts it against the limit of values.
#[derive(Clone, Copy)]
struct ValueSeed<'c>(&'c Cell<usize>);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        let values_left = self.0.get().saturating_sub(1);
        self.0.set(values_left);
        if values_left == 0 {
            return Err(serde::de::Error::custom("there are too many values"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Json<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(Json::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(i64::try_from(value).map_or(Json::Float(value as f64), Json::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json<'de>, E> {
        Ok(Json::Float(value))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json<'de>, A::Error> {
        let mut members = Members::default();
        while let Some(Key(key)) = access.next_key()? {
            members.set(key, access.next_value_seed(self)?);
        }
        Ok(Json::Object(members.members))
    }
}

/// The members of an object while it is parsed.
#[derive(Default)]
struct Members<'a> {
    members: Vec<(Cow<'a, str>, Json<'a>)>,
    /// The index of each key, only for large objects, in which linear searches would be quadratic.
    indexes: std::collections::HashMap<Cow<'a, str>, usize>,
}

/// From this number of keys on, a map is used to find repeated keys.
const LARGE_OBJECT_KEYS: usize = 16;

impl<'a> Members<'a> {
    /// Sets a member. A repeated key keeps its position and gets the new value, as in a Python dict.
    fn set(&mut self, key: Cow<'a, str>, value: Json<'a>) {
        let index = if self.members.len() < LARGE_OBJECT_KEYS {
            self.members.iter().position(|(name, _)| *name == key)
        } else {
            if self.indexes.is_empty() {
                let indexed = self.members.iter().enumerate();
                self.indexes = indexed
                    .map(|(index, (name, _))| (name.clone(), index))
                    .collect();
            }
            self.indexes.get(&key).copied()
        };
        match index {
            Some(index) => self.members[index].1 = value,
            None => {
                if !self.indexes.is_empty() {
                    self.indexes.insert(key.clone(), self.members.len());
                }
                self.members.push((key, value));
            }
        }
    }
}

/// The key of an object, borrowed if it has no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor<'a>(std::marker::PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for KeyVisitor<'a> {
            type Value = Key<'a>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Key<'a>, E> {
                Ok(Key(Cow::Borrowed(value)))
            }
            fn visit_str<E>(self, value: &str) -> Result<Key<'a>, E> {
                Ok(Key(Cow::Owned(value.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_how_they_were_written() {
        let value = parse(b"[1, 1.0, true, -3, 18446744073709551615, 1e2]").unwrap();
        assert_eq!(
            value.items(),
            [
                Json::Int(1),
                Json::Float(1.0),
                Json::Bool(true),
                Json::Int(-3),
                Json::Float(18_446_744_073_709_551_615.0),
                Json::Float(100.0),
            ]
        );
        let integers: Vec<_> = value.items().iter().map(Json::integer).collect();
        assert_eq!(
            integers,
            [Some(1), Some(1), None, Some(-3), Some(i64::MAX), Some(100)]
        );
    }

    #[test]
    fn the_last_value_of_a_repeated_key_is_used_also_in_large_objects() {
        let value = parse(br#"{"a": 1, "b": 2, "a": 3}"#).unwrap();
        assert_eq!(value.members().len(), 2);
        assert_eq!(value.get("a"), Some(&Json::Int(3)));
        let mut text = String::from("{");
        for round in 0..3 {
            for key in 0..100 {
                text.push_str(&format!("\"k{key}\": {},", round * 1000 + key));
            }
        }
        text.push_str("\"k0\": 7}");
        let value = parse(text.as_bytes()).unwrap();
        assert_eq!(value.members().len(), 100);
        assert_eq!(value.get("k0"), Some(&Json::Int(7)));
        assert_eq!(value.get("k99"), Some(&Json::Int(2099)));
    }

    #[test]
    fn malformed_json_is_rejected_as_by_python() {
        for body in [
            "",
            "{",
            "{\"a\": 1,}",
            "[1 2]",
            "nul",
            "\"\x01\"",
            "{} x",
            "\u{feff}{}",
        ] {
            assert!(parse(body.as_bytes()).is_err(), "{body:?}");
        }
        assert!(parse(b"\"\xff\"").is_err());
        assert!(
            parse("[".repeat(100_000).as_bytes()).is_err(),
            "nesting is bounded"
        );
    }

    #[test]
    fn a_body_with_too_many_values_is_rejected() {
        // The body has 101 values: the array and 100 numbers.
        let body = format!("[{}0]", "0,".repeat(99));
        assert!(parse_bounded(body.as_bytes(), 102).is_ok());
        assert_eq!(
            parse_bounded(body.as_bytes(), 101),
            Err(ParseError::TooManyValues)
        );
        assert!(matches!(
            parse_bounded(b"[0", 102),
            Err(ParseError::Malformed(_))
        ));
    }
}
