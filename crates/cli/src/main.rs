//! The `placewright` program: all commands and roles.

mod accounts;
mod audit;
mod bench_program;
mod check;
mod client;
mod cloud;
mod compute_api;
mod credentials;
mod explain;
mod fits;
mod journal;
mod openapi;
mod pki;
mod replicas;
mod scheduler_api;
mod secrets;
mod shell;
mod top;
mod topology;
mod why;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use placewright_roles::config::{self, AllFlags, Config, ConfigErrors, ControlFlags, Environment};
use placewright_roles::output::print;
use placewright_roles::{agent, cell, control, up, use_small_pages};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// An independent cloud scheduler: a drop-in Placement service on a durable state machine
#[derive(Debug, Parser)]
#[command(name = "placewright", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a whole installation in this process: control, cells, simulated hosts
    Up(Box<up::Up>),
    /// Run control: placement, and what is configured of the scheduler, cells and the compute API
    Control(ControlFlags),
    /// Run one cell: its instances, and its hosts' agents
    Cell(cell::CellArgs),
    /// Manage hosts: simulated ones, or real ones through executables
    Agent(agent::AgentArgs),
    /// Check, show and explain the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Inspect and maintain a store without a server
    #[command(subcommand)]
    Journal(journal::JournalCommand),
    /// Manage the keys that seal secrets of servers
    #[command(subcommand)]
    Secrets(secrets::SecretsCommand),
    /// Find inconsistencies between allocations, records, cells and hosts; exit code 1 if there are any
    Audit(audit::AuditCommand),
    /// Show what a control process does: which replica leads, since when and why, how far each is; exit code 1 if one
    /// does not answer, or its store has lost entries
    Status(replicas::StatusCommand),
    /// Show builds, claims a second, conflicts and hosts by load, live; or once, where there is no terminal
    Top(top::Top),
    /// Make another replica of control lead, before maintenance of this one's machine. Requests go on meanwhile. Ask
    /// the one that leads (`placewright status`). A replica that is ended by SIGTERM hands over by itself
    HandOver(replicas::HandOverCommand),
    /// Append acknowledged entries that the store has lost, from the memory of the replica at --url; `placewright
    /// status` shows which these are. To give them up instead, start all replicas anew
    AppendLost(replicas::AppendLostCommand),
    /// Make, renew and revoke the certificates of control, cells and agents
    #[command(subcommand)]
    Pki(Box<pki::PkiCommand>),
    /// Explain which hosts a request for allocation candidates finds, and why it does not find others
    Explain(explain::Explain),
    /// Say how many more of a flavor fit now, by cell, zone and place, and what stops the next one
    Fits(fits::Fits),
    /// Say why a server is where it is, and not elsewhere, as it was decided, and what was tried
    Why(why::Why),
    /// Print the API's description (OpenAPI 3.1)
    Openapi(openapi::OpenApi),
    /// Print the rules that a policy file may have
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Manage users, where `auth.strategy` is `identity`
    User(accounts::UserArgs),
    /// Manage projects, where `auth.strategy` is `identity`
    Project(accounts::ProjectArgs),
    /// Manage roles, and which users have them, where `auth.strategy` is `identity`
    Role(accounts::RoleArgs),
    /// Define the places of hosts: racks, rows, rooms
    #[command(subcommand)]
    Topology(topology::TopologyCommand),
    /// Print the completions of commands and options for a shell
    Completions(shell::Completions),
    /// Print the manual page of the program, or of a command
    Man(shell::ManPage),
    /// Drive a running installation with a trace of machines and tasks (placewright-bench)
    #[command(disable_help_flag = true)]
    Replay(bench_program::Forwarded),
    /// Measure a server (placewright-bench)
    #[command(disable_help_flag = true)]
    Bench(bench_program::Forwarded),
    /// Print each task and the commands that run it: a test build can have each of them panic
    #[cfg(feature = "fault-injection")]
    Tasks,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Print a policy file with every rule and its default, commented out
    Sample,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Read the configuration as a role does: print errors, and warnings about unusual settings
    Check(check::Check),
    /// Print the effective values and where each came from; secrets are hidden
    Show(AllFlags),
    /// Print a configuration file with every option and its default
    Sample,
    /// Print the reference of all options (docs/configuration.md)
    Reference,
    /// Print the scheduler's rules with all defaults, as `scheduler.rules_file` may hold them
    Scheduler,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            if tracing::dispatcher::has_been_set() {
                tracing::error!("{error:#}");
            } else {
                eprintln!("placewright: {error:#}");
            }
            // Errors in the user's input end with exit code 2, as a wrong command line does; all others with 1.
            if error.is::<ConfigErrors>() || error.is::<journal::BadArgument>() {
                ExitCode::from(2)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    // Small memory pages are for commands that hold a large state in memory as long as they run. An agent must not
    // choose them, because the executables that its driver starts would inherit the setting.
    if matches!(
        command,
        Command::Up(_) | Command::Control(_) | Command::Cell(_)
    ) {
        use_small_pages();
    }
    match command {
        Command::Up(up) => up::run(&up)?,
        Command::Audit(command) => {
            let is_clean = command.run()?;
            if !is_clean {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Control(flags) => control::run(&flags)?,
        Command::Cell(arguments) => cell::run(&arguments)?,
        Command::Agent(arguments) => agent::run(&arguments)?,
        Command::Config(command) => return run_config(command),
        Command::Journal(command) => {
            let is_intact = command.run()?;
            if !is_intact {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Status(command) => {
            let are_well = command.run()?;
            if !are_well {
                return Ok(ExitCode::FAILURE);
            }
        }
        Command::Top(command) => command.run()?,
        Command::HandOver(command) => command.run()?,
        Command::AppendLost(command) => command.run()?,
        Command::Pki(command) => command.run()?,
        Command::Secrets(command) => command.run()?,
        Command::Explain(command) => command.run()?,
        Command::Fits(command) => command.run()?,
        Command::Why(command) => command.run()?,
        Command::Openapi(command) => command.run()?,
        Command::Policy(PolicyCommand::Sample) => print(&placewright_auth::sample_policy())?,
        Command::Topology(command) => command.run()?,
        Command::User(arguments) => arguments.run()?,
        Command::Project(arguments) => arguments.run()?,
        Command::Role(arguments) => arguments.run()?,
        Command::Completions(command) => command.run(Cli::command())?,
        Command::Man(command) => command.run(Cli::command())?,
        Command::Replay(forwarded) => return Err(forwarded.execute(&["replay"])),
        Command::Bench(forwarded) => return Err(forwarded.execute(&[])),
        #[cfg(feature = "fault-injection")]
        Command::Tasks => print(&tasks())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A line for each long-lived task, with the commands that run it, and for each kind of contained work.
#[cfg(feature = "fault-injection")]
fn tasks() -> String {
    use placewright_tasks::{ContainedWork, ProcessKind, Task};

    let mut text = String::new();
    for task in Task::ALL {
        let processes = task.processes().iter();
        let processes: Vec<&str> = processes
            .map(|process| ProcessKind::name(*process))
            .collect();
        text += &format!("{} {}\n", task.name(), processes.join(","));
    }
    for what in ContainedWork::ALL {
        text += &format!("{} contained\n", what.name());
    }
    text
}

fn run_config(command: ConfigCommand) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    match command {
        ConfigCommand::Check(check) => return check.run(),
        ConfigCommand::Show(flags) => {
            print(&config::text::show(&Config::load(&flags, &environment)?))?;
        }
        ConfigCommand::Sample => print(&config::text::sample())?,
        ConfigCommand::Reference => print(&config::text::reference())?,
        ConfigCommand::Scheduler => print(&control::scheduler_rules::sample()?)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};

    use super::*;
    use placewright_roles::config::Flags;

    /// The variables that a command and those below it take for options.
    fn variables(command: &clap::Command) -> Vec<OsString> {
        let own = command.get_arguments().filter_map(clap::Arg::get_env);
        let below = command.get_subcommands().flat_map(variables);
        own.map(OsStr::to_owned).chain(below).collect()
    }

    #[test]
    fn variables_of_client_commands_are_no_unknown_options_of_roles() {
        let names = variables(&Cli::command());
        assert!(names.contains(&"PLACEWRIGHT_UI_URL".into()), "{names:?}");
        let environment = names
            .into_iter()
            .map(|name| (name, "http://localhost".into()));
        let flags = Flags::with_config(Some("/dev/null".into()));
        Config::load(&flags, &environment.collect()).unwrap();
    }
}
