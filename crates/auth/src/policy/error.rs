//! Errors and warnings about a policy file.

use std::fmt;
use std::path::PathBuf;

/// Why the policies cannot be used. The program should not start.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("cannot read the policy file {path}")]
    Read {
        /// The path of the policy file.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        source: std::io::Error,
    },
    /// The file exceeds the size limit.
    #[error("the policy file {path} is larger than {bytes_max} bytes")]
    TooLarge {
        /// The path of the policy file.
        path: PathBuf,
        /// The size limit in bytes.
        bytes_max: u64,
    },
    /// The file is not YAML (or JSON), or not a mapping of names to rules.
    #[error("{path}: {message}")]
    Format {
        /// The path of the policy file.
        path: PathBuf,
        /// What is wrong, with the position if it is known.
        message: String,
    },
    /// Rules are invalid. Circular references are searched for only if there are no other problems.
    #[error("{}", list(path, problems))]
    Rules {
        /// The path of the policy file.
        path: PathBuf,
        /// The problems, at least one.
        problems: Vec<RuleProblem>,
    },
}

/// An invalid rule of a policy file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleProblem {
    /// The name of the rule.
    pub rule: String,
    /// The line in the file, if it was found.
    pub line: Option<usize>,
    /// What is wrong with the rule.
    pub message: String,
}

fn list(path: &std::path::Path, problems: &[RuleProblem]) -> String {
    let lines: Vec<String> = problems
        .iter()
        .map(|problem| {
            let line = problem
                .line
                .map_or_else(String::new, |line| format!(", line {line}"));
            format!(
                "{}{line}, rule \"{}\": {}",
                path.display(),
                problem.rule,
                problem.message
            )
        })
        .collect();
    lines.join("\n")
}

/// A syntax error in a rule, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// The position in the rule's text in characters, from 1.
    pub(crate) column: usize,
    pub(crate) message: String,
}

impl SyntaxError {
    pub(crate) fn new(column: usize, message: impl Into<String>) -> Self {
        Self {
            column,
            message: message.into(),
        }
    }
}

/// Something in a policy file that is valid but probably unintended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyWarning {
    /// The name of the rule.
    pub rule: String,
    /// The line in the file, if it was found.
    pub line: Option<usize>,
    /// What is unusual about the rule.
    pub message: String,
}

impl fmt::Display for PolicyWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}, ")?;
        }
        write!(f, "rule \"{}\": {}", self.rule, self.message)
    }
}
