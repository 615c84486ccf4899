//! Traces of a cluster: its machines and the tasks that were submitted to it, from CSV files.
//!
//! The format is that of the public traces `cluster-trace-gpu-v2023`: columns are found by the names
//! in the first row, in any order, and other columns are ignored. The error for an invalid file names
//! the file, the line and the column.
//!
//! - [`nodes`] reads machines; a machine becomes a tree of resource [`provider`]s.
//! - [`tasks`] reads tasks; a task becomes a server of a [`flavor`].
//!
//! The conversion loses no requirement. CPU is a custom class in thousandths of a core, because tasks
//! request parts of cores. Each GPU is a provider of its own with 1,000 units, because a task requests a
//! part of one GPU, or several whole GPUs, which must be different ones. The model of a GPU is a trait.
//!
//! ```
//! # use std::path::Path;
//! let nodes = "sn,cpu_milli,memory_mib,gpu,model\nn1,32000,65536,2,T4\n";
//! let nodes = placewright_trace::nodes::parse(Path::new("nodes.csv"), nodes.as_bytes()).unwrap();
//! let providers = placewright_trace::provider::providers(&nodes[0]);
//! assert_eq!(providers[0].inventories[0], ("CUSTOM_MILLI_CPU", 32000));
//! assert_eq!(providers[2].traits, ["CUSTOM_GPU_MODEL_T4"]);
//!
//! let wrong = "sn,cpu_milli,memory_mib,gpu,model\nn1,many,65536,2,T4\n";
//! let error = placewright_trace::nodes::parse(Path::new("nodes.csv"), wrong.as_bytes());
//! let error = error.unwrap_err().to_string();
//! assert_eq!(error, "nodes.csv, line 2, column cpu_milli: \"many\" is no whole number");
//! ```

pub mod flavor;
pub mod nodes;
pub mod provider;
mod table;
pub mod tasks;

pub use flavor::Flavor;
pub use nodes::Node;
pub use provider::Provider;
pub use table::TraceError;
pub use tasks::Task;

/// The resource class of CPU, in thousandths of a core.
pub const MILLI_CPU: &str = "CUSTOM_MILLI_CPU";
/// The resource class of memory, in MiB.
pub const MEMORY_MB: &str = "MEMORY_MB";
/// The resource class of local disk, in GiB.
pub const DISK_GB: &str = "DISK_GB";
/// The resource class of a GPU, in thousandths of one.
pub const GPU_MILLI: &str = "CUSTOM_GPU_MILLI";
/// A whole GPU in thousandths.
pub const GPU_MILLI_TOTAL: u32 = 1000;

/// The trait of a GPU model: `V100-M16` has `CUSTOM_GPU_MODEL_V100_M16`.
#[must_use]
pub fn model_trait(model: &str) -> String {
    let letters = model.chars().map(|letter| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' => letter.to_ascii_uppercase(),
        _ => '_',
    });
    format!("CUSTOM_GPU_MODEL_{}", letters.collect::<String>())
}
