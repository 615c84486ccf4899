//! Query strings of requests.

use std::ops::Deref;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use placewright_http::{ApiError, ApiResult, QueryError, Syntax};
use placewright_placement::Timestamp;

use crate::fields::parse_boolean;
use crate::options::Limits;
use crate::time;

/// The decoded parameters of a query, with methods that parse their values.
#[derive(Debug)]
pub(crate) struct Query<'a>(placewright_http::Query<'a>);

impl<'a> Deref for Query<'a> {
    type Target = placewright_http::Query<'a>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a> Query<'a> {
    /// Splits and decodes a query string.
    pub(crate) fn parse(text: &'a str, limits: &Limits) -> ApiResult<Self> {
        let syntax = Syntax {
            separators: &['&'],
            parameters_max: limits.parameters_max,
        };
        let query = placewright_http::Query::parse(text, syntax);
        query.map(Self).map_err(|error| match error {
            QueryError::TooMany { count, most } => ApiError::bad_request(format!(
                "The query has {count} parameters; compute.parameters_max allows {most}."
            )),
            QueryError::NotUtf8(_) => not_utf8(),
        })
    }

    /// Finds a key that occurs more than once and is not among the repeatable ones.
    pub(crate) fn find_repeated(&self, repeatable: &[&str]) -> Option<&str> {
        let mut names: Vec<&str> = self.iter().map(|(key, _)| key).collect();
        names.retain(|name| !repeatable.contains(name));
        names.sort_unstable();
        let mut pairs = names.windows(2).filter(|pair| pair[0] == pair[1]);
        pairs.next().map(|pair| pair[0])
    }

    /// The value of a key as an integer that is not negative.
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

    /// The value of a key as an ISO 8601 time.
    pub(crate) fn time(&self, key: &str) -> ApiResult<Option<Timestamp>> {
        let Some(text) = self.get(key) else {
            return Ok(None);
        };
        match time::parse(text) {
            Some(time) => Ok(Some(time)),
            None => Err(ApiError::field(
                key,
                format!("it must be a time of ISO 8601, not {text:?}"),
            )),
        }
    }

    /// The value of a key as a boolean; an empty value is true.
    pub(crate) fn boolean(&self, key: &str) -> ApiResult<Option<bool>> {
        match self.get(key) {
            None => Ok(None),
            Some("") => Ok(Some(true)),
            Some(text) => match parse_boolean(text) {
                Some(flag) => Ok(Some(flag)),
                None => Err(ApiError::field(
                    key,
                    format!("it must be true or false, not {text:?}"),
                )),
            },
        }
    }

    /// Rejects parameters that are not among the known ones.
    pub(crate) fn reject_unknown(&self, known: &[&str]) -> ApiResult<()> {
        match self.iter().find(|(key, _)| !known.contains(key)) {
            Some((key, _)) => Err(ApiError::field(key, "there is no such query parameter")),
            None => Ok(()),
        }
    }

    /// The query string with one key set to another value.
    pub(crate) fn with_parameter(&self, key: &str, value: &str) -> String {
        let others = self.iter().filter(|(name, _)| *name != key);
        let mut text = String::new();
        for (name, value) in others.chain([(key, value)]) {
            if !text.is_empty() {
                text.push('&');
            }
            text.extend(utf8_percent_encode(name, ENCODED));
            text.push('=');
            text.extend(utf8_percent_encode(value, ENCODED));
        }
        text
    }
}

/// The characters that are percent-encoded in a query: all but letters, digits and a few signs.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b':');

/// Decodes a percent-encoded segment of a path.
pub(crate) fn decode_path(text: &str) -> ApiResult<String> {
    match placewright_http::decode_percent(text) {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => Err(not_utf8()),
    }
}

fn not_utf8() -> ApiError {
    ApiError::bad_request("The URL is not in UTF-8.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_and_written_again() {
        let parse = |text| Query::parse(text, &Limits::default());
        let query = parse("a=1&b=x%20y+z&a=2&c").unwrap();
        assert_eq!(query.get("a"), Some("2"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(query.get("b"), Some("x y z"));
        assert_eq!(query.boolean("c").unwrap(), Some(true));
        assert_eq!(
            query.with_parameter("a", "ü&"),
            "b=x%20y%20z&c=&a=%C3%BC%26"
        );
        assert!(query.number("b").is_err());
        assert!(parse("a=%ff").is_err());
        assert_eq!(decode_path("a%2Fb%2").unwrap(), "a/b%2");
        // Signs are not hexadecimal digits.
        assert_eq!(parse("b=%+a%-1").unwrap().get("b"), Some("% a%-1"));
        assert_eq!(decode_path("%+a").unwrap(), "%+a");
        assert_eq!(query.find_repeated(&[]), Some("a"));
        assert_eq!(query.find_repeated(&["a"]), None);
        let error = parse(&"name=a&".repeat(600)).unwrap_err();
        assert_eq!(
            error.detail(),
            "The query has 600 parameters; compute.parameters_max allows 64."
        );
    }
}
