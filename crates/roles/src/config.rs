//! The sources of option values, in layers: defaults, the configuration file, the environment, and flags. Each layer
//! overrides the previous ones. Each value has its source, which errors name.

mod environment;
mod file;
mod flags;
mod reads;
pub mod text;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::options::{OPTIONS, Options};
pub use flags::{AgentFlags, AllFlags, CellFlags, ControlFlags, Flags, FlagsOf, UpFlags};
pub use placewright_errors::chain;

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The default in the table of options.
    Default,
    /// A line of the configuration file, counted from 1.
    File {
        /// The path as it was given.
        path: PathBuf,
        /// The line of the key.
        line: usize,
    },
    /// The environment variable with this name.
    Environment(String),
    /// The flag with this name, without leading dashes.
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(variable) => f.write_str(variable),
            Self::Flag(flag) => write!(f, "--{flag}"),
        }
    }
}

/// The value of one option as text, and its source.
#[derive(Debug, Clone)]
pub struct Value {
    /// The value as text, in the form of the environment and the command line.
    pub text: String,
    /// The layer that the value came from.
    pub source: Source,
}

/// A value that one layer gives for the option with this index in [`OPTIONS`].
type GivenValue = (usize, Value);

/// The effective configuration, after all layers.
#[derive(Debug)]
pub struct Config {
    /// The parsed values of all options.
    pub options: Options,
    /// The values of all options as texts with their sources, in the order of [`OPTIONS`].
    pub values: Vec<Value>,
    /// The configuration file that was read, if any.
    pub file: Option<PathBuf>,
}

/// Errors of a configuration, one sentence each.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct ConfigErrors(pub Vec<String>);

/// The environment variables of a process.
#[derive(Debug)]
pub struct Environment(Vec<(OsString, OsString)>);

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    fn get(&self, name: &str) -> Option<&OsString> {
        self.0
            .iter()
            .find(|(variable, _)| variable == name)
            .map(|(_, value)| value)
    }
}

impl Config {
    /// Reads all layers.
    ///
    /// # Errors
    ///
    /// All errors of all layers together: first unknown names and values of a wrong kind, then values that their
    /// options do not allow.
    pub fn load(flags: &Flags, environment: &Environment) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let mut given: Vec<GivenValue> = Vec::new();
        let file = match file_to_read(flags, environment) {
            Ok(file) => file,
            Err(problem) => {
                errors.push(problem);
                None
            }
        };
        if let Some(path) = &file {
            match std::fs::read_to_string(path) {
                Ok(text) => given.extend(file::read(path, &text, &mut errors)),
                Err(error) => errors.push(format!("{}: cannot read it: {error}", path.display())),
            }
        }
        given.extend(environment::read(&environment.0, &mut errors));
        given.extend(flags.given());

        let mut values: Vec<Value> = OPTIONS
            .iter()
            .map(|spec| Value {
                text: spec.default.to_owned(),
                source: Source::Default,
            })
            .collect();
        for (index, value) in given {
            if (OPTIONS[index].accepts)(&value.text) {
                values[index] = value;
            } else {
                errors.push(bad_value(index, &value));
            }
        }
        let texts: Vec<&str> = values.iter().map(|value| value.text.as_str()).collect();
        match Options::from_texts(&texts) {
            Ok(options) if errors.is_empty() => Ok(Self {
                options,
                values,
                file,
            }),
            Ok(_) => Err(ConfigErrors(errors)),
            Err(index) => {
                errors.push(bad_value(index, &values[index]));
                Err(ConfigErrors(errors))
            }
        }
    }
}

/// The error for a value that its option does not allow.
fn bad_value(index: usize, value: &Value) -> String {
    let spec = &OPTIONS[index];
    let shown_value = if spec.secret {
        "the value".to_owned()
    } else {
        format!("{:?}", value.text)
    };
    let unit = if spec.unit.is_empty() {
        String::new()
    } else {
        format!(" ({})", spec.unit)
    };
    format!(
        "{}: {shown_value} is no value for {}; allowed: {}{unit}",
        value.source,
        spec.key(),
        (spec.describe_allowed)()
    )
}

/// The configuration file: the one that the flag or the variable names, which must exist, or the first of
/// [`default_paths`] that exists. `None` if no file is named, and none of these exists.
fn file_to_read(flags: &Flags, environment: &Environment) -> Result<Option<PathBuf>, String> {
    let (named, named_by) = match (flags.config(), environment.get("PLACEWRIGHT_CONFIG")) {
        (Some(path), _) => (path.to_owned(), "--config"),
        (None, Some(path)) => (PathBuf::from(path), "PLACEWRIGHT_CONFIG"),
        (None, None) => {
            return Ok(default_paths(environment)
                .into_iter()
                .find(|path| path.exists()));
        }
    };
    if named.exists() {
        Ok(Some(named))
    } else {
        Err(format!("{named_by}: there is no file {}", named.display()))
    }
}

/// The paths of the configuration file when none is named; the first that exists is read.
fn default_paths(environment: &Environment) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from("placewright.toml")];
    if let Some(directory) = environment.get("CONFIGURATION_DIRECTORY") {
        paths.push(Path::new(directory).join("placewright.toml"));
    }
    paths.push(PathBuf::from("/etc/placewright/placewright.toml"));
    paths
}

/// The end of the message about an unknown name: the known name that is most similar to it.
fn nearest_hint(unknown: &str, known: impl IntoIterator<Item = String>) -> String {
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(unknown, &name), name))
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map_or_else(String::new, |(_, name)| format!("; the nearest is {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, Command, FromArgMatches as _};

    fn load(toml: &str, variables: &[(&str, &str)], flags: &[&str]) -> Result<Config, Vec<String>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("test.toml");
        std::fs::write(&path, toml).unwrap();
        let path = path.to_str().unwrap();
        let command = AllFlags::augment_args(Command::new("test"));
        let arguments = ["test", "--config", path]
            .into_iter()
            .chain(flags.iter().copied());
        let flags = AllFlags::from_arg_matches(&command.get_matches_from(arguments)).unwrap();
        let variables = variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let strip = |text: &String| text.replace(path, "test.toml");
        Config::load(&flags, &Environment(variables.collect()))
            .map_err(|errors| errors.0.iter().map(strip).collect())
    }

    #[test]
    fn flags_win_over_the_environment_that_wins_over_the_file() {
        let toml = "[log]\nfilter = 'warn'\nformat = 'json'\n[placement]\nbody_bytes_max = 2048\n";
        let variables = [
            ("PLACEWRIGHT_LOG_FORMAT", "text"),
            ("PLACEWRIGHT_LOG_FILTER", "debug"),
        ];
        let config = load(toml, &variables, &["--log-filter", "trace"]).unwrap();
        assert_eq!(config.options.log.filter, "trace");
        assert_eq!(config.options.log.format, crate::options::LogFormat::Text);
        assert_eq!(config.options.placement.body_bytes_max.get(), 2048);
        let source = |key| {
            config.values[crate::options::find(key).unwrap()]
                .source
                .clone()
        };
        assert_eq!(source("log.filter"), Source::Flag("log-filter".into()));
        assert_eq!(
            source("log.format"),
            Source::Environment("PLACEWRIGHT_LOG_FORMAT".into())
        );
        assert!(matches!(
            source("placement.body_bytes_max"),
            Source::File { line: 5, .. }
        ));
        assert_eq!(source("placement.listen"), Source::Default);
    }

    #[test]
    fn unknown_names_are_errors_that_name_the_nearest() {
        let toml = "[placement]\nlisten_on = 'x'\n[plcement]\na = 1\n[log.format]\n";
        let variables = [
            ("PLACEWRIGHT_LOG_FORMT", "text"),
            ("PLACEWRIGHT_BIN", "/bin/true"),
        ];
        let errors = load(toml, &variables, &[]).unwrap_err();
        assert_eq!(
            errors,
            [
                "test.toml:2: unknown key listen_on in [placement]; the nearest is listen",
                "test.toml:3: unknown section [plcement]; the nearest is placement",
                "test.toml:5: log.format is given as a table; allowed: text, json",
                "PLACEWRIGHT_LOG_FORMT: unknown variable; the nearest is PLACEWRIGHT_LOG_FORMAT",
            ]
        );
    }

    #[test]
    fn errors_of_values_name_the_source_the_key_and_the_allowed_values() {
        let toml = "[placement]\nbody_bytes_max = 'many'\n";
        let variables = [("PLACEWRIGHT_PLACEMENT_LISTEN", "localhost")];
        let errors = load(toml, &variables, &["--log-format", "xml"]).unwrap_err();
        assert_eq!(
            errors,
            [
                "test.toml:2: \"many\" is no value for placement.body_bytes_max; \
                 allowed: a whole number from 1024 to 1073741824 (bytes)",
                "PLACEWRIGHT_PLACEMENT_LISTEN: \"localhost\" is no value for placement.listen; \
                 allowed: an IP address with a port, as in 127.0.0.1:8778 or [::1]:8778",
                "--log-format: \"xml\" is no value for log.format; allowed: text, json",
            ]
        );
    }

    #[test]
    fn a_file_that_is_no_toml_names_the_line() {
        let errors = load("[placement]\nlisten = \n", &[], &[]).unwrap_err();
        assert!(errors[0].starts_with("test.toml:2: "), "{errors:?}");
    }
}
