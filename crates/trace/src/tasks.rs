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
    /// The number of different GPUs that it needs.
    pub gpus: u32,
    /// The share of each GPU in thousandths; 0 if it needs none.
    pub gpu_milli: u32,
    /// The acceptable GPU models, sorted; empty for all.
    pub gpu_models: Vec<String>,
    /// The time of submission in seconds of the trace.
    pub created_s: u64,
    /// The time of departure in seconds of the trace; `None` if the trace does not say.
    pub deleted_s: Option<u64>,
}

/// An upper bound of the GPUs of a task.
const GPUS_MAX: u32 = 1024;
/// Long enough for a list of many models, short enough for a flavor's name.
const GPU_SPEC_LENGTH_MAX: usize = 150;

/// Reads the tasks of a file in the order in which they were submitted; tasks of one second keep
/// the order of the file.
///
/// # Errors
///
/// [`TraceError`] for a file that cannot be read or is wrong.
pub fn read(file: &Path) -> Result<Vec<Task>, TraceError> {
    let reader = File::open(file).map_err(|why| TraceError::Unreadable {
        file: file.to_owned(),
        why,
    })?;
    parse(file, reader)
}

/// Reads tasks from any reader, as [`read`] does; `file` is its name in errors.
///
/// # Errors
///
/// [`TraceError`] for what is wrong with it.
pub fn parse(file: &Path, reader: impl Read) -> Result<Vec<Task>, TraceError> {
    let table = Table::read(file, reader)?;
    let name = table.column("name")?;
    let cpu = table.column("cpu_milli")?;
    let memory = table.column("memory_mib")?;
    let gpus = table.column("num_gpu")?;
    let gpu_milli = table.column("gpu_milli")?;
    let gpu_spec = table.column_if_any("gpu_spec");
    let created = table.column("creation_time")?;
    let deleted = table.column_if_any("deletion_time");
    table.check_unique(name)?;
    let mut tasks = Vec::new();
    for row in table.rows() {
        let gpus = row.at_most(gpus, GPUS_MAX)?;
        let created_s = row
            .number(created)?
            .ok_or_else(|| row.wrong(created, "it is empty".to_owned()))?;
        let deleted_s = row.number(deleted)?;
        if deleted_s.is_some_and(|deleted_s| deleted_s < created_s) {
            return Err(row.wrong(deleted, "it is before creation_time".to_owned()));
        }
        tasks.push(Task {
            name: row.name(name)?,
            cpu_milli: row.amount(cpu)?,
            memory_mib: row.amount(memory)?,
            gpus,
            gpu_milli: if gpus == 0 {
                0
            } else {
                share(&row, gpu_milli)?
            },
            gpu_models: if gpus == 0 {
                Vec::new()
            } else {
                models(&row, gpu_spec)?
            },
            created_s,
            deleted_s,
        });
    }
    tasks.sort_by_key(|task| task.created_s);
    Ok(tasks)
}

fn share(row: &Row<'_>, column: Column) -> Result<u32, TraceError> {
    let share = row.at_most(column, GPU_MILLI_TOTAL)?;
    if share == 0 {
        let reason = format!("a task with GPUs takes 1 to {GPU_MILLI_TOTAL} of each");
        return Err(row.wrong(column, reason));
    }
    Ok(share)
}

fn models(row: &Row<'_>, column: Column) -> Result<Vec<String>, TraceError> {
    let text = row.text(column);
    if text.chars().count() > GPU_SPEC_LENGTH_MAX {
        let reason = format!("it has more than {GPU_SPEC_LENGTH_MAX} characters");
        return Err(row.wrong(column, reason));
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
