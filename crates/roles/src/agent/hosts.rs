//! The driver that the options select, and its hosts.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use placewright_agent::command::{self, CommandDriver};
use placewright_agent::simulated::{self, DurationDistribution, IdenticalHosts, SimulatedDriver};
use placewright_agent::{Driver, HostDescription, Operation};

use super::config_error;
use crate::config::ConfigErrors;
use crate::options::{AgentOptions, DriverKind, Number};

/// Creates the driver that `agent.driver` names, with the options of its kind.
///
/// # Errors
///
/// The options are not valid.
pub(super) fn create_driver(options: &AgentOptions) -> Result<Arc<dyn Driver>, ConfigErrors> {
    match options.driver {
        DriverKind::Simulated => {
            let simulated = simulated::Options {
                hosts: simulated_hosts(options)?,
                times: parse_by_operation::<DurationDistribution>("times_ms", &options.times_ms)?,
                failure_rates: parse_by_operation::<Rate>("failures", &options.failures)?
                    .into_iter()
                    .map(|(operation, rate)| (operation, rate.0))
                    .collect(),
                seed: u64::try_from(options.seed.get()).unwrap_or(0),
            };
            Ok(Arc::new(SimulatedDriver::new(simulated)))
        }
        DriverKind::Command => {
            let Some(directory) = &options.commands else {
                let missing = "is needed for the driver command: the directory of executables";
                return Err(config_error("commands", &missing));
            };
            let mut command = command::Options::new(directory, options.directory());
            command
                .further_variables
                .clone_from(&options.command_environment);
            command.images.clone_from(&options.images);
            command.timeout = super::seconds(options.command_timeout_s);
            command.timeouts =
                parse_by_operation::<Seconds>("command_timeouts_s", &options.command_timeouts_s)?
                    .into_iter()
                    .map(|(operation, seconds)| (operation, seconds.0))
                    .collect();
            let command =
                CommandDriver::new(command).map_err(|error| config_error("commands", &error))?;
            Ok(Arc::new(command))
        }
    }
}

fn simulated_hosts(options: &AgentOptions) -> Result<Vec<HostDescription>, ConfigErrors> {
    let hosts = match &options.nodes_file {
        Some(file) => {
            let nodes = placewright_trace::nodes::read(file);
            simulated::hosts_of_trace(&nodes.map_err(|error| config_error("nodes_file", &error))?)
        }
        None => IdenticalHosts {
            count: u32_or_max(options.hosts),
            prefix: options.prefix.clone(),
            vcpus: u32_or_max(options.vcpus),
            cpu_ratio: options.cpu_allocation_ratio.0,
            memory_mb: u32_or_max(options.memory_mb),
            disk_gb: u32_or_max(options.disk_gb),
            gpus: u32_or_max(options.gpus),
            gpu_model: options.gpu_model.clone(),
        }
        .hosts(),
    };
    let part_error = || config_error("part", &"write NUMBER/OF, 1/3 for example");
    let (part, parts) = options.part.split_once('/').ok_or_else(part_error)?;
    let parse = |text: &str| text.parse::<usize>().map_err(|_| part_error());
    let (part, parts) = (parse(part)?, parse(parts)?);
    if part == 0 || part > parts {
        return Err(part_error());
    }
    let hosts = simulated::shard(hosts, part - 1, parts);
    if hosts.is_empty() {
        return Err(config_error("part", &"no host is in this part"));
    }
    Ok(hosts)
}

/// The number as a `u32`; a negative or too large number becomes the maximum.
fn u32_or_max<const MIN: i64, const MAX: i64>(number: Number<MIN, MAX>) -> u32 {
    u32::try_from(number.get()).unwrap_or(u32::MAX)
}

/// Parses a list of texts `VERB=VALUE`, where the verb is an operation of drivers.
fn parse_by_operation<T>(
    name: &str,
    list: &[String],
) -> Result<BTreeMap<Operation, T>, ConfigErrors>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    let parse_pair = |text: &String| {
        let operations = || Operation::ALL.map(Operation::name).join(", ");
        let (operation, value) = text
            .split_once('=')
            .ok_or_else(|| config_error(name, &format!("{text:?}: write VERB=VALUE")))?;
        let operation_of_name = Operation::from_name(operation.trim());
        let operation = operation_of_name.ok_or_else(|| {
            config_error(name, &format!("{operation:?} is none of {}", operations()))
        })?;
        let value = value
            .trim()
            .parse::<T>()
            .map_err(|error| config_error(name, &error))?;
        Ok((operation, value))
    };
    list.iter().map(parse_pair).collect()
}

/// A probability from 0 to 1.
struct Rate(f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = text.parse::<f64>().ok();
        let rate = rate.filter(|rate| (0.0..=1.0).contains(rate));
        rate.map(Self)
            .ok_or_else(|| format!("{text:?} is no number from 0 to 1"))
    }
}

/// A time-out in whole seconds.
struct Seconds(Duration);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seconds = text
            .parse()
            .ok()
            .filter(|seconds| (1..=86_400).contains(seconds));
        seconds
            .map(|seconds| Self(Duration::from_secs(seconds)))
            .ok_or_else(|| format!("{text:?} is no number of seconds from 1 to 86400"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{OPTIONS, Options};

    /// The options with some values that differ from the defaults.
    fn options(changed_options: &[(&str, &str)]) -> AgentOptions {
        let texts: Vec<&str> = OPTIONS
            .iter()
            .map(|spec| {
                let found = changed_options.iter().find(|(key, _)| spec.key() == *key);
                found.map_or(spec.default, |(_, text)| text)
            })
            .collect();
        Options::from_texts(&texts).unwrap().agent
    }

    #[test]
    fn each_host_is_in_one_part() {
        let hosts_in_part = |part: &str| {
            let changed_options = [("agent.hosts", "10"), ("agent.part", part)];
            simulated_hosts(&options(&changed_options)).unwrap().len()
        };
        assert_eq!(
            [
                hosts_in_part("1/3"),
                hosts_in_part("2/3"),
                hosts_in_part("3/3"),
                hosts_in_part("1/1")
            ],
            [4, 3, 3, 10]
        );
    }

    #[test]
    fn errors_name_the_option() {
        for (key, text) in [
            ("agent.part", "4/3"),
            ("agent.part", "one"),
            ("agent.times_ms", "build=5"),
            ("agent.times_ms", "spawn=80-20"),
            ("agent.failures", "spawn=1.5"),
            ("agent.failures", "spawn"),
            ("agent.nodes_file", "/nowhere/nodes.csv"),
            ("agent.driver", "command"),
        ] {
            let errors = create_driver(&options(&[(key, text)])).err();
            let error = errors.unwrap().to_string();
            // The driver `command` needs another option, which the error names.
            let named_option = key.replace("driver", "commands");
            assert!(error.contains(&named_option), "{key} {text}: {error}");
        }
    }
}
