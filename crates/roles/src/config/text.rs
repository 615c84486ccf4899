//! Texts about the configuration: the sample file, the effective values, the reference page.

use std::fmt::Write as _;

use super::Config;
use crate::options::{OPTIONS, OptionSpec, SECTIONS, ValueSyntax};

/// A value in the syntax of the configuration file.
fn toml_value(syntax: ValueSyntax, text: &str) -> String {
    match syntax {
        ValueSyntax::Number | ValueSyntax::Flag => text.to_owned(),
        ValueSyntax::Text => quoted(text),
        ValueSyntax::List => {
            let items = text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty());
            format!("[{}]", items.map(quoted).collect::<Vec<_>>().join(", "))
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A configuration file with every option, commented out, with its default.
pub fn sample() -> String {
    let mut out = String::from(
        "# Placewright's configuration. Every line that starts with \"#\" and a key shows a\n\
         # default: remove the \"#\" to change it.\n",
    );
    for section in SECTIONS {
        let _ = write!(out, "\n# {}\n[{}]\n", section.help, section.name);
        for spec in OPTIONS.iter().filter(|spec| spec.section == section.name) {
            out.push('\n');
            for line in wrapped(&description(spec), 96) {
                let _ = writeln!(out, "# {line}");
            }
            let _ = writeln!(
                out,
                "#{} = {}",
                spec.name,
                toml_value(spec.syntax, spec.default)
            );
        }
    }
    out
}

/// The description of an option with its allowed values.
fn description(spec: &OptionSpec) -> String {
    let unit = if spec.unit.is_empty() {
        String::new()
    } else {
        format!(", {}", spec.unit)
    };
    format!(
        "{} Allowed: {}{unit}.",
        spec.help,
        (spec.describe_allowed)()
    )
}

/// The effective values as the text of a configuration file, each with its source. Secrets are hidden.
pub fn show(config: &Config) -> String {
    let mut out = match &config.file {
        Some(file) => format!("# configuration file: {}\n", file.display()),
        None => "# configuration file: none\n".to_owned(),
    };
    for section in SECTIONS {
        let _ = write!(out, "\n[{}]\n", section.name);
        for (spec, value) in OPTIONS.iter().zip(&config.values) {
            if spec.section != section.name {
                continue;
            }
            let text = match (spec.secret, value.text.is_empty()) {
                (true, false) => quoted("(hidden)"),
                (true, true) | (false, _) => toml_value(spec.syntax, &value.text),
            };
            let _ = writeln!(out, "{} = {text}  # {}", spec.name, value.source);
        }
    }
    out
}

/// The reference page of all options (docs/configuration.md).
pub fn reference() -> String {
    let mut out = String::from(include_str!("reference_head.md"));
    for section in SECTIONS {
        let _ = write!(out, "\n## [{}]\n\n{}\n", section.name, section.help);
        for spec in OPTIONS.iter().filter(|spec| spec.section == section.name) {
            let default = match spec.default {
                "" => "not set".to_owned(),
                text => format!("`{}`", toml_value(spec.syntax, text)),
            };
            let unit = match spec.unit {
                "" => String::new(),
                unit => format!(" {unit}"),
            };
            let flag = match spec.secret {
                true => "none, because command lines can be read by others".to_owned(),
                false => format!("`--{}`", spec.flag()),
            };
            let _ = write!(
                out,
                "\n### {}\n\n{}\n\n- default: {default}{unit}\n- allowed: {}\n- variable: `{}`\n- flag: {flag}\n",
                spec.key(),
                spec.help,
                (spec.describe_allowed)(),
                spec.variable(),
            );
        }
    }
    out
}

/// Breaks a text into lines of at most `width` bytes, unless a single word is longer.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].len() + 1 + word.len() > width {
            lines.push(word.to_owned());
        } else {
            let space = if lines[last].is_empty() { "" } else { " " };
            let _ = write!(lines[last], "{space}{word}");
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Update the page with `placewright config reference > docs/configuration.md`.
    #[test]
    fn the_reference_page_is_that_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let page = std::fs::read_to_string(path).unwrap();
        assert!(
            page == reference(),
            "docs/configuration.md is old: run `placewright config reference > docs/configuration.md`"
        );
    }

    #[test]
    fn the_sample_without_comment_signs_is_a_configuration() {
        let text: String = sample()
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(key) if !key.starts_with(' ') => format!("{key}\n"),
                Some(_) => String::new(),
                None => format!("{line}\n"),
            })
            .collect();
        let parsed: toml::Table = text.parse().unwrap();
        let keys = parsed
            .values()
            .map(|section| section.as_table().unwrap().len());
        assert_eq!(keys.sum::<usize>(), OPTIONS.len());
    }
}
