//! `placewright config check`: reports the errors that would prevent a start, and the warnings.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use placewright_roles::config::{AllFlags, Config, Environment};
use placewright_roles::{agent, cell, control};

/// Arguments of `placewright config check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The role whose start is checked
    #[arg(value_enum, default_value = "control")]
    role: Role,

    /// Exit with 2 also when there are only warnings
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    flags: AllFlags,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Role {
    /// Control, in a process of its own or within `placewright up`
    Control,
    /// A cell in a process of its own
    Cell,
    /// An agent in a process of its own
    Agent,
}

impl Check {
    /// Prints the errors and warnings of the configuration, or that there are none.
    ///
    /// # Errors
    /// The errors that would keep the role from starting.
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let config = Config::load(&self.flags, &Environment::of_process())?;
        let warnings = match self.role {
            Role::Control => control::check(&config)?,
            Role::Cell => {
                let (_token, warnings) = cell::check(&config)?;
                warnings
            }
            Role::Agent => agent::check(&config)?.warnings,
        };
        for warning in &warnings {
            eprintln!("warning: {warning}");
        }
        let warning_count = match warnings.len() {
            0 => String::new(),
            1 => ", 1 warning".to_owned(),
            count => format!(", {count} warnings"),
        };
        match &config.file {
            Some(file) => println!("{}: no errors{warning_count}", file.display()),
            None => {
                println!("no configuration file; environment and flags: no errors{warning_count}");
            }
        }
        Ok(if self.strict && !warnings.is_empty() {
            ExitCode::from(2)
        } else {
            ExitCode::SUCCESS
        })
    }
}
