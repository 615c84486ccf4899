//! The filters, weighers and expressions that a configuration enables.

use crate::config::{ALL_WEIGHERS, ConfigError, SchedulerConfig, short_name};
use crate::expression::Expression;
use crate::{filters, weighers};

/// The weighers that `weight_classes` names, in its order.
///
/// # Errors
///
/// [`ConfigError`] names the first that does not exist.
pub fn enabled_weighers(
    config: &SchedulerConfig,
) -> Result<Vec<&'static weighers::Weigher>, ConfigError> {
    let mut enabled = Vec::new();
    for name in &config.weight_classes {
        if short_name(name) == short_name(ALL_WEIGHERS) {
            enabled.extend(weighers::ALL.iter().copied());
            continue;
        }
        enabled.push(weighers::find(short_name(name)).ok_or_else(|| ConfigError {
            option: "weight_classes".to_owned(),
            text: format!(
                "there is no weigher {name:?}; there are {}",
                weighers::names()
            ),
        })?);
    }
    Ok(enabled)
}

/// The filters that `enabled_filters` names, in its order.
///
/// # Errors
///
/// [`ConfigError`] names the first that does not exist.
pub fn enabled_filters(
    config: &SchedulerConfig,
) -> Result<Vec<&'static filters::Filter>, ConfigError> {
    let find = |name: &String| {
        filters::find(short_name(name)).ok_or_else(|| ConfigError {
            option: "enabled_filters".to_owned(),
            text: format!(
                "there is no filter {name:?}; there are {}",
                filters::names()
            ),
        })
    };
    config.enabled_filters.iter().map(find).collect()
}

/// Compiles the configured expressions.
///
/// # Errors
///
/// All errors of all expressions.
pub fn load_expressions(config: &SchedulerConfig) -> Result<Vec<Expression>, Vec<ConfigError>> {
    let (mut loaded, mut errors) = (Vec::new(), Vec::new());
    for (index, expression) in config.expressions.iter().enumerate() {
        let name = expression.name.as_str();
        let is_taken = filters::find(name).is_some() || weighers::find(name).is_some();
        let mut earlier = config.expressions[..index].iter();
        if is_taken || earlier.any(|other| other.name == name) {
            errors.push(ConfigError {
                option: "expressions".to_owned(),
                text: format!("the name {name:?} is taken"),
            });
            continue;
        }
        match Expression::load(expression) {
            Ok(expression) => loaded.push(expression),
            Err(error) => errors.push(ConfigError {
                option: "expressions".to_owned(),
                text: error.to_string(),
            }),
        }
    }
    if errors.is_empty() {
        Ok(loaded)
    } else {
        Err(errors)
    }
}
