//! Query strings, split and decoded.

use std::borrow::Cow;

use crate::percent::{NotUtf8, decode_form};

/// How the query strings of an API are written.
#[derive(Debug, Clone, Copy)]
pub struct Syntax {
    /// The characters between two parameters.
    pub separators: &'static [char],
    /// The most parameters of a query.
    pub parameters_max: usize,
}

impl Default for Syntax {
    /// The separators are those that the framework of OpenStack's Placement knows. The framework has no limit of
    /// parameters; there is one here, because looking up repeated parameters takes quadratic time.
    fn default() -> Self {
        Self {
            separators: &['&', ';'],
            parameters_max: 1000,
        }
    }
}

/// Why a query string cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The query has more parameters than the syntax allows.
    #[error("there are more than {most} parameters")]
    TooMany {
        /// How many parameters the query has.
        count: usize,
        /// How many parameters the query may have.
        most: usize,
    },
    /// A key or value is not UTF-8, in the words of the reference.
    #[error("{0}")]
    NotUtf8(NotUtf8),
}

/// The decoded parameters of a query in their order.
#[derive(Debug, Default)]
pub struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Splits a query string at the separators, takes `+` for a space, and decodes percent signs.
    ///
    /// # Errors
    ///
    /// A key or value is not UTF-8, or there are too many parameters.
    pub fn parse(text: &'a str, syntax: Syntax) -> Result<Self, QueryError> {
        let parts = || {
            text.split(syntax.separators)
                .filter(|pair| !pair.is_empty())
        };
        let (count, most) = (parts().count(), syntax.parameters_max);
        if count > most {
            return Err(QueryError::TooMany { count, most });
        }
        let mut pairs = Vec::with_capacity(count);
        for pair in parts() {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = |text| decode_form(text).map_err(QueryError::NotUtf8);
            pairs.push((decoded(key)?, decoded(value)?));
        }
        Ok(Self(pairs))
    }

    /// The value of a key; the last one if it is repeated, and none if the query lacks it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_ref())
    }

    /// All values of a key.
    pub fn all<'b>(&'b self, key: &'b str) -> impl Iterator<Item = &'b str> {
        self.0
            .iter()
            .filter(move |(name, _)| name == key)
            .map(|(_, value)| value.as_ref())
    }

    /// All parameters as pairs of key and value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    /// How many parameters there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no parameter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_and_decoded() {
        let parse = |text| Query::parse(text, Syntax::default());
        let query = parse("a=1&b=x%2Cy;c&&a=2+3&d=%zz%&e=a=b&%e2%98%83=%E2%98%83").unwrap();
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
        let wrong = NotUtf8 { byte: 0xff, at: 0 };
        assert_eq!(parse("a=%ff").unwrap_err(), QueryError::NotUtf8(wrong));
        assert!(parse("").unwrap().is_empty());
        let few = Syntax {
            separators: &['&'],
            parameters_max: 2,
        };
        assert_eq!(Query::parse("a;b&c", few).unwrap().len(), 2);
        let too_many = QueryError::TooMany { count: 3, most: 2 };
        assert_eq!(Query::parse("a&b&c", few).unwrap_err(), too_many);
    }
}
