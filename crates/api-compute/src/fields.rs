//! Parsing of the fields of request bodies: each error names the field, and unknown fields are rejected.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use placewright_http::{ApiError, ApiResult};
use serde_json::{Map, Value};

/// Parses a JSON object field by field. [`Self::finish`] rejects the object if it has other fields.
pub(crate) struct ObjectParser<'a> {
    path: Cow<'a, str>,
    map: &'a Map<String, Value>,
    /// The keys of the fields that were parsed.
    taken: Vec<&'a str>,
}

impl<'a> ObjectParser<'a> {
    /// Starts with the top-level object of a body.
    pub(crate) fn of_body(body: &'a Value) -> ApiResult<Self> {
        Self::new("", body)
    }

    /// Starts with an object. Errors name its path within the body; the path of the body itself is
    /// empty.
    pub(crate) fn new(path: impl Into<Cow<'a, str>>, value: &'a Value) -> ApiResult<Self> {
        let path = path.into();
        match value {
            Value::Object(map) => Ok(Self {
                path,
                map,
                taken: Vec::with_capacity(map.len()),
            }),
            other => Err(type_error(&path, "an object", other)),
        }
    }

    /// The path of a field of the object, for errors.
    pub(crate) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// A 400 about a field of the object.
    pub(crate) fn field_error(&self, key: &str, message: impl std::fmt::Display) -> ApiError {
        ApiError::field(&self.path_of(key), message)
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// Takes a field of any type; `None` if the field is missing.
    pub(crate) fn take(&mut self, key: &'a str) -> Option<&'a Value> {
        let value = self.map.get(key)?;
        self.taken.push(key);
        Some(value)
    }

    /// Takes a required field of any type.
    pub(crate) fn take_required(&mut self, key: &'a str) -> ApiResult<&'a Value> {
        match self.take(key) {
            Some(value) => Ok(value),
            None => Err(self.field_error(key, "it is missing")),
        }
    }

    /// Takes a required object.
    pub(crate) fn object(&mut self, key: &'a str) -> ApiResult<ObjectParser<'a>> {
        let value = self.take_required(key)?;
        ObjectParser::new(self.path_of(key), value)
    }

    /// Takes a text whose length in characters is within a range; `None` if the field is missing.
    pub(crate) fn text(
        &mut self,
        key: &'a str,
        length: RangeInclusive<usize>,
    ) -> ApiResult<Option<&'a str>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let text = value
            .as_str()
            .ok_or_else(|| type_error(&self.path_of(key), "a text", value))?;
        self.check_length(key, text, &length)?;
        Ok(Some(text))
    }

    fn check_length(&self, key: &str, text: &str, length: &RangeInclusive<usize>) -> ApiResult<()> {
        // A text has at most as many characters as bytes, and at least a quarter as many. So the
        // characters of most texts need not be counted.
        let (bytes, chars_min) = (text.len(), *length.start());
        let certainly_fits = bytes <= *length.end() && bytes.div_ceil(4) >= chars_min;
        if certainly_fits || length.contains(&text.chars().count()) {
            return Ok(());
        }
        let (min, max) = (length.start(), length.end());
        Err(self.field_error(key, format!("it must have {min} to {max} characters")))
    }

    /// Takes a text that may also be null: null is `Some(None)`, a missing field is `None`.
    pub(crate) fn nullable_text(
        &mut self,
        key: &'a str,
        length: RangeInclusive<usize>,
    ) -> ApiResult<Option<Option<&'a str>>> {
        match self.map.get(key) {
            Some(Value::Null) => {
                self.taken.push(key);
                Ok(Some(None))
            }
            _ => Ok(self.text(key, length)?.map(Some)),
        }
    }

    /// Takes a required text.
    pub(crate) fn required_text(
        &mut self,
        key: &'a str,
        length: RangeInclusive<usize>,
    ) -> ApiResult<&'a str> {
        let text = self.text(key, length)?;
        text.ok_or_else(|| self.field_error(key, "it is missing"))
    }

    /// Takes a name: without blanks at its ends, and with printable characters only.
    pub(crate) fn name(&mut self, key: &'a str) -> ApiResult<Option<&'a str>> {
        let Some(name) = self.text(key, 1..=255)? else {
            return Ok(None);
        };
        check_name(&self.path_of(key), name)?;
        Ok(Some(name))
    }

    /// Takes an integer, which may also be written as a text.
    pub(crate) fn integer(
        &mut self,
        key: &'a str,
        range: RangeInclusive<i64>,
    ) -> ApiResult<Option<i64>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let number = match value {
            Value::Number(number) => number.as_i64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        match number {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let (min, max) = (range.start(), range.end());
                let expected = format!("a whole number from {min} to {max}");
                Err(type_error(&self.path_of(key), &expected, value))
            }
        }
    }

    /// Takes a boolean, which may also be written as a text.
    pub(crate) fn boolean(&mut self, key: &'a str) -> ApiResult<Option<bool>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        match json_boolean(value) {
            Some(flag) => Ok(Some(flag)),
            None => Err(type_error(&self.path_of(key), "true or false", value)),
        }
    }

    /// Rejects the object if it has fields that were not taken.
    pub(crate) fn finish(self) -> ApiResult<()> {
        if self.taken.len() == self.map.len() {
            return Ok(());
        }
        let unknown = self
            .map
            .keys()
            .find(|key| !self.taken.contains(&key.as_str()));
        match unknown {
            Some(key) => Err(self.field_error(key, "there is no such field here")),
            None => Ok(()),
        }
    }
}

/// The items of a JSON list, which may have at most `items_max`.
pub(crate) fn parse_list<'v>(
    path: &str,
    value: &'v Value,
    items_max: usize,
) -> ApiResult<&'v [Value]> {
    let items = value
        .as_array()
        .ok_or_else(|| type_error(path, "a list", value))?;
    if items.len() > items_max {
        let message = format!(
            "it must have at most {items_max} items, not {}",
            items.len()
        );
        return Err(ApiError::field(path, message));
    }
    Ok(items)
}

/// A boolean in any of the forms that clients write.
pub(crate) fn json_boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => parse_boolean(text),
        _ => None,
    }
}

/// A boolean written as a text.
pub(crate) fn parse_boolean(text: &str) -> Option<bool> {
    const TRUE: [&str; 6] = ["1", "t", "true", "on", "y", "yes"];
    const FALSE: [&str; 6] = ["0", "f", "false", "off", "n", "no"];
    let matches_any = |names: &[&str]| names.iter().any(|name| text.eq_ignore_ascii_case(name));
    match (matches_any(&TRUE), matches_any(&FALSE)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

/// Checks a name's characters.
pub(crate) fn check_name(path: &str, name: &str) -> ApiResult<()> {
    if name.trim() != name {
        return Err(ApiError::field(
            path,
            "it must not begin or end with blanks",
        ));
    }
    if name.chars().any(char::is_control) {
        return Err(ApiError::field(
            path,
            "it must have printable characters only",
        ));
    }
    Ok(())
}

/// Parses an object whose values are texts: metadata or extra specs. Keys that `is_valid_key` does not accept
/// are rejected.
pub(crate) fn parse_texts(
    path: &str,
    value: &Value,
    is_valid_key: impl Fn(&str) -> bool,
    value_chars_max: usize,
) -> ApiResult<Vec<(String, String)>> {
    let Value::Object(map) = value else {
        return Err(type_error(path, "an object", value));
    };
    let mut texts = Vec::with_capacity(map.len());
    for (key, value) in map {
        let path = || format!("{path}[{key:?}]");
        if !is_valid_key(key) {
            let message = "a key has 1 to 255 letters, digits, blanks and - _ : .";
            return Err(ApiError::field(&path(), message));
        }
        let text = value
            .as_str()
            .ok_or_else(|| type_error(&path(), "a text", value))?;
        if text.chars().count() > value_chars_max {
            let message = format!("it must have at most {value_chars_max} characters");
            return Err(ApiError::field(&path(), message));
        }
        texts.push((key.clone(), text.to_owned()));
    }
    Ok(texts)
}

/// Whether a text is a valid key of metadata or extra specs.
pub(crate) fn is_key(key: &str) -> bool {
    let is_allowed =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.' | ' ');
    (1..=255).contains(&key.len()) && key.chars().all(is_allowed)
}

/// A 400 about a value of the wrong type.
pub(crate) fn type_error(path: &str, expected: &str, value: &Value) -> ApiError {
    let mut value_text = match value {
        // Only the length is shown, because the whole would be truncated.
        Value::Array(items) if !items.is_empty() => format!("a list of {}", items.len()),
        Value::Object(map) if !map.is_empty() => format!("an object of {}", map.len()),
        value => value.to_string(),
    };
    if value_text.len() > 100 {
        let end = (0..=100)
            .rev()
            .find(|index| value_text.is_char_boundary(*index));
        value_text.truncate(end.unwrap_or(0));
        value_text.push('…');
    }
    let path = if path.is_empty() { "the body" } else { path };
    ApiError::field(path, format!("it must be {expected}, not {value_text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message<T: std::fmt::Debug>(result: ApiResult<T>) -> String {
        result.unwrap_err().detail().to_owned()
    }

    #[test]
    fn errors_name_the_field() {
        let body = json!({"server": {"name": " a", "count": "x", "on": 3, "more": 1}});
        let mut body_parser = ObjectParser::of_body(&body).unwrap();
        let mut server_parser = body_parser.object("server").unwrap();
        assert_eq!(
            message(server_parser.name("name")),
            "server.name: it must not begin or end with blanks"
        );
        assert_eq!(
            message(server_parser.integer("count", 1..=5)),
            "server.count: it must be a whole number from 1 to 5, not \"x\""
        );
        assert_eq!(
            message(server_parser.boolean("on")),
            "server.on: it must be true or false, not 3"
        );
        assert_eq!(
            message(server_parser.required_text("id", 1..=3)),
            "server.id: it is missing"
        );
        assert_eq!(
            message(server_parser.finish()),
            "server.more: there is no such field here"
        );
        assert!(body_parser.finish().is_ok());
        let body = json!([]);
        assert_eq!(
            message(ObjectParser::of_body(&body).map(|_| ())),
            "the body: it must be an object, not []"
        );
    }

    #[test]
    fn the_length_of_a_text_is_in_characters() {
        let lengths = [
            ("a", false),
            ("é", false),
            ("😀", false),
            ("éé", true),
            ("é😀", true),
            ("😀😀😀", true),
            ("😀😀😀😀", false),
        ];
        for (text, is_accepted) in lengths {
            let body = json!({ "a": text });
            let mut body_parser = ObjectParser::of_body(&body).unwrap();
            let text_or_error = body_parser.text("a", 2..=3);
            assert_eq!(text_or_error.is_ok(), is_accepted, "{text}");
        }
        let body = json!({"a": "aé", "b": "", "c": "aaaaa"});
        let mut body_parser = ObjectParser::of_body(&body).unwrap();
        assert!(body_parser.text("a", 1..=2).is_ok());
        assert!(body_parser.text("b", 1..=2).is_err());
        assert!(body_parser.text("c", 1..=4).is_err());
    }

    #[test]
    fn numbers_and_booleans_may_be_texts() {
        let body = json!({"a": "7", "b": "Yes", "c": "off"});
        let mut body_parser = ObjectParser::of_body(&body).unwrap();
        assert_eq!(body_parser.integer("a", 0..=9).unwrap(), Some(7));
        assert_eq!(body_parser.boolean("b").unwrap(), Some(true));
        assert_eq!(body_parser.boolean("c").unwrap(), Some(false));
        assert_eq!(body_parser.boolean("d").unwrap(), None);
    }
}
