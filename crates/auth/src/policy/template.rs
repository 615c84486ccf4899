//! The right side of a check: a text with placeholders `%(key)s`, filled in from the target.
//!
//! It is Python's `%` formatting with `%(key)s` as the only conversion. In oslo.policy, other conversions
//! fail or have unexpected results when a rule is evaluated; here they are errors when the file is read.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::policy::error::SyntaxError;
use crate::policy::target::Target;

/// A text with placeholders for values of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    parts: SmallVec<[Part; 1]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Key(Box<str>),
}

impl Template {
    /// Parses a template. `column` is its position in the rule, for messages.
    pub(crate) fn parse(source: &str, column: usize) -> Result<Self, SyntaxError> {
        let mut parts = SmallVec::new();
        let mut text = String::new();
        let mut remaining = source;
        while let Some(index) = remaining.find('%') {
            text.push_str(&remaining[..index]);
            let percent_column = column
                + source[..source.len() - remaining.len() + index]
                    .chars()
                    .count();
            remaining = &remaining[index + 1..];
            if let Some(following) = remaining.strip_prefix('%') {
                text.push('%');
                remaining = following;
                continue;
            }
            let Some((key, following)) = remaining.strip_prefix('(').and_then(split_key) else {
                return Err(SyntaxError::new(
                    percent_column,
                    "expected %(name)s, or %% for a percent sign",
                ));
            };
            let Some(following) = following.strip_prefix('s') else {
                return Err(SyntaxError::new(
                    percent_column,
                    format!("expected an s after %({key}): only %({key})s is understood"),
                ));
            };
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text).into()));
            }
            parts.push(Part::Key(key.into()));
            remaining = following;
        }
        text.push_str(remaining);
        if !text.is_empty() {
            parts.push(Part::Text(text.into()));
        }
        Ok(Self { parts })
    }

    /// The whole text if it has no placeholders.
    pub(crate) fn fixed(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The names of the placeholders.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Key(key) => Some(&**key),
            Part::Text(_) => None,
        })
    }

    /// The text with the target's values, or `None` if the target lacks one of the placeholders.
    pub(crate) fn fill<'t>(&'t self, target: &'t Target<'_>) -> Option<Cow<'t, str>> {
        match self.parts.as_slice() {
            [] => return Some(Cow::Borrowed("")),
            [Part::Text(text)] => return Some(Cow::Borrowed(text)),
            [Part::Key(key)] => return target.text(key).map(Cow::Borrowed),
            _ => {}
        }
        let mut filled = String::new();
        for part in &self.parts {
            filled.push_str(match part {
                Part::Text(text) => text,
                Part::Key(key) => target.text(key)?,
            });
        }
        Some(Cow::Owned(filled))
    }
}

/// Splits `name)text` at the parenthesis that closes the one before the name.
fn split_key(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1_usize;
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..index], &text[index + 1..]));
        }
    }
    None
}
