//! Tasks: `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::GPU_MILLI_TOTAL;
use crate::table::{Column, Row, Table, TraceError};

/// A task: its requirements, and its times of arrival and departure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The name, unique in the file.
    pub name: String,
    /// CPU in thousandths of a core.
    pub cpu_milli: u32,
    /// Memory of the task in MiB.
    pub memory_mib: u32,
    /// The number of GPUs that the task needs, all different.
    pub gpus: u32,
    /// The share of each GPU in thousandths; 0 if the task needs none.
    pub gpu_milli: u32,
    /// The acceptable GPU models, sorted; empty for all.
    pub gpu_models: Vec<String>,
    /// The time of submission in seconds of the trace.
    pub created_s: u64,
    /// The time of departure in seconds of the trace; `None` if the trace has none.
    pub deleted_s: Option<u64>,
}

/// The most GPUs of a task: a larger number is a mistake in the file.
const GPUS_MAX: u32 = 1024;
/// The longest list of GPU models in characters, so that the flavor's name, which contains the list, fits the limit of
/// names.
const GPU_SPEC_LENGTH_MAX: usize = 150;

/// Reads the tasks of a file in the order in which they were submitted. Tasks that were submitted in the same second
/// keep the order of the file.
///
/// # Errors
///
/// [`TraceError`] for a file that cannot be read or is wrong.
pub fn read(file: &Path) -> Result<Vec<Task>, TraceError> {
    let reader = File::open(file).map_err(|error| TraceError::Unreadable {
        file: file.to_owned(),
        error,
    })?;
    parse(file, reader)
}

/// Parses tasks in the order in which they were submitted; errors name `file`.
///
/// # Errors
///
/// [`TraceError`] for invalid CSV or a wrong value.
pub fn parse(file: &Path, reader: impl Read) -> Result<Vec<Task>, TraceError> {
    let table = Table::read(file, reader)?;
    let name = table.column("name")?;
    let cpu = table.column("cpu_milli")?;
    let memory = table.column("memory_mib")?;
    let gpus = table.column("num_gpu")?;
    let gpu_milli = table.column("gpu_milli")?;
    let gpu_spec = table.optional_column("gpu_spec");
    let created = table.column("creation_time")?;
    let deleted = table.optional_column("deletion_time");
    table.check_unique(name)?;
    let mut tasks = Vec::new();
    for row in table.rows() {
        let gpus = row.number_up_to(gpus, GPUS_MAX)?;
        let created_s = row
            .number(created)?
            .ok_or_else(|| row.value_error(created, "it is empty".to_owned()))?;
        let deleted_s = row.number(deleted)?;
        if deleted_s.is_some_and(|deleted_s| deleted_s < created_s) {
            return Err(row.value_error(deleted, "it is before creation_time".to_owned()));
        }
        tasks.push(Task {
            name: row.name(name)?,
            cpu_milli: row.amount(cpu)?,
            memory_mib: row.amount(memory)?,
            gpus,
            gpu_milli: if gpus == 0 {
                0
            } else {
                parse_gpu_share(&row, gpu_milli)?
            },
            gpu_models: if gpus == 0 {
                Vec::new()
            } else {
                parse_models(&row, gpu_spec)?
            },
            created_s,
            deleted_s,
        });
    }
    tasks.sort_by_key(|task| task.created_s);
    Ok(tasks)
}

fn parse_gpu_share(row: &Row<'_>, column: Column) -> Result<u32, TraceError> {
    let share = row.number_up_to(column, GPU_MILLI_TOTAL)?;
    if share == 0 {
        let reason = format!("a task with GPUs takes 1 to {GPU_MILLI_TOTAL} of each");
        return Err(row.value_error(column, reason));
    }
    Ok(share)
}

fn parse_models(row: &Row<'_>, column: Column) -> Result<Vec<String>, TraceError> {
    let text = row.text(column);
    if text.chars().count() > GPU_SPEC_LENGTH_MAX {
        let reason = format!("it has more than {GPU_SPEC_LENGTH_MAX} characters");
        return Err(row.value_error(column, reason));
    }
    let mut models: Vec<String> = text
        .split('|')
        .map(|model| model.trim().to_owned())
        .filter(|model| !model.is_empty())
        .collect();
    models.sort_unstable();
    models.dedup();
    Ok(models)
}
