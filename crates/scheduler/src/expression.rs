//! Filters and weighers that operators write as expressions in the configuration.
//!
//! The language is the Common Expression Language (<https://cel.dev>). An expression reads one host
//! and the request and computes one value. It has no side effects.
//!
//! ```
//! use placewright_scheduler::expression::{Expression, ExpressionConfig};
//!
//! let config = ExpressionConfig {
//!     name: "KeepWindowsTogether".to_owned(),
//!     filter: Some(
//!         "!('os_type' in request.image_properties) || host.stats.role == 'windows'".to_owned(),
//!     ),
//!     ..ExpressionConfig::default()
//! };
//! assert!(Expression::load(&config).is_ok());
//!
//! let wrong = ExpressionConfig {
//!     filter: Some("host.io_ops < 4 &&\n host.colour == 'red'".to_owned()),
//!     ..config
//! };
//! let error = Expression::load(&wrong).unwrap_err();
//! assert_eq!((error.line, error.column), (2, 6));
//! ```
//!
//! A filter is a condition: `host.io_ops < 4`. If the condition cannot be computed for a host, for example
//! because the host lacks a statistic, the host does not pass. A weigher is a number:
//! `host.metrics['cpu.percent']`. If the number cannot be computed for a host, the host's raw value is 0. Errors
//! that concern every host, such as an unknown field or a text compared with a number, are found
//! when the configuration is read.

use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, ExecutionError, Program, Value};
use thiserror::Error;

pub use crate::config::ExpressionConfig;

use crate::context;
use crate::hosts::aggregate::Aggregates;
use crate::hosts::verdict::Verdict;
use crate::weighers::{CompiledWeigher, RawValues};

mod check;
mod fields;

use fields::Variables;

/// The longest expression, in bytes.
pub const LENGTH_MAX: usize = 4096;

/// The environment of the language, shared by all expressions.
static LANGUAGE: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// An expression that cannot be parsed or evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name}: line {line}, column {column}: {message}")]
pub struct ExpressionError {
    /// The name of the expression in the configuration.
    pub name: String,
    /// The line of the error, from 1; 1 if the error concerns the whole expression.
    pub line: usize,
    /// The column of the error, from 1.
    pub column: usize,
    /// A description of the error for operators.
    pub message: String,
}

/// The purpose of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Purpose {
    Filter,
    Weigher { multiplier: f64 },
}

/// A compiled expression, ready to be evaluated for hosts.
pub struct Expression {
    name: String,
    /// The metadata key by which an aggregate overrides the multiplier.
    multiplier_key: String,
    purpose: Purpose,
    program: Program,
    /// Whether the value of the expression may differ from host to host.
    reads_host: bool,
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expression")
            .field("name", &self.name)
            .field("purpose", &self.purpose)
            .finish_non_exhaustive()
    }
}

/// The line and column, from 1, of an offset in characters.
fn line_and_column(source: &str, offset: usize) -> (usize, usize) {
    let before: Vec<char> = source.chars().take(offset).collect();
    let line = before
        .iter()
        .filter(|character| **character == '\n')
        .count()
        + 1;
    let in_line = before
        .iter()
        .rev()
        .take_while(|character| **character != '\n');
    (line, in_line.count() + 1)
}

impl Expression {
    /// Compiles an expression and evaluates it for a sample host, to find errors early.
    ///
    /// # Errors
    ///
    /// [`ExpressionError`] with the position of the error.
    pub fn load(config: &ExpressionConfig) -> Result<Self, ExpressionError> {
        let error_at = |(line, column): (usize, usize), message: String| ExpressionError {
            name: config.name.clone(),
            line,
            column,
            message,
        };
        let start = (1, 1);
        let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if config.name.is_empty() || !config.name.bytes().all(is_name_byte) {
            let message = "the name must be letters, digits, _ and -";
            return Err(error_at(start, message.to_owned()));
        }
        let (source, purpose) = match (&config.filter, &config.weigher) {
            (Some(source), None) => (source, Purpose::Filter),
            (None, Some(source)) if config.multiplier.is_finite() => {
                let multiplier = config.multiplier;
                (source, Purpose::Weigher { multiplier })
            }
            (None, Some(_)) => {
                return Err(error_at(start, "the multiplier must be finite".to_owned()));
            }
            _ => {
                let message = "say either what to filter by or what to weigh by";
                return Err(error_at(start, message.to_owned()));
            }
        };
        if source.len() > LENGTH_MAX {
            let message = format!("longer than {LENGTH_MAX} bytes");
            return Err(error_at(start, message));
        }
        let program = LANGUAGE.compile(source).map_err(|errors| {
            let first_error = errors.errors.first();
            let from_one = |number: isize| usize::try_from(number).unwrap_or(0).max(1);
            let position = first_error.map_or(start, |error| {
                let (line, column) = error.pos;
                (from_one(line), from_one(column))
            });
            let message = first_error.map_or("cannot be read", |error| error.msg.as_str());
            error_at(position, message.to_owned())
        })?;
        let analysis = check::analyse(program.expression()).map_err(|error| {
            let offset = program.source_info().offset_for(error.node);
            let offset =
                usize::try_from(offset.map_or(0, |(node_start, _)| node_start)).unwrap_or(0);
            error_at(line_and_column(source, offset), error.message)
        })?;
        let expression = Self {
            name: config.name.clone(),
            multiplier_key: format!("{}_weight_multiplier", config.name),
            purpose,
            program,
            reads_host: analysis.reads_host,
        };
        expression
            .evaluate_for_sample()
            .map_err(|message| error_at(start, message))?;
        Ok(expression)
    }

    /// The name under which explanations list the expression.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Evaluates the expression for a sample host, to find errors that occur for every host.
    fn evaluate_for_sample(&self) -> Result<(), String> {
        let hosts = fields::sample_hosts();
        let request = fields::sample_request();
        let value = match self.evaluate(&Variables::new(&hosts, 0, &request)) {
            // A missing key is no error, because another host may have it.
            Err(ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_)) => {
                return Ok(());
            }
            Err(error) => return Err(error.to_string()),
            Ok(value) => value,
        };
        match (self.purpose, &value) {
            (Purpose::Filter, Value::Bool(_)) => Ok(()),
            (Purpose::Filter, _) => Err(format!("comes to {}, not to a bool", value.type_of())),
            (Purpose::Weigher { .. }, _) if number(&value).is_some() => Ok(()),
            (Purpose::Weigher { .. }, _) => {
                Err(format!("comes to {}, not to a number", value.type_of()))
            }
        }
    }

    fn evaluate(&self, variables: &Variables<'_>) -> Result<Value, ExecutionError> {
        let mut context = Context::with_env(LANGUAGE.clone());
        context.set_variable_resolver(variables);
        self.program.execute(&context)
    }

    /// The verdict over all hosts, if the expression is a filter.
    #[must_use]
    pub fn filter<'a>(&'a self, context: &context::Context<'a>) -> Option<Verdict<'a>> {
        if self.purpose != Purpose::Filter {
            return None;
        }
        let (hosts, request) = (context.hosts, context.request);
        let passes = move |slot: u32| {
            let value = self.evaluate(&Variables::new(hosts, slot, request));
            matches!(value, Ok(Value::Bool(true)))
        };
        // An expression that does not read the host has one value for all: slot 0 stands for every host.
        Some(match self.reads_host {
            true => Verdict::Each(Box::new(passes)),
            false if passes(0) => Verdict::All,
            false => Verdict::None,
        })
    }

    /// The compiled weigher, if the expression is a weigher.
    #[must_use]
    pub fn weigher<'a>(&'a self, context: &context::Context<'a>) -> Option<CompiledWeigher<'a>> {
        let Purpose::Weigher { multiplier } = self.purpose else {
            return None;
        };
        let (hosts, request) = (context.hosts, context.request);
        let raw_value = move |slot: u32| {
            let value = self.evaluate(&Variables::new(hosts, slot, request));
            value.ok().and_then(|value| number(&value)).unwrap_or(0.0)
        };
        let raw_values = if self.reads_host {
            RawValues::Each(Box::new(raw_value))
        } else {
            RawValues::Constant(raw_value(0))
        };
        let aggregates: &Aggregates = hosts.aggregates();
        let overrides = aggregates.overrides(&self.multiplier_key);
        Some(CompiledWeigher::custom(
            &self.name, multiplier, overrides, raw_values,
        ))
    }
}

/// Converts a value to a finite number; `None` if the value is not a finite number.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Int(number) => *number as f64,
        Value::UInt(number) => *number as f64,
        Value::Float(number) => *number,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests;
