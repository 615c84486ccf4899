//! The layer of environment variables.

use std::ffi::OsString;

use super::{GivenValue, Source, Value, nearest_hint};
use crate::options::OPTIONS;

/// Variables with the prefix `PLACEWRIGHT_` that are not options: the path of the configuration file, the servers'
/// addresses and the credentials for client commands, and the program that the scripts under `tests/` run.
const NOT_OPTIONS: [&str; 9] = [
    "PLACEWRIGHT_CONFIG",
    "PLACEWRIGHT_URL",
    "PLACEWRIGHT_COMPUTE_URL",
    "PLACEWRIGHT_SCHEDULER_URL",
    "PLACEWRIGHT_UI_URL",
    "PLACEWRIGHT_USER",
    "PLACEWRIGHT_PASSWORD",
    "PLACEWRIGHT_PASSWORD_FILE",
    crate::PROGRAM_VARIABLE,
];

/// The prefix of variables for the scripts under `tests/`, which the program ignores.
const TEST_PREFIX: &str = "PLACEWRIGHT_TEST_";

/// The values of options in environment variables. Unknown names with the prefix `PLACEWRIGHT_` are errors.
pub(super) fn read(
    variables: &[(OsString, OsString)],
    errors: &mut Vec<String>,
) -> Vec<GivenValue> {
    let mut given = Vec::new();
    for (variable, value) in variables {
        let name = variable.to_string_lossy();
        if !name.starts_with("PLACEWRIGHT_")
            || name.starts_with(TEST_PREFIX)
            || NOT_OPTIONS.contains(&&*name)
        {
            continue;
        }
        let Some(index) = OPTIONS.iter().position(|spec| spec.variable() == name) else {
            let hint = nearest_hint(
                &name,
                OPTIONS.iter().map(crate::options::OptionSpec::variable),
            );
            errors.push(format!("{name}: unknown variable{hint}"));
            continue;
        };
        match value.to_str() {
            Some(text) => {
                let source = Source::Environment(name.into_owned());
                given.push((
                    index,
                    Value {
                        text: text.to_owned(),
                        source,
                    },
                ));
            }
            None => errors.push(format!("{name}: its value is not UTF-8")),
        }
    }
    // The environment has no defined order, so values are sorted into the order of the table of options.
    given.sort_by_key(|(index, _)| *index);
    given
}
