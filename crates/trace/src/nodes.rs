//! Machines: `sn,cpu_milli,memory_mib,gpu,model`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::table::{Table, TraceError};

/// A machine of the trace, with its CPU, memory and GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The name (`sn`), unique in the file.
    pub name: String,
    /// CPU in thousandths of a core.
    pub cpu_milli: u32,
    /// Memory of the machine in MiB.
    pub memory_mib: u32,
    /// The number of GPUs, all of one model.
    pub gpus: u32,
    /// The model of the GPUs; `None` if the machine has no GPU or the file does not name the model.
    pub gpu_model: Option<String>,
}

/// The most GPUs of a machine: a larger number is a mistake in the file.
const GPUS_MAX: u32 = 1024;

/// Reads the machines of a file, in its order.
///
/// # Errors
///
/// [`TraceError`] for a file that cannot be read or is wrong.
pub fn read(file: &Path) -> Result<Vec<Node>, TraceError> {
    let reader = File::open(file).map_err(|error| TraceError::Unreadable {
        file: file.to_owned(),
        error,
    })?;
    parse(file, reader)
}

/// Parses machines; errors name `file`.
///
/// # Errors
///
/// [`TraceError`] for invalid CSV or a wrong value.
pub fn parse(file: &Path, reader: impl Read) -> Result<Vec<Node>, TraceError> {
    let table = Table::read(file, reader)?;
    let name = table.column("sn")?;
    let cpu = table.column("cpu_milli")?;
    let memory = table.column("memory_mib")?;
    let gpus = table.column("gpu")?;
    let model = table.optional_column("model");
    table.check_unique(name)?;
    let mut nodes = Vec::new();
    for row in table.rows() {
        let gpus = row.number_up_to(gpus, GPUS_MAX)?;
        let has_model = gpus > 0 && !row.text(model).is_empty();
        nodes.push(Node {
            name: row.name(name)?,
            cpu_milli: row.amount(cpu)?,
            memory_mib: row.amount(memory)?,
            gpus,
            gpu_model: has_model.then(|| row.name(model)).transpose()?,
        });
    }
    Ok(nodes)
}
