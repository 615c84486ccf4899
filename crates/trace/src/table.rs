//! A CSV file whose columns are found by name, and its errors.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a trace cannot be used.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{}: {error}", file.display())]
    Unreadable {
        /// The file that was to be read.
        file: PathBuf,
        /// The error of the file system.
        error: std::io::Error,
    },
    /// A line is not valid CSV, or has another number of values than the header.
    #[error("{}: {error}", file.display())]
    NotCsv {
        /// The file that was read.
        file: PathBuf,
        /// The error of the CSV parser, which names the line.
        error: csv::Error,
    },
    /// The header lacks a column.
    #[error("{}, line 1: there is no column {column}; the columns are {}", file.display(), available.join(", "))]
    NoColumn {
        /// The file that was read.
        file: PathBuf,
        /// The name of the missing column.
        column: &'static str,
        /// The names of the columns in the header.
        available: Vec<String>,
    },
    /// A value is wrong.
    #[error("{}, line {line}, column {column}: {reason}", file.display())]
    BadValue {
        /// The file that was read.
        file: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The name of the column.
        column: &'static str,
        /// The problem with the value.
        reason: String,
    },
    /// The file has no rows after the header.
    #[error("{}: there are no rows", file.display())]
    NoRows {
        /// The file that was read.
        file: PathBuf,
    },
}

/// The maximum amount of a resource: inventories are 31 bits wide.
const AMOUNT_MAX: u32 = i32::MAX as u32;

/// A CSV file in memory.
pub(crate) struct Table<'a> {
    file: &'a Path,
    header: csv::StringRecord,
    /// The rows after the header, each with its line number.
    rows: Vec<(u64, csv::StringRecord)>,
}

/// A row with its line number.
pub(crate) struct Row<'a> {
    table: &'a Table<'a>,
    line: u64,
    record: &'a csv::StringRecord,
}

/// A column. Its index is `None` if the column is optional and the file lacks it.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    index: Option<usize>,
}

impl<'a> Table<'a> {
    /// Reads a CSV file with a header.
    pub(crate) fn read(file: &'a Path, reader: impl Read) -> Result<Self, TraceError> {
        let not_csv = |error| TraceError::NotCsv {
            file: file.to_owned(),
            error,
        };
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .from_reader(reader);
        let header = reader.headers().map_err(not_csv)?.clone();
        let mut rows = Vec::new();
        for record in reader.into_records() {
            let record = record.map_err(not_csv)?;
            let line = record.position().map_or(0, csv::Position::line);
            rows.push((line, record));
        }
        if rows.is_empty() {
            let file = file.to_owned();
            return Err(TraceError::NoRows { file });
        }
        Ok(Self { file, header, rows })
    }

    /// Finds a column that is required.
    pub(crate) fn column(&self, name: &'static str) -> Result<Column, TraceError> {
        let column = self.optional_column(name);
        if column.index.is_some() {
            return Ok(column);
        }
        Err(TraceError::NoColumn {
            file: self.file.to_owned(),
            column: name,
            available: self.header.iter().map(str::to_owned).collect(),
        })
    }

    /// Finds an optional column; if the file lacks it, all its values are empty.
    pub(crate) fn optional_column(&self, name: &'static str) -> Column {
        let index = self
            .header
            .iter()
            .position(|column_name| column_name == name);
        Column { name, index }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(line, record)| Row {
            table: self,
            line: *line,
            record,
        })
    }

    /// Checks that no two rows have the same name in a column.
    pub(crate) fn check_unique(&self, column: Column) -> Result<(), TraceError> {
        let mut line_by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for row in self.rows() {
            let line = row.line;
            let name = column.index.and_then(|index| row.record.get(index));
            if let Some(previous_line) = line_by_name.insert(name.unwrap_or_default(), line) {
                return Err(
                    row.value_error(column, format!("line {previous_line} has the same name"))
                );
            }
        }
        Ok(())
    }
}

impl<'a> Row<'a> {
    /// A value as written; empty if it is absent.
    pub(crate) fn text(&self, column: Column) -> &'a str {
        let value = column.index.and_then(|index| self.record.get(index));
        value.unwrap_or_default()
    }

    /// A name of 1 to 200 printable characters.
    pub(crate) fn name(&self, column: Column) -> Result<String, TraceError> {
        let text = self.text(column);
        if text.is_empty() {
            return Err(self.value_error(column, "it is empty".to_owned()));
        }
        if text.chars().count() > NAME_LENGTH_MAX || text.chars().any(char::is_control) {
            let reason = format!("a name has 1 to {NAME_LENGTH_MAX} printable characters");
            return Err(self.value_error(column, reason));
        }
        Ok(text.to_owned())
    }

    /// An amount of a resource; an empty value is 0.
    pub(crate) fn amount(&self, column: Column) -> Result<u32, TraceError> {
        self.number_up_to(column, AMOUNT_MAX)
    }

    /// A number up to `limit`; an empty value is 0.
    pub(crate) fn number_up_to(&self, column: Column, limit: u32) -> Result<u32, TraceError> {
        let number = self.number(column)?.unwrap_or(0);
        u32::try_from(number)
            .ok()
            .filter(|number| *number <= limit)
            .ok_or_else(|| self.value_error(column, format!("{number} is more than {limit}")))
    }

    /// A whole number; `None` for an empty value.
    pub(crate) fn number(&self, column: Column) -> Result<Option<u64>, TraceError> {
        let text = self.text(column);
        if text.is_empty() {
            return Ok(None);
        }
        // Some tools write whole numbers with a fraction of zeros.
        let integer_part = match text.split_once('.') {
            Some((integer_part, zeros)) if zeros.bytes().all(|digit| digit == b'0') => integer_part,
            _ => text,
        };
        match integer_part.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(self.value_error(column, format!("{text:?} is no whole number"))),
        }
    }

    /// An error about a value of this row.
    pub(crate) fn value_error(&self, column: Column, reason: String) -> TraceError {
        TraceError::BadValue {
            file: self.table.file.to_owned(),
            line: self.line,
            column: column.name,
            reason,
        }
    }
}

/// The longest name in characters. The names of providers, servers and flavors contain such a name, and have to stay
/// within their own limits.
const NAME_LENGTH_MAX: usize = 200;
