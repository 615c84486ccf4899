//! Parsing of request bodies: each error names the field, and unknown fields are rejected.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use placewright_http::{ApiError, ApiResult};
use serde_json::{Map, Value};

/// A JSON object whose fields are taken out one by one while it is parsed.
pub(crate) struct ObjectParser<'a> {
    path: Cow<'a, str>,
    map: &'a Map<String, Value>,
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
            other => Err(wrong(&path, "an object", other)),
        }
    }

    /// The path of one of its fields, for errors.
    pub(crate) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// A 400 about one of its fields.
    pub(crate) fn wrong(&self, key: &str, message: impl std::fmt::Display) -> ApiError {
        ApiError::field(&self.path_of(key), message)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// Takes a field of any type; none if it is missing.
    pub(crate) fn take(&mut self, key: &'a str) -> Option<&'a Value> {
        let value = self.map.get(key)?;
        self.taken.push(key);
        Some(value)
    }

    /// Takes a required field of any type.
    pub(crate) fn need(&mut self, key: &'a str) -> ApiResult<&'a Value> {
        match self.take(key) {
            Some(value) => Ok(value),
            None => Err(self.wrong(key, "it is missing")),
        }
    }

    /// Takes a required object.
    pub(crate) fn object(&mut self, key: &'a str) -> ApiResult<ObjectParser<'a>> {
        let value = self.need(key)?;
        ObjectParser::new(self.path_of(key), value)
    }

    /// Takes a text whose length in characters is within a range.
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
            .ok_or_else(|| wrong(&self.path_of(key), "a text", value))?;
        self.check_length(key, text, &length)?;
        Ok(Some(text))
    }

    fn check_length(&self, key: &str, text: &str, length: &RangeInclusive<usize>) -> ApiResult<()> {
        // A text has at most as many characters as bytes, and at least a quarter as many. So most
        // need not be counted.
        let (bytes, least) = (text.len(), *length.start());
        let fits_in_bytes = bytes <= *length.end() && bytes.div_ceil(4) >= least;
        if fits_in_bytes || length.contains(&text.chars().count()) {
            return Ok(());
        }
        let (least, most) = (length.start(), length.end());
        Err(self.wrong(key, format!("it must have {least} to {most} characters")))
    }

    /// Takes a text that may also be null.
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
    pub(crate) fn needed_text(
        &mut self,
        key: &'a str,
        length: RangeInclusive<usize>,
    ) -> ApiResult<&'a str> {
        let text = self.text(key, length)?;
        text.ok_or_else(|| self.wrong(key, "it is missing"))
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
                let (least, most) = (range.start(), range.end());
                let what = format!("a whole number from {least} to {most}");
                Err(wrong(&self.path_of(key), &what, value))
            }
        }
    }

    /// Takes a boolean, which may also be written as a text.
    pub(crate) fn boolean(&mut self, key: &'a str) -> ApiResult<Option<bool>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        match boolean(value) {
            Some(known) => Ok(Some(known)),
            None => Err(wrong(&self.path_of(key), "true or false", value)),
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
            Some(key) => Err(self.wrong(key, "there is no such field here")),
            None => Ok(()),
        }
    }
}

/// A list of at most `most` items.
pub(crate) fn list<'v>(path: &str, value: &'v Value, most: usize) -> ApiResult<&'v [Value]> {
    let all = value
        .as_array()
        .ok_or_else(|| wrong(path, "a list", value))?;
    if all.len() > most {
        let message = format!("it must have at most {most} items, not {}", all.len());
        return Err(ApiError::field(path, message));
    }
    Ok(all)
}

/// A boolean in any of the forms that clients write.
pub(crate) fn boolean(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(known) => Some(*known),
        Value::String(text) => parse_boolean(text),
        _ => None,
    }
}

/// A boolean written as a text.
pub(crate) fn parse_boolean(text: &str) -> Option<bool> {
    const TRUE: [&str; 6] = ["1", "t", "true", "on", "y", "yes"];
    const FALSE: [&str; 6] = ["0", "f", "false", "off", "n", "no"];
    let is_one = |names: &[&str]| names.iter().any(|name| text.eq_ignore_ascii_case(name));
    match (is_one(&TRUE), is_one(&FALSE)) {
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

/// An object of texts: metadata or extra specs.
pub(crate) fn texts(
    path: &str,
    value: &Value,
    check_key: impl Fn(&str) -> bool,
    value_max: usize,
) -> ApiResult<Vec<(String, String)>> {
    let Value::Object(map) = value else {
        return Err(wrong(path, "an object", value));
    };
    let mut texts = Vec::with_capacity(map.len());
    for (key, value) in map {
        let path = || format!("{path}[{key:?}]");
        if !check_key(key) {
            let message = "a key has 1 to 255 letters, digits, blanks and - _ : .";
            return Err(ApiError::field(&path(), message));
        }
        let text = value
            .as_str()
            .ok_or_else(|| wrong(&path(), "a text", value))?;
        if text.chars().count() > value_max {
            let message = format!("it must have at most {value_max} characters");
            return Err(ApiError::field(&path(), message));
        }
        texts.push((key.clone(), text.to_owned()));
    }
    Ok(texts)
}

/// Whether a text is a valid key of metadata or extra specs.
pub(crate) fn is_key(key: &str) -> bool {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.' | ' ');
    (1..=255).contains(&key.len()) && key.chars().all(is_fine)
}

/// A 400 about a value of the wrong type.
pub(crate) fn wrong(path: &str, expected: &str, found: &Value) -> ApiError {
    let mut shown = match found {
        // Not written out in full, because it would be truncated anyway.
        Value::Array(all) if !all.is_empty() => format!("a list of {}", all.len()),
        Value::Object(map) if !map.is_empty() => format!("an object of {}", map.len()),
        found => found.to_string(),
    };
    if shown.len() > 100 {
        let end = (0..=100).rev().find(|at| shown.is_char_boundary(*at));
        shown.truncate(end.unwrap_or(0));
        shown.push('…');
    }
    let path = if path.is_empty() { "the body" } else { path };
    ApiError::field(path, format!("it must be {expected}, not {shown}"))
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
        let mut fields = ObjectParser::of_body(&body).unwrap();
        let mut server = fields.object("server").unwrap();
        assert_eq!(
            message(server.name("name")),
            "server.name: it must not begin or end with blanks"
        );
        assert_eq!(
            message(server.integer("count", 1..=5)),
            "server.count: it must be a whole number from 1 to 5, not \"x\""
        );
        assert_eq!(
            message(server.boolean("on")),
            "server.on: it must be true or false, not 3"
        );
        assert_eq!(
            message(server.needed_text("id", 1..=3)),
            "server.id: it is missing"
        );
        assert_eq!(
            message(server.finish()),
            "server.more: there is no such field here"
        );
        assert!(fields.finish().is_ok());
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
            let mut fields = ObjectParser::of_body(&body).unwrap();
            let found = fields.text("a", 2..=3);
            assert_eq!(found.is_ok(), is_accepted, "{text}");
        }
        let body = json!({"a": "aé", "b": "", "c": "aaaaa"});
        let mut fields = ObjectParser::of_body(&body).unwrap();
        assert!(fields.text("a", 1..=2).is_ok());
        assert!(fields.text("b", 1..=2).is_err());
        assert!(fields.text("c", 1..=4).is_err());
    }

    #[test]
    fn numbers_and_booleans_may_be_texts() {
        let body = json!({"a": "7", "b": "Yes", "c": "off"});
        let mut fields = ObjectParser::of_body(&body).unwrap();
        assert_eq!(fields.integer("a", 0..=9).unwrap(), Some(7));
        assert_eq!(fields.boolean("b").unwrap(), Some(true));
        assert_eq!(fields.boolean("c").unwrap(), Some(false));
        assert_eq!(fields.boolean("d").unwrap(), None);
    }
}
