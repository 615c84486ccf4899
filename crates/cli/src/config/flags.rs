//! The layer of flags, and with it what `--help` says about each option.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::{Given, Source, Value};
use crate::options::{Form, OPTIONS, OptionSpec, SECTIONS};

/// The flags of one command line that set options, and `--config`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    config: Option<PathBuf>,
    values: Vec<(usize, String)>,
}

impl Flags {
    /// Flags of a command that takes nothing but `--config`.
    pub(crate) fn with_config(config: Option<PathBuf>) -> Self {
        Self {
            config,
            values: Vec::new(),
        }
    }

    /// The configuration file that `--config` names.
    pub(super) fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The values that were given.
    pub(super) fn given(&self) -> impl Iterator<Item = Given> {
        self.values.iter().map(|(index, text)| {
            let source = Source::Flag(OPTIONS[*index].flag());
            (
                *index,
                Value {
                    text: text.clone(),
                    source,
                },
            )
        })
    }
}

/// What `--help` says about an option.
fn help(spec: &OptionSpec) -> String {
    let unit = if spec.unit.is_empty() {
        String::new()
    } else {
        format!(" {}", spec.unit)
    };
    let default = if spec.default.is_empty() {
        "not set"
    } else {
        spec.default
    };
    format!(
        "{}\n[default: {default}{unit}] [allowed: {}] [env: {}]",
        spec.help,
        (spec.allowed)(),
        spec.variable()
    )
}

/// The placeholder of an option's value.
fn placeholder(spec: &OptionSpec) -> String {
    if !spec.unit.is_empty() {
        return spec.unit.to_uppercase();
    }
    match spec.form {
        Form::Text => "VALUE".to_owned(),
        Form::Number => "NUMBER".to_owned(),
        Form::Flag => "true|false".to_owned(),
        Form::List => "VALUE,...".to_owned(),
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help(
                "The configuration file (TOML)\n[default: the first that exists of \
                 ./placewright.toml, $CONFIGURATION_DIRECTORY/placewright.toml, \
                 /etc/placewright/placewright.toml] [env: PLACEWRIGHT_CONFIG]",
            );
        let mut command = command.arg(config);
        for section in SECTIONS {
            for spec in OPTIONS.iter().filter(|spec| spec.section == section.name) {
                if spec.secret {
                    continue;
                }
                let mut arg = Arg::new(spec.key())
                    .long(spec.flag())
                    .value_name(placeholder(spec))
                    .help(help(spec))
                    .help_heading(format!("[{}]", section.name));
                if spec.form == Form::Flag {
                    arg = arg
                        .num_args(0..=1)
                        .require_equals(true)
                        .default_missing_value("true");
                }
                command = command.arg(arg);
            }
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut values = Vec::new();
        for (index, spec) in OPTIONS.iter().enumerate().filter(|(_, spec)| !spec.secret) {
            if let Some(text) = matches.get_one::<String>(&spec.key()) {
                values.push((index, text.clone()));
            }
        }
        Ok(Self {
            config: matches.get_one::<PathBuf>("config").cloned(),
            values,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
