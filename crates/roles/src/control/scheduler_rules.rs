//! The file with filters, weighers, pre-filters, expressions and device aliases (`scheduler.rules_file`).
//! These are not among the options of the configuration, because some of them are nested tables.

use std::path::Path;

use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::prefilter::PrefilterOptions;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use placewright_scheduler::translate::TranslateOptions;
use placewright_scheduler::{filters, weighers};
use serde::{Deserialize, Serialize};

use crate::config::ConfigErrors;
use crate::options::Options;

/// The file, section by section. Missing keys have their defaults.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SchedulerRules {
    filter_scheduler: SchedulerConfig,
    prefilters: PrefilterOptions,
    translation: TranslateOptions,
}

/// Creates the scheduler with the rules of the file, or with the defaults. Adds a warning to `warnings` for each rule
/// that has no effect.
///
/// # Errors
///
/// The file cannot be read or parsed, or options in it are not valid: then there is an error for each.
pub(super) fn load(
    options: &Options,
    warnings: &mut Vec<String>,
) -> Result<Scheduler, ConfigErrors> {
    let file = options.scheduler.rules_file.as_deref();
    let rules = file.map_or_else(|| Ok(SchedulerRules::default()), read)?;
    let prefix = file.map_or_else(String::new, |file| format!("{}: ", file.display()));
    let prepare = PrepareOptions {
        translate: rules.translation,
        prefilter: rules.prefilters,
    };
    let scheduler = Scheduler::new(rules.filter_scheduler, prepare).map_err(|errors| {
        let errors = errors.iter();
        ConfigErrors(errors.map(|error| format!("{prefix}{error}")).collect())
    })?;
    for warning in scheduler.policy().warnings(scheduler.hosts()) {
        warnings.push(format!("{prefix}{}: {}", warning.option, warning.text));
    }
    Ok(scheduler)
}

fn read(file: &Path) -> Result<SchedulerRules, ConfigErrors> {
    let config_error = |what: String| {
        let message = format!("scheduler.rules_file {}: {what}", file.display());
        ConfigErrors(vec![message])
    };
    let text = std::fs::read_to_string(file).map_err(|error| config_error(error.to_string()))?;
    // The parser's message names the line and, for an unknown key, the keys that are allowed there.
    toml::from_str(&text).map_err(|error| config_error(error.to_string()))
}

/// A file with all defaults.
///
/// # Errors
///
/// The defaults cannot be written as text, which would be a bug.
pub fn sample() -> anyhow::Result<String> {
    let text = toml::to_string_pretty(&SchedulerRules::default())?;
    let (filters, weighers) = (filters::names(), weighers::names());
    Ok(format!(
        "# The scheduler's rules, for the file that `scheduler.rules_file` names, with their\n\
         # defaults. Names are those of Nova's [filter_scheduler] and [metrics]; a configuration can\n\
         # be carried over.\n\
         #\n\
         # Filters (enabled_filters): {filters}.\n\
         # Weighers (weight_classes): {weighers}.\n\
         #\n\
         # An expression is a filter or a weigher of your own (https://cel.dev):\n\
         #\n\
         # [[filter_scheduler.expressions]]\n\
         # name = \"Quiet\"\n\
         # filter = \"host.io_ops < 4\"\n\n{text}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_names_every_filter_and_weigher() {
        let text = sample().unwrap();
        let names = filters::ALL.iter().map(|filter| filter.name);
        for name in names.chain(weighers::ALL.iter().map(|weigher| weigher.name)) {
            assert!(text.contains(name), "{name}");
        }
    }

    #[test]
    fn the_sample_is_the_defaults() {
        let rules: SchedulerRules = toml::from_str(&sample().unwrap()).unwrap();
        assert_eq!(rules.filter_scheduler, SchedulerConfig::default());
        assert_eq!(rules.prefilters, PrefilterOptions::default());
        assert_eq!(rules.translation, TranslateOptions::default());
    }
}
