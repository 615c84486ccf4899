//! The syntax tree of a rule.

use std::fmt;

use crate::policy::template::Template;

/// A rule or a subexpression of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Check {
    /// `@`, or an empty rule: always allows.
    True,
    /// `!`, which never allows.
    False,
    /// `not`, the negation of a check.
    Not(Box<Check>),
    /// `and`: all of the checks must hold.
    All(Vec<Check>),
    /// `or`: at least one of the checks must hold.
    Any(Vec<Check>),
    /// `rule:name`, a reference to another rule.
    Rule(Box<str>),
    /// `role:name`, which tests the caller's roles.
    Role(Template),
    /// `credential:text`, which compares an attribute of the caller.
    Credential(Box<str>, Template),
    /// `'text':text`, a comparison with a literal: a text, `True`, `False`, `None` or a whole
    /// number.
    Literal(Box<str>, Template),
}

impl Check {
    /// Calls `visit` for each leaf of the tree.
    pub(crate) fn for_each_leaf<'c>(&'c self, visit: &mut impl FnMut(&'c Check)) {
        match self {
            Self::Not(check) => check.for_each_leaf(visit),
            Self::All(checks) | Self::Any(checks) => {
                checks.iter().for_each(|check| check.for_each_leaf(visit));
            }
            Self::True
            | Self::False
            | Self::Rule(_)
            | Self::Role(_)
            | Self::Credential(..)
            | Self::Literal(..) => visit(self),
        }
    }

    /// The names of the rules to which the check refers, in the order of the text.
    pub(crate) fn references(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.for_each_leaf(&mut |leaf| {
            if let Self::Rule(name) = leaf {
                names.push(&**name);
            }
        });
        names
    }
}

/// A rule as written in a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RuleSource {
    /// An expression in the policy language.
    Text(String),
    /// The old form: a disjunction of conjunctions of checks.
    Lists(Vec<Vec<String>>),
}

impl fmt::Display for RuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Lists(lists) => write!(f, "{lists:?}"),
        }
    }
}
