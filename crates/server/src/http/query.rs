//! Query strings, split and decoded as by the reference's framework.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::http::json::Json;

/// The most parameters of a query; looking up repeated ones takes quadratic time.
const PAIRS_MAX: usize = 1000;

/// The decoded parameters of a query in their order.
#[derive(Debug, Default)]
pub(crate) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Splits at `&` and `;`, takes `+` for a space, and decodes percent signs where two
    /// hexadecimal digits follow.
    ///
    /// # Errors
    ///
    /// A message when a key or value is not UTF-8, or when there are too many parameters.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let mut pairs = Vec::new();
        for pair in text.split(['&', ';']).filter(|pair| !pair.is_empty()) {
            if pairs.len() == PAIRS_MAX {
                return Err(format!("there are more than {PAIRS_MAX} parameters"));
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode(key)?, decode(value)?));
        }
        Ok(Self(pairs))
    }

    /// The value of a key; the last one if it is repeated.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_ref())
    }

    /// All values of a key.
    pub(crate) fn all<'b>(&'b self, key: &'b str) -> impl Iterator<Item = &'b str> {
        self.0
            .iter()
            .filter(move |(name, _)| name == key)
            .map(|(_, value)| value.as_ref())
    }

    /// All parameters as pairs of key and value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    /// The query as a JSON object of strings, for validation.
    pub(crate) fn as_json(&self) -> Json<'_> {
        let mut members: Vec<(Cow<'_, str>, Json<'_>)> = Vec::with_capacity(self.0.len());
        let mut places: HashMap<&str, usize> = HashMap::with_capacity(self.0.len());
        for (key, value) in self.iter() {
            let value = Json::Text(Cow::Borrowed(value));
            match places.entry(key) {
                Entry::Occupied(place) => members[*place.get()].1 = value,
                Entry::Vacant(place) => {
                    place.insert(members.len());
                    members.push((Cow::Borrowed(key), value));
                }
            }
        }
        Json::Object(members)
    }
}

/// Decodes one key or value of a query.
fn decode(text: &str) -> Result<Cow<'_, str>, String> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+') {
        return Ok(Cow::Borrowed(text));
    }
    let spaced: Vec<u8> = text
        .bytes()
        .map(|byte| if byte == b'+' { b' ' } else { byte })
        .collect();
    match String::from_utf8(unquote(&spaced)) {
        Ok(decoded) => Ok(Cow::Owned(decoded)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let byte = error.as_bytes()[at];
            Err(format!(
                "'utf-8' codec can't decode byte 0x{byte:02x} in position {at}"
            ))
        }
    }
}

/// Replaces `%` and two hexadecimal digits by their byte; other percent signs stay.
pub(crate) fn unquote(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = (bytes[at] == b'%').then(|| {
            let high = hex(*bytes.get(at + 1)?)?;
            let low = hex(*bytes.get(at + 2)?)?;
            Some(high << 4 | low)
        });
        match pair.flatten() {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_and_decoded() {
        let query = Query::parse("a=1&b=x%2Cy;c&&a=2+3&d=%zz%&e=a=b&%e2%98%83=%E2%98%83").unwrap();
        let pairs: Vec<_> = query.iter().collect();
        assert_eq!(
            pairs,
            [
                ("a", "1"),
                ("b", "x,y"),
                ("c", ""),
                ("a", "2 3"),
                ("d", "%zz%"),
                ("e", "a=b"),
                ("☃", "☃")
            ]
        );
        assert_eq!(query.get("a"), Some("2 3"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2 3"]);
        assert_eq!(query.get("z"), None);
        assert_eq!(query.as_json().members().len(), 6);
        assert!(Query::parse("a=%ff").is_err());
        assert_eq!(Query::parse("").unwrap().iter().count(), 0);
    }
}
