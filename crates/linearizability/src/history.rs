//! Histories as `tests/replicas` records them: a line of JSON for each operation, in any order.

use std::collections::BTreeMap;
use std::io::BufRead;

use serde::Deserialize;
use thiserror::Error;

use crate::Operation;
use crate::provider::{Input, Output};

/// The operations on one object.
pub type ObjectHistory = Vec<Operation<Input, Output>>;

/// A line of a history.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// The name of the object. Objects are independent, so each is checked by itself: a history is linearizable if
    /// that of each object is.
    object: String,
    client: u32,
    /// When the operation was called. Both times are of one clock, in any unit.
    call: u64,
    /// When the answer came; `null` if the outcome is not known.
    answered: Option<u64>,
    input: Input,
    output: Option<Output>,
}

/// Why a history cannot be read.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// The file cannot be read.
    #[error("cannot read: {0}")]
    Read(#[from] std::io::Error),
    /// A line is not an operation.
    #[error("line {number}: {reason}")]
    Line {
        /// The number of the line, from 1.
        number: usize,
        /// The problem with the line.
        reason: String,
    },
}

/// Reads a history, and parts it by object.
///
/// # Errors
/// The history cannot be read, or a line is not an operation.
pub fn read(source: impl BufRead) -> Result<BTreeMap<String, ObjectHistory>, HistoryError> {
    let mut objects: BTreeMap<String, ObjectHistory> = BTreeMap::new();
    for (index, line) in source.lines().enumerate() {
        let (object, operation) = parse(&line?).map_err(|reason| HistoryError::Line {
            number: index + 1,
            reason,
        })?;
        objects.entry(object).or_default().push(operation);
    }
    Ok(objects)
}

fn parse(line: &str) -> Result<(String, Operation<Input, Output>), String> {
    let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if !line.input.is_valid() {
        return Err("there is no such consumer".to_owned());
    }
    let answer = match (line.answered, line.output) {
        (None, None) => None,
        (Some(time), Some(output)) => Some((time, output)),
        _ => return Err("an answer has a time and an output, or neither".to_owned()),
    };
    let operation = Operation {
        client: line.client,
        call: line.call,
        answer,
        input: line.input,
    };
    Ok((line.object, operation))
}
