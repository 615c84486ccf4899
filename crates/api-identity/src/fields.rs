//! Parsing of the fields of request bodies: each error names the field, and unknown fields are rejected.

use std::borrow::Cow;

use placewright_conductor::accounts::DEFAULT_DOMAIN;
use placewright_http::{ApiError, ApiResult};
use serde_json::{Map, Value};

/// The longest name of a user, project or role, in characters.
const NAME_CHARS_MAX: usize = 255;
/// The longest other text, in characters.
const TEXT_CHARS_MAX: usize = 1024;
/// The longest password or secret, in bytes.
const PASSWORD_BYTES_MAX: usize = 4096;

/// Parses a JSON object field by field. [`Self::finish`] rejects the object if it has other fields.
pub(crate) struct Fields<'a> {
    /// The path of the object within the body; empty for the body itself.
    path: Cow<'a, str>,
    map: &'a Map<String, Value>,
    /// The names of the fields that were taken.
    taken: Vec<&'a str>,
}

impl<'a> Fields<'a> {
    /// Begins to parse an object. Errors name its path within the body; the path of the body itself is empty.
    pub(crate) fn new(path: impl Into<Cow<'a, str>>, value: &'a Value) -> ApiResult<Self> {
        let path = path.into();
        match value {
            Value::Object(map) => Ok(Self {
                path,
                map,
                taken: Vec::with_capacity(map.len()),
            }),
            _ => Err(ApiError::field(&path, "it must be an object")),
        }
    }

    fn path_of(&self, key: &str) -> String {
        match self.path.is_empty() {
            true => key.to_owned(),
            false => format!("{}.{key}", self.path),
        }
    }

    /// A 400 about a field of the object.
    pub(crate) fn error(&self, key: &str, message: impl std::fmt::Display) -> ApiError {
        ApiError::field(&self.path_of(key), message)
    }

    /// Takes a field of any type; `None` if it is missing or null.
    pub(crate) fn take(&mut self, key: &'a str) -> Option<&'a Value> {
        let value = self.map.get(key)?;
        self.taken.push(key);
        (!value.is_null()).then_some(value)
    }

    /// Whether the object has a field, which may be null.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// Takes an object; `None` if the field is missing or null.
    pub(crate) fn object(&mut self, key: &'a str) -> ApiResult<Option<Fields<'a>>> {
        let path = self.path_of(key);
        self.take(key)
            .map(|value| Fields::new(path, value))
            .transpose()
    }

    /// Takes a required object.
    pub(crate) fn required_object(&mut self, key: &'a str) -> ApiResult<Fields<'a>> {
        let object = self.object(key)?;
        object.ok_or_else(|| self.error(key, "it is missing"))
    }

    fn text_within(&mut self, key: &'a str, chars_max: usize) -> ApiResult<Option<&'a str>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let text = value
            .as_str()
            .ok_or_else(|| self.error(key, "it must be a text"))?;
        if text.len() > chars_max && text.chars().count() > chars_max {
            return Err(self.error(key, format!("it must have at most {chars_max} characters")));
        }
        Ok(Some(text))
    }

    /// Takes a text; `None` if the field is missing or null.
    pub(crate) fn text(&mut self, key: &'a str) -> ApiResult<Option<&'a str>> {
        self.text_within(key, TEXT_CHARS_MAX)
    }

    /// Takes a name, which has to be printable and not empty, without blanks at its ends; `None` if the field is
    /// missing or null.
    pub(crate) fn name(&mut self, key: &'a str) -> ApiResult<Option<&'a str>> {
        let Some(name) = self.text_within(key, NAME_CHARS_MAX)? else {
            return Ok(None);
        };
        if name.trim() != name || name.is_empty() || name.chars().any(char::is_control) {
            return Err(self.error(key, "it must be printable, without blanks at its ends"));
        }
        Ok(Some(name))
    }

    /// Takes a required name.
    pub(crate) fn required_name(&mut self, key: &'a str) -> ApiResult<&'a str> {
        let name = self.name(key)?;
        name.ok_or_else(|| self.error(key, "it is missing"))
    }

    /// Takes a password or another secret; `None` if the field is missing or null. Errors do not show it.
    pub(crate) fn password(&mut self, key: &'a str) -> ApiResult<Option<&'a str>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        match value.as_str() {
            Some(text) if (1..=PASSWORD_BYTES_MAX).contains(&text.len()) => Ok(Some(text)),
            _ => Err(self.error(
                key,
                format!("it must be a text of 1 to {PASSWORD_BYTES_MAX} bytes"),
            )),
        }
    }

    /// Takes a boolean; `None` if the field is missing or null.
    pub(crate) fn boolean(&mut self, key: &'a str) -> ApiResult<Option<bool>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.error(key, "it must be true or false")),
        }
    }

    /// Takes a list of at most `items_max` items; `None` if the field is missing or null.
    pub(crate) fn list(
        &mut self,
        key: &'a str,
        items_max: usize,
    ) -> ApiResult<Option<&'a [Value]>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Array(items)) if items.len() <= items_max => Ok(Some(items)),
            Some(_) => {
                let message = format!("it must be a list of at most {items_max} items");
                Err(self.error(key, message))
            }
        }
    }

    /// Takes the id of a domain, which has to be that of the only domain, unless the field is missing or null.
    pub(crate) fn domain_id(&mut self, key: &'a str) -> ApiResult<()> {
        match self.text(key)? {
            None | Some(DEFAULT_DOMAIN) => Ok(()),
            Some(_) => Err(self.error(key, "the only domain is default")),
        }
    }

    /// Takes the options of a resource, which have to be an empty object, null or missing.
    pub(crate) fn no_options(&mut self, key: &'a str) -> ApiResult<()> {
        match self.take(key) {
            None => Ok(()),
            Some(Value::Object(map)) if map.is_empty() => Ok(()),
            Some(_) => Err(self.error(key, "there are no options here")),
        }
    }

    /// Rejects the object if it has fields that were not taken.
    pub(crate) fn finish(self) -> ApiResult<()> {
        let unknown = self
            .map
            .keys()
            .find(|key| !self.taken.contains(&key.as_str()));
        match unknown {
            Some(key) => Err(self.error(key, "there is no such field here")),
            None => Ok(()),
        }
    }
}
