//! A task as a flavor: its requirements as extra specs of the compute API.

use std::collections::BTreeMap;

use crate::tasks::Task;
use crate::{GPU_MILLI, MEMORY_MB, MILLI_CPU, model_trait};

/// The flavor of tasks with equal requirements; its name is derived from them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flavor {
    /// A name composed of the requirements.
    pub name: String,
    /// Whole processors, at least 1; shown by the API only, because CPU is claimed through extra
    /// specs.
    pub vcpus: u32,
    /// Memory in MiB, at least 1.
    pub memory_mib: u32,
    /// The resources and traits that are claimed, as extra specs of the compute API.
    pub extra_specs: BTreeMap<String, String>,
}

/// The flavor of a task.
///
/// CPU and memory are in the group without a suffix. Each GPU is a group of its own (`_GPU1`, `_GPU2`, …), and these
/// groups are served by different providers. A single model is a required trait; of several models, each is acceptable:
/// `placewright:any_trait_GPU1`.
#[must_use]
pub fn flavor(task: &Task) -> Flavor {
    let mut extra_specs = BTreeMap::new();
    let mut add = |key: String, value: String| extra_specs.insert(key, value);
    // CPU is claimed only in thousandths of a core, so no VCPU is claimed.
    add("resources:VCPU".to_owned(), "0".to_owned());
    add(format!("resources:{MILLI_CPU}"), task.cpu_milli.to_string());
    add(
        format!("resources:{MEMORY_MB}"),
        task.memory_mib.to_string(),
    );
    let traits: Vec<_> = task
        .gpu_models
        .iter()
        .map(|model| model_trait(model))
        .collect();
    for number in 1..=task.gpus {
        add(
            format!("resources_GPU{number}:{GPU_MILLI}"),
            task.gpu_milli.to_string(),
        );
        match &*traits {
            [] => None,
            [model] => add(format!("trait_GPU{number}:{model}"), "required".to_owned()),
            models => add(
                format!("placewright:any_trait_GPU{number}"),
                models.join(","),
            ),
        };
    }
    if task.gpus > 1 {
        add("group_policy".to_owned(), "isolate".to_owned());
    }
    Flavor {
        name: name(task),
        vcpus: task.cpu_milli.div_ceil(1000).max(1),
        memory_mib: task.memory_mib.max(1),
        extra_specs,
    }
}

/// The name of a task's flavor, such as `trace-12000m-16384M-2x1000-A10.T4`.
fn name(task: &Task) -> String {
    let mut name = format!("trace-{}m-{}M", task.cpu_milli, task.memory_mib);
    if task.gpus > 0 {
        name.push_str(&format!("-{}x{}", task.gpus, task.gpu_milli));
    }
    if !task.gpu_models.is_empty() {
        name.push('-');
        name.push_str(&task.gpu_models.join("."));
    }
    name
}
