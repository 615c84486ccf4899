//! The query of a request.

use crate::error::{ApiError, ApiResult};
use crate::fields::parse_boolean;
use crate::time;
use placewright_placement::Timestamp;

/// More parameters no query has.
const PAIRS_MAX: usize = 1000;

/// The pairs of a query in their order.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Splits and decodes a query.
    pub(crate) fn parse(text: &str) -> ApiResult<Self> {
        let mut pairs = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            if pairs.len() == PAIRS_MAX {
                let message = format!("The query has more than {PAIRS_MAX} parameters.");
                return Err(ApiError::bad_request(message));
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode(key)?, decode(value)?));
        }
        Ok(Self(pairs))
    }

    /// The value of a key; of a repeated one the last.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let mut pairs = self.0.iter().rev();
        let (_, value) = pairs.find(|(name, _)| name == key)?;
        Some(value)
    }

    /// All values of a key.
    pub(crate) fn all<'q>(&'q self, key: &'q str) -> impl Iterator<Item = &'q str> {
        let pairs = self.0.iter().filter(move |(name, _)| name == key);
        pairs.map(|(_, value)| value.as_str())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// A whole number that is not negative.
    pub(crate) fn number(&self, key: &str) -> ApiResult<Option<usize>> {
        let Some(text) = self.get(key) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(ApiError::field(
                key,
                format!("it must be a whole number that is not negative, not {text:?}"),
            )),
        }
    }

    /// A time.
    pub(crate) fn time(&self, key: &str) -> ApiResult<Option<Timestamp>> {
        let Some(text) = self.get(key) else {
            return Ok(None);
        };
        match time::parse(text) {
            Some(at) => Ok(Some(at)),
            None => Err(ApiError::field(
                key,
                format!("it must be a time of ISO 8601, not {text:?}"),
            )),
        }
    }

    /// True or false; an empty value is true.
    pub(crate) fn boolean(&self, key: &str) -> ApiResult<Option<bool>> {
        match self.get(key) {
            None => Ok(None),
            Some("") => Ok(Some(true)),
            Some(text) => match parse_boolean(text) {
                Some(known) => Ok(Some(known)),
                None => Err(ApiError::field(
                    key,
                    format!("it must be true or false, not {text:?}"),
                )),
            },
        }
    }

    /// From version 2.75 on, parameters that mean nothing are refused.
    pub(crate) fn only(&self, known: &[&str]) -> ApiResult<()> {
        match self.iter().find(|(key, _)| !known.contains(key)) {
            Some((key, _)) => Err(ApiError::field(key, "there is no such query parameter")),
            None => Ok(()),
        }
    }

    /// The query with another value of one key.
    pub(crate) fn with(&self, key: &str, value: &str) -> String {
        let kept = self.iter().filter(|(name, _)| *name != key);
        let mut text = String::new();
        for (name, value) in kept.chain([(key, value)]) {
            if !text.is_empty() {
                text.push('&');
            }
            encode(name, &mut text);
            text.push('=');
            encode(value, &mut text);
        }
        text
    }
}

fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' => {
                out.push(byte.into());
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
}

/// Takes percent signs, and in queries plus signs, out of a text.
fn decode(text: &str) -> ApiResult<String> {
    let spaced = text.replace('+', " ");
    decode_path(&spaced)
}

/// Takes percent signs out of a text.
pub(crate) fn decode_path(text: &str) -> ApiResult<String> {
    if !text.contains('%') {
        return Ok(text.to_owned());
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3);
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(code) if byte == b'%' => {
                out.push(code);
                at += 3;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).map_err(|_| ApiError::bad_request("The URL is not in UTF-8."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_and_written_again() {
        let query = Query::parse("a=1&b=x%20y+z&a=2&c").unwrap();
        assert_eq!(query.get("a"), Some("2"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(query.get("b"), Some("x y z"));
        assert_eq!(query.boolean("c").unwrap(), Some(true));
        assert_eq!(query.with("a", "ü&"), "b=x%20y%20z&c=&a=%C3%BC%26");
        assert!(query.number("b").is_err());
        assert!(Query::parse("a=%ff").is_err());
        assert_eq!(decode_path("a%2Fb%2").unwrap(), "a/b%2");
    }
}
