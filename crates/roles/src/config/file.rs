//! The layer of the configuration file (TOML).

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{GivenValue, Source, Value, nearest_hint};
use crate::options::{OPTIONS, SECTIONS, find};

/// The values in the text of a file; `path` is only used for sources and errors.
pub(super) fn read(path: &Path, text: &str, errors: &mut Vec<String>) -> Vec<GivenValue> {
    let location = |offset: usize| format!("{}:{}", path.display(), line_at(text, offset));
    let document = match DeTable::parse(text) {
        Ok(document) => document.into_inner(),
        Err(error) => {
            let offset = error.span().map_or(0, |span| span.start);
            errors.push(format!("{}: {}", location(offset), error.message()));
            return Vec::new();
        }
    };
    let mut given = Vec::new();
    for (section, table) in in_order(&document) {
        let name = section.get_ref().as_ref();
        let location_text = location(section.span().start);
        if !SECTIONS.iter().any(|section| section.name == name) {
            let hint = nearest_hint(name, SECTIONS.iter().map(|section| section.name.to_owned()));
            errors.push(format!("{location_text}: unknown section [{name}]{hint}"));
            continue;
        }
        let DeValue::Table(table) = table.get_ref() else {
            errors.push(format!(
                "{location_text}: {name} is a section: write [{name}], its keys below it"
            ));
            continue;
        };
        for (key, value) in in_order(table) {
            let location_text = location(key.span().start);
            let Some(index) = find(&format!("{name}.{}", key.get_ref())) else {
                let keys = OPTIONS.iter().filter(|spec| spec.section == name);
                let hint = nearest_hint(key.get_ref(), keys.map(|spec| spec.name.to_owned()));
                errors.push(format!(
                    "{location_text}: unknown key {} in [{name}]{hint}",
                    key.get_ref()
                ));
                continue;
            };
            match text_of(value.get_ref()) {
                Ok(value) => {
                    let line = line_at(text, key.span().start);
                    let source = Source::File {
                        path: path.to_owned(),
                        line,
                    };
                    given.push((
                        index,
                        Value {
                            text: value,
                            source,
                        },
                    ));
                }
                Err(kind) => errors.push(format!(
                    "{location_text}: {} is given as {kind}; allowed: {}",
                    OPTIONS[index].key(),
                    (OPTIONS[index].describe_allowed)()
                )),
            }
        }
    }
    given
}

/// The entries of a table in the order of the file.
fn in_order<'a, 'i>(
    table: &'a DeTable<'i>,
) -> Vec<(
    &'a Spanned<std::borrow::Cow<'i, str>>,
    &'a Spanned<DeValue<'i>>,
)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// Converts a value to the text that the environment or a flag would have. The error is the kind of the value,
/// if no option has values of that kind.
fn text_of(value: &DeValue<'_>) -> Result<String, &'static str> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => {
            let digits = i128::from_str_radix(number.as_str(), number.radix());
            Ok(digits.map_or_else(|_| number.to_string(), |digits| digits.to_string()))
        }
        DeValue::Boolean(flag) => Ok(flag.to_string()),
        DeValue::Array(items) => {
            let items: Result<Vec<String>, _> = items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::String(text) if !text.contains(',') => Ok(text.to_string()),
                    DeValue::String(_) => Err("an array with a comma in a text"),
                    _ => Err("an array of other things than texts"),
                })
                .collect();
            items.map(|items| items.join(","))
        }
        DeValue::Float(_) => Err("a number with a fraction"),
        DeValue::Datetime(_) => Err("a time"),
        DeValue::Table(_) => Err("a table"),
    }
}

/// The line of an offset, counted from 1.
fn line_at(text: &str, offset: usize) -> usize {
    1 + text
        .bytes()
        .take(offset)
        .filter(|byte| *byte == b'\n')
        .count()
}
