//! Filters and weighers that operators write as an expression, without building anything.
//!
//! The language is the Common Expression Language (<https://cel.dev>). An expression sees one host
//! and the request and computes one value; it can neither keep nor change nor call anything.
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
//! A filter is a condition: `host.io_ops < 4`. Where it cannot be computed, say because the host has
//! no statistic of a name, the host is refused. A weigher is a number: `host.metrics['cpu.percent']`.
//! Where it cannot be computed, the host has 0. Everything that is wrong for every host, an unknown
//! field or a text compared with a number, is found when the configuration is read.

use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, ExecutionError, Program, Value};
use thiserror::Error;

pub use crate::config::ExpressionConfig;

use crate::context;
use crate::hosts::aggregate::Aggregates;
use crate::hosts::verdict::Verdict;
use crate::weighers::{Compiled, RawValues};

mod check;
mod fields;

use fields::Scope;

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

/// What an expression is for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Use {
    Filter,
    Weigher { multiplier: f64 },
}

/// A compiled expression, ready to be evaluated for hosts.
pub struct Expression {
    name: String,
    multiplier_key: String,
    purpose: Use,
    program: Program,
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

/// The line and column, from 1, of a byte offset.
fn position(source: &str, offset: usize) -> (usize, usize) {
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
    /// [`ExpressionError`] says where it went wrong.
    pub fn load(config: &ExpressionConfig) -> Result<Self, ExpressionError> {
        let refuse = |(line, column): (usize, usize), message: String| ExpressionError {
            name: config.name.clone(),
            line,
            column,
            message,
        };
        let start = (1, 1);
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if config.name.is_empty() || !config.name.bytes().all(is_word) {
            let message = "the name must be letters, digits, _ and -";
            return Err(refuse(start, message.to_owned()));
        }
        let (source, purpose) = match (&config.filter, &config.weigher) {
            (Some(source), None) => (source, Use::Filter),
            (None, Some(source)) if config.multiplier.is_finite() => {
                let multiplier = config.multiplier;
                (source, Use::Weigher { multiplier })
            }
            (None, Some(_)) => {
                return Err(refuse(start, "the multiplier must be finite".to_owned()));
            }
            _ => {
                let message = "say either what to filter by or what to weigh by";
                return Err(refuse(start, message.to_owned()));
            }
        };
        if source.len() > LENGTH_MAX {
            let message = format!("longer than {LENGTH_MAX} bytes");
            return Err(refuse(start, message));
        }
        let program = LANGUAGE.compile(source).map_err(|errors| {
            let first = errors.errors.first();
            let place = |place: isize| usize::try_from(place).unwrap_or(0).max(1);
            let found = first.map_or(start, |error| (place(error.pos.0), place(error.pos.1)));
            let message = first.map_or("cannot be read", |error| error.msg.as_str());
            refuse(found, message.to_owned())
        })?;
        let findings = check::check(program.expression()).map_err(|wrong| {
            let offset = program.source_info().offset_for(wrong.node);
            let offset = usize::try_from(offset.map_or(0, |(start, _)| start)).unwrap_or(0);
            refuse(position(source, offset), wrong.message)
        })?;
        let expression = Self {
            name: config.name.clone(),
            multiplier_key: format!("{}_weight_multiplier", config.name),
            purpose,
            program,
            reads_host: findings.reads_host,
        };
        expression
            .try_out()
            .map_err(|message| refuse(start, message))?;
        Ok(expression)
    }

    /// The name under which explanations list it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Evaluates the expression for a sample host, to find errors that occur for every host.
    fn try_out(&self) -> Result<(), String> {
        let hosts = fields::sample_hosts();
        let request = fields::sample_request();
        let value = match self.compute(&Scope::new(&hosts, 0, &request)) {
            // A missing key is no error: another host may have it.
            Err(ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_)) => {
                return Ok(());
            }
            Err(error) => return Err(error.to_string()),
            Ok(value) => value,
        };
        match (self.purpose, &value) {
            (Use::Filter, Value::Bool(_)) => Ok(()),
            (Use::Filter, _) => Err(format!("comes to {}, not to a bool", value.type_of())),
            (Use::Weigher { .. }, _) if number(&value).is_some() => Ok(()),
            (Use::Weigher { .. }, _) => {
                Err(format!("comes to {}, not to a number", value.type_of()))
            }
        }
    }

    fn compute(&self, scope: &Scope<'_>) -> Result<Value, ExecutionError> {
        let mut context = Context::with_env(LANGUAGE.clone());
        context.set_variable_resolver(scope);
        self.program.execute(&context)
    }

    /// The verdict over all hosts, if it is a filter.
    #[must_use]
    pub fn filter<'a>(&'a self, context: &context::Context<'a>) -> Option<Verdict<'a>> {
        if self.purpose != Use::Filter {
            return None;
        }
        let (hosts, request) = (context.hosts, context.request);
        let passes = move |slot: u32| {
            let value = self.compute(&Scope::new(hosts, slot, request));
            matches!(value, Ok(Value::Bool(true)))
        };
        Some(match self.reads_host {
            true => Verdict::Each(Box::new(passes)),
            false if passes(0) => Verdict::All,
            false => Verdict::None,
        })
    }

    /// The compiled weigher, if it is one.
    #[must_use]
    pub fn weigher<'a>(&'a self, context: &context::Context<'a>) -> Option<Compiled<'a>> {
        let Use::Weigher { multiplier } = self.purpose else {
            return None;
        };
        let (hosts, request) = (context.hosts, context.request);
        let weigh = move |slot: u32| {
            let value = self.compute(&Scope::new(hosts, slot, request));
            value.ok().and_then(|value| number(&value)).unwrap_or(0.0)
        };
        let raw = if self.reads_host {
            RawValues::Each(Box::new(weigh))
        } else {
            RawValues::Constant(weigh(0))
        };
        let aggregates: &Aggregates = hosts.aggregates();
        let overrides = aggregates.overrides(&self.multiplier_key);
        Some(Compiled::custom(&self.name, multiplier, overrides, raw))
    }
}

/// Converts a value to a number that can be weighed.
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
