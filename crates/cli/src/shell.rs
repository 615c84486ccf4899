//! `placewright completions` and `placewright man`: what shells and `man` need to know of the commands.

use clap::{Args, Command, ValueEnum};
use clap_complete::{Generator, shells};
use placewright_roles::output;

use crate::journal::BadArgument;

/// Arguments of `placewright completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    placewright completions bash > /etc/bash_completion.d/placewright\n  \
    placewright completions zsh > /usr/local/share/zsh/site-functions/_placewright\n  \
    placewright completions fish > ~/.config/fish/completions/placewright.fish")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// A shell for which there are completions.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Arguments of `placewright man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    placewright man | man -l -\n  \
    placewright man topology apply > placewright-topology-apply.1")]
pub(crate) struct ManPage {
    /// The command that the page is about; without one, the page lists the commands
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

impl Completions {
    /// Prints the script of the shell.
    ///
    /// # Errors
    ///
    /// The output cannot be written.
    pub(crate) fn run(&self, mut program: Command) -> anyhow::Result<()> {
        let name = program.get_name().to_owned();
        program.set_bin_name(name);
        program.build();
        let mut script = Vec::new();
        match self.shell {
            Shell::Bash => shells::Bash.try_generate(&program, &mut script)?,
            Shell::Zsh => shells::Zsh.try_generate(&program, &mut script)?,
            Shell::Fish => shells::Fish.try_generate(&program, &mut script)?,
        }
        output::print(&String::from_utf8(script)?)
    }
}

impl ManPage {
    /// Prints the page.
    ///
    /// # Errors
    ///
    /// There is no such command, or the output cannot be written.
    pub(crate) fn run(&self, mut program: Command) -> anyhow::Result<()> {
        program.build();
        let mut command = &program;
        for word in &self.command {
            let found = command.find_subcommand(word);
            let Some(found) = found else {
                let text = format!("there is no command {:?}", self.command.join(" "));
                return Err(BadArgument(text).into());
            };
            command = found;
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone()).render(&mut page)?;
        output::print(&String::from_utf8(page)?)
    }
}
