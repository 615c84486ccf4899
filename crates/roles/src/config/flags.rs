//! The layer of flags, and the help text of each option.

use std::marker::PhantomData;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::reads::{
    self, AllOptions, ReadByAgent, ReadByCell, ReadByControl, ReadByUp, ReadsOptions,
};
use super::{GivenValue, Source, Value};
use crate::options::{OPTIONS, OptionSpec, ValueSyntax};

/// The flags of a command line that set options, and `--config`.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// The value of `--config`.
    config: Option<PathBuf>,
    /// The options that were given as flags, each with its index in the table of options and its text.
    values: Vec<(usize, String)>,
}

impl Flags {
    /// The flags of a command that takes nothing but `--config`.
    pub fn with_config(config: Option<PathBuf>) -> Self {
        Self {
            config,
            values: Vec::new(),
        }
    }

    /// The configuration file that `--config` names.
    pub(super) fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The values of the options that were given as flags.
    pub(super) fn given(&self) -> impl Iterator<Item = GivenValue> {
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

/// The help text of an option.
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
        (spec.describe_allowed)(),
        spec.variable()
    )
}

/// The placeholder of an option's value.
fn placeholder(spec: &OptionSpec) -> String {
    if !spec.unit.is_empty() {
        return spec.unit.to_uppercase();
    }
    match spec.syntax {
        ValueSyntax::Text => "VALUE".to_owned(),
        ValueSyntax::Number => "NUMBER".to_owned(),
        ValueSyntax::Flag => "true|false".to_owned(),
        ValueSyntax::List => "VALUE,...".to_owned(),
    }
}

/// The flags of one command, which the marker type `R` names. Flags of options that the command does not
/// read are known but hidden, so that the error can name the commands that read them.
#[derive(Debug, Clone)]
pub struct FlagsOf<R>(Flags, PhantomData<R>);

/// All options, for commands about the configuration itself.
pub type AllFlags = FlagsOf<AllOptions>;
/// The options of `up`.
pub type UpFlags = FlagsOf<ReadByUp>;
/// The options of `control`.
pub type ControlFlags = FlagsOf<ReadByControl>;
/// The options of `cell`.
pub type CellFlags = FlagsOf<ReadByCell>;
/// The options of `agent`.
pub type AgentFlags = FlagsOf<ReadByAgent>;

impl<R> Deref for FlagsOf<R> {
    type Target = Flags;

    fn deref(&self) -> &Flags {
        &self.0
    }
}

/// The flag of an option, for clap.
fn argument(spec: &OptionSpec) -> Arg {
    let arg = Arg::new(spec.key())
        .long(spec.flag())
        .value_name(placeholder(spec))
        .help(help(spec))
        .help_heading(format!("[{}]", spec.section));
    if spec.syntax == ValueSyntax::Flag {
        return arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true");
    }
    arg
}

impl<R: ReadsOptions> Args for FlagsOf<R> {
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
        let read = reads::indexes_in_help_order(R::READER);
        let mut command = command.arg(config);
        for index in &read {
            if !OPTIONS[*index].secret {
                command = command.arg(argument(&OPTIONS[*index]));
            }
        }
        for (index, spec) in OPTIONS.iter().enumerate() {
            if !spec.secret && !read.contains(&index) {
                command = command.arg(argument(spec).hide(true));
            }
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<R: ReadsOptions> FromArgMatches for FlagsOf<R> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut values = Vec::new();
        for (index, spec) in OPTIONS.iter().enumerate().filter(|(_, spec)| !spec.secret) {
            let Some(text) = matches.get_one::<String>(&spec.key()) else {
                continue;
            };
            if let Some(reader) = R::READER
                && !reader.reads(spec)
            {
                return Err(clap::Error::raw(
                    ErrorKind::UnknownArgument,
                    format!(
                        "`placewright {}` does not read --{}; who reads it: {}\n",
                        reader.command,
                        spec.flag(),
                        reads::readers_of(spec)
                    ),
                ));
            }
            values.push((index, text.clone()));
        }
        let flags = Flags {
            config: matches.get_one::<PathBuf>("config").cloned(),
            values,
        };
        Ok(Self(flags, PhantomData))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
