//! A rule as it is written: a tree of checks.

use std::fmt;

use crate::policy::template::Template;

/// A rule, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Check {
    /// `@`, or an empty rule: everybody.
    True,
    /// `!`: nobody.
    False,
    /// `not`.
    Not(Box<Check>),
    /// `and`.
    All(Vec<Check>),
    /// `or`.
    Any(Vec<Check>),
    /// `rule:name`.
    Rule(Box<str>),
    /// `role:name`.
    Role(Template),
    /// `credential:text`.
    Credential(Box<str>, Template),
    /// `'text':text`, or `True`, `False`, `None` or a whole number on the left.
    Literal(Box<str>, Template),
}

impl Check {
    /// Calls `visit` for each check in the tree that has no further checks below it.
    pub(crate) fn each_leaf<'c>(&'c self, visit: &mut impl FnMut(&'c Check)) {
        match self {
            Self::Not(check) => check.each_leaf(visit),
            Self::All(checks) | Self::Any(checks) => {
                checks.iter().for_each(|check| check.each_leaf(visit));
            }
            Self::True
            | Self::False
            | Self::Rule(_)
            | Self::Role(_)
            | Self::Credential(..)
            | Self::Literal(..) => visit(self),
        }
    }

    /// The names of the rules that it refers to, in the order in which they are written.
    pub(crate) fn references(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.each_leaf(&mut |leaf| {
            if let Self::Rule(name) = leaf {
                names.push(&**name);
            }
        });
        names
    }
}

/// A rule as a policy file holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// The language.
    Text(String),
    /// The old form: any of the lists must hold, and in a list every check.
    Lists(Vec<Vec<String>>),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Lists(lists) => write!(f, "{lists:?}"),
        }
    }
}
