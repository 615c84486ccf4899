//! Guest NUMA cells as request groups: the processors and memory of a cell come from one provider.

use std::collections::BTreeMap;

use placewright_placement::GroupPolicy;

use crate::error::BadRequest;
use crate::request::RequestGroup;
use crate::translate::cpu::EmulatorThreadsPolicy;
use crate::translate::numa::{GuestCell, GuestTopology};
use crate::translate::resource_request::ResourceRequest;
use crate::translate::rule::CandidateRule;
use crate::translate::translation::Translation;

/// The suffix of a cell's group.
pub(crate) fn suffix(cell: usize) -> String {
    format!("_NUMA{cell}")
}

/// Moves processors and memory from the unsuffixed group into a group for each cell.
///
/// Amounts that the flavor set itself under `resources:` stay in their group, except for as many
/// PCPU as it has processors: those are the guest's. Traits of hardware and of the compute service
/// are required of the host if the unsuffixed group no longer includes processors.
pub(super) fn split(
    guest: &GuestTopology,
    explicit: &BTreeMap<String, u64>,
    request: &mut ResourceRequest,
) -> Result<(), BadRequest> {
    let unsuffixed = request.group("");
    let in_unsuffixed = |class| unsuffixed.resources.contains_key(class);
    let has_memory = in_unsuffixed("MEMORY_MB") && !explicit.contains_key("MEMORY_MB");
    let has_cpus =
        (in_unsuffixed("VCPU") || in_unsuffixed("PCPU")) && !explicit.contains_key("VCPU");
    if has_memory {
        unsuffixed.resources.remove("MEMORY_MB");
    }
    if has_cpus {
        unsuffixed.resources.remove("VCPU");
        unsuffixed.resources.remove("PCPU");
        raise_traits(request);
    }
    for (number, cell) in guest.cells.iter().enumerate() {
        let group = RequestGroup {
            requester_id: suffix(number),
            resources: resources(guest, number, cell, has_cpus, has_memory),
            ..RequestGroup::default()
        };
        if !group.is_empty() {
            request.add_group(group, "hw:numa_nodes")?;
        }
    }
    Ok(())
}

fn resources(
    guest: &GuestTopology,
    number: usize,
    cell: &GuestCell,
    has_cpus: bool,
    has_memory: bool,
) -> BTreeMap<String, u64> {
    // The emulator's threads are placed with the first cell.
    let isolated = guest.emulator_threads_policy == Some(EmulatorThreadsPolicy::Isolate);
    let for_emulator = u64::from(isolated && number == 0);
    let mut resources = BTreeMap::new();
    let mut add = |class: &str, amount: u64| {
        if amount > 0 {
            resources.insert(class.to_owned(), amount);
        }
    };
    if has_cpus {
        add("VCPU", cell.shared_cpus.len() as u64);
        add("PCPU", cell.dedicated_cpus.len() as u64 + for_emulator);
    }
    if has_memory {
        add("MEMORY_MB", cell.memory_mb);
    }
    resources
}

/// Moves traits that belong to the host from the unsuffixed group to the root requirements.
fn raise_traits(request: &mut ResourceRequest) {
    let is_of_host = |name: &str| name.starts_with("HW_") || name.starts_with("COMPUTE_");
    let Some(group) = &mut request.unsuffixed else {
        return;
    };
    let required = group
        .required_traits
        .extract_if(.., |name| is_of_host(name));
    request.root_required.extend(required);
    let forbidden = group
        .forbidden_traits
        .extract_if(.., |name| is_of_host(name));
    request.root_forbidden.extend(forbidden);
}

/// Adds the relations of cells: different cells are on different providers, and the devices of a
/// guest with one cell are below the cell's provider.
pub(super) fn relate(guest: &GuestTopology, translation: &mut Translation) {
    let Translation { request, rules, .. } = translation;
    let cells: Vec<_> = (0..guest.cells.len()).map(suffix).collect();
    let are_groups = cells.iter().all(|cell| {
        let mut groups = request.suffixed.iter();
        groups.any(|group| group.requester_id == *cell)
    });
    if !are_groups {
        return;
    }
    if let [_] = &*cells {
        rules.retain(|rule| match rule {
            CandidateRule::NearAny {
                group,
                cells,
                may_be_nowhere: false,
            } => {
                let near = cells.iter().chain([group]).cloned();
                request.same_subtree.push(near.collect());
                false
            }
            CandidateRule::NearAny { .. }
            | CandidateRule::Apart { .. }
            | CandidateRule::Host { .. } => true,
        });
        return;
    }
    if request.suffixed.len() == cells.len() && request.group_policy.is_none() {
        request.group_policy = Some(GroupPolicy::Isolate);
    }
    if request.group_policy != Some(GroupPolicy::Isolate) {
        let groups = cells;
        rules.push(CandidateRule::Apart { groups });
    }
}
