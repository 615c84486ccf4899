//! What is wrong, or odd, about a policy file.

use std::fmt;
use std::path::PathBuf;

/// Why the policies cannot be used. The program should not start.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("cannot read the policy file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The file is larger than any policy.
    #[error("the policy file {path} is larger than {bytes_max} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// The file is not YAML (or JSON), or not a mapping of names to rules.
    #[error("{path}: {message}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the place if it is known.
        message: String,
    },
    /// Rules that cannot work: all of them, not only the first.
    #[error("{}", list(path, problems))]
    Rules {
        /// The file.
        path: PathBuf,
        /// At least one.
        problems: Vec<RuleProblem>,
    },
}

/// A rule of a policy file that cannot work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleProblem {
    /// The rule's name.
    pub rule: String,
    /// Its line in the file, if it was found.
    pub line: Option<usize>,
    /// What is wrong.
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

/// Something in a policy file that is allowed and probably not meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyWarning {
    /// The rule's name.
    pub rule: String,
    /// Its line in the file, if it was found.
    pub line: Option<usize>,
    /// What is odd.
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
