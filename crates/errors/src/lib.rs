//! The causes of an error, as one text or one by one.
//!
//! An error's own text says what failed; why it failed is in its sources. `anyhow` prints the sources
//! too, but only of errors that it owns.

use std::error::Error;
use std::iter::successors;

/// The sources of an error, from the error's own source to the innermost one.
pub fn sources<'e>(error: &'e (dyn Error + 'e)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    successors(error.source(), |cause| (*cause).source())
}

/// An error with all its sources in one line.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in sources(error) {
        text.push_str(": ");
        text.push_str(&cause.to_string());
    }
    text
}

/// The text of the innermost source, which is the most specific, such as "connection refused". An error without sources
/// gives its own text.
#[must_use]
pub fn innermost(error: &dyn Error) -> String {
    sources(error)
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct SomeError {
        text: &'static str,
        cause: Option<Box<SomeError>>,
    }

    impl fmt::Display for SomeError {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str(self.text)
        }
    }

    impl Error for SomeError {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.cause.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn sources_follow_each_other() {
        let error = |text, cause: Option<SomeError>| SomeError {
            text,
            cause: cause.map(Box::new),
        };
        let inner = error("inner", None);
        assert_eq!(
            (chain(&inner), innermost(&inner)),
            ("inner".into(), "inner".into())
        );
        let middle = error("middle", Some(inner));
        let outer = error("outer", Some(middle));
        assert_eq!(chain(&outer), "outer: middle: inner");
        assert_eq!(innermost(&outer), "inner");
        assert_eq!(sources(&outer).count(), 2);
    }
}
