//! A policy file: names and rules in YAML or JSON.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_yaml_ng::Value;

use crate::policy::check::RuleSource;
use crate::policy::error::{PolicyError, RuleProblem};

/// The maximum size of a policy file in bytes. A file with all rules of all services of a cloud has
/// about 1 MiB.
const BYTES_MAX: u64 = 4 << 20;

/// The rules of a file, in its order.
#[derive(Debug, Default)]
pub(crate) struct Overrides {
    /// The path of the file, for messages.
    pub(crate) path: PathBuf,
    pub(crate) rules: Vec<Override>,
}

/// One rule of a file.
#[derive(Debug)]
pub(crate) struct Override {
    pub(crate) name: String,
    /// The line in the file, from 1; `None` if it was not found.
    pub(crate) line: Option<usize>,
    pub(crate) source: RuleSource,
}

/// Reads and parses a policy file.
pub(crate) fn read(path: &Path) -> Result<Overrides, PolicyError> {
    let read_error = |source| PolicyError::Read {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(read_error)?;
    file.take(BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(read_error)?;
    parse(path, &text)
}

/// Parses the text of a policy file.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Overrides, PolicyError> {
    if text.len() as u64 > BYTES_MAX {
        return Err(PolicyError::TooLarge {
            path: path.to_owned(),
            bytes_max: BYTES_MAX,
        });
    }
    let format_error = |message: String| PolicyError::Format {
        path: path.to_owned(),
        message,
    };
    let value = serde_yaml_ng::from_str::<Value>(text).or_else(|error| {
        // Fallback for JSON that is not valid YAML, such as with tabs.
        let json = text
            .trim_start()
            .starts_with('{')
            .then(|| serde_json::from_str(text).ok());
        json.flatten()
            .ok_or_else(|| format_error(error.to_string()))
    })?;
    let mapping = match value {
        Value::Mapping(mapping) => mapping,
        Value::Null => {
            return Ok(Overrides {
                path: path.to_owned(),
                rules: Vec::new(),
            });
        }
        Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Sequence(_)
        | Value::Tagged(_) => {
            return Err(format_error(
                "expected lines of the form \"name\": \"rule\"".to_owned(),
            ));
        }
    };
    let mut rules = Vec::with_capacity(mapping.len());
    let mut problems = Vec::new();
    let lines = lines_of_names(text);
    for (name, value) in mapping {
        let Value::String(name) = name else {
            return Err(format_error(format!(
                "a rule's name must be a text, not {}",
                type_name(&name)
            )));
        };
        let line = lines.get(name.as_str()).copied();
        match rule_source(value) {
            Ok(source) => rules.push(Override { name, line, source }),
            Err(message) => problems.push(RuleProblem {
                rule: name,
                line,
                message,
            }),
        }
    }
    if problems.is_empty() {
        Ok(Overrides {
            path: path.to_owned(),
            rules,
        })
    } else {
        Err(PolicyError::Rules {
            path: path.to_owned(),
            problems,
        })
    }
}

/// Converts a rule's value: a text, or a list of lists, which is an older form.
fn rule_source(value: Value) -> Result<RuleSource, String> {
    match value {
        Value::String(text) => Ok(RuleSource::Text(text)),
        Value::Sequence(items) => {
            let lists: Result<_, String> = items.into_iter().map(list_of_checks).collect();
            Ok(RuleSource::Lists(lists?))
        }
        // In oslo.policy such a rule allows everybody, which its author hardly intends.
        Value::Null => Err("has no value: write \"@\" for everybody, \"!\" for nobody".to_owned()),
        Value::Tagged(_) => Err("put the rule in quotes: in YAML a bare ! is a tag".to_owned()),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Mapping(_)) => Err(format!(
            "must be a text or a list, not {}",
            type_name(&other)
        )),
    }
}

/// Converts an element of the list form: a list of checks, or a single check.
fn list_of_checks(value: Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(text) if text.is_empty() => Ok(Vec::new()),
        Value::String(text) => Ok(vec![text]),
        Value::Null => Ok(Vec::new()),
        Value::Sequence(items) => items
            .into_iter()
            .map(|item| match item {
                Value::String(text) => Ok(text),
                other => Err(format!(
                    "a check in a list must be a text, not {}",
                    type_name(&other)
                )),
            })
            .collect(),
        other => Err(format!(
            "a list must hold texts and lists of texts, not {}",
            type_name(&other)
        )),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "a mapping",
        Value::Tagged(_) => "a tagged value",
    }
}

/// The line numbers of rules by name. They are found by a scan of the text, because the YAML parser
/// does not report them.
fn lines_of_names(text: &str) -> HashMap<&str, usize> {
    let mut lines = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(name) = leading_name(line) {
            lines.entry(name).or_insert(index + 1);
        }
    }
    lines
}

/// The name at the start of a line: a quoted text, or the text up to a colon that a space or the end
/// of the line follows.
fn leading_name(line: &str) -> Option<&str> {
    let line = line
        .trim_start()
        .trim_start_matches(['{', ','])
        .trim_start();
    match line.chars().next()? {
        quote @ ('"' | '\'') => line[1..].split(quote).next(),
        _ => line
            .find(": ")
            .or_else(|| line.strip_suffix(':').map(str::len))
            .map(|end| &line[..end]),
    }
}
