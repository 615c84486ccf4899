//! A machine as a tree of resource providers.

use crate::nodes::Node;
use crate::{DISK_GB, GPU_MILLI, GPU_MILLI_TOTAL, MEMORY_MB, MILLI_CPU, model_trait};

/// A resource provider that represents a machine or one of its GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// The machine's name for the root, `<machine>_gpu_<number>` for a GPU.
    pub name: String,
    /// The index of the parent provider in the list; `None` for the root.
    pub parent: Option<usize>,
    /// Resource classes with totals. Nothing is reserved or overcommitted.
    pub inventories: Vec<(&'static str, u32)>,
    /// The names of the provider's traits.
    pub traits: Vec<String>,
}

/// The disk of every machine in GiB: so large that it never limits, because traces have no disk.
const DISK_GB_TOTAL: u32 = 1_000_000;

/// The providers of a machine, the root first. Inventories with a total of 0 are left out.
#[must_use]
pub fn providers(node: &Node) -> Vec<Provider> {
    let totals = [
        (MILLI_CPU, node.cpu_milli),
        (MEMORY_MB, node.memory_mib),
        (DISK_GB, DISK_GB_TOTAL),
    ];
    let root = Provider {
        name: node.name.clone(),
        parent: None,
        inventories: totals.into_iter().filter(|(_, total)| *total > 0).collect(),
        traits: Vec::new(),
    };
    let gpus = (0..node.gpus).map(|number| Provider {
        name: format!("{}_gpu_{number}", node.name),
        parent: Some(0),
        inventories: vec![(GPU_MILLI, GPU_MILLI_TOTAL)],
        traits: node
            .gpu_model
            .iter()
            .map(|model| model_trait(model))
            .collect(),
    });
    std::iter::once(root).chain(gpus).collect()
}
