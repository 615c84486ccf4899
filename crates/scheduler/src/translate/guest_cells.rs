//! Guest NUMA cells as request groups, so that one provider serves the processors and memory of a
//! cell.

use std::collections::BTreeMap;

use placewright_placement::GroupPolicy;

use crate::error::BadRequest;
use crate::request::RequestGroup;
use crate::translate::cpu::EmulatorThreadsPolicy;
use crate::translate::numa::GuestTopology;
use crate::translate::resource_request::ResourceRequest;
use crate::translate::rule::CandidateRule;
use crate::translate::translation::Translation;

/// The suffix of the group of a guest NUMA cell.
pub(crate) fn suffix(cell: usize) -> String {
    format!("_NUMA{cell}")
}

/// Moves processors and memory from the unsuffixed group into a group for each cell.
///
/// `explicit_amounts` are the amounts that the flavor sets with `resources:` or `resourcesN:`. If MEMORY_MB is among
/// them, memory is not moved; if VCPU is among them, neither VCPU nor PCPU is moved. An explicit PCPU alone does not
/// prevent the move. If the unsuffixed group has no processors any more, its traits of hardware and of the compute
/// service are required of the root provider.
pub(super) fn split(
    guest: &GuestTopology,
    explicit_amounts: &BTreeMap<String, u64>,
    request: &mut ResourceRequest,
) -> Result<(), BadRequest> {
    let unsuffixed = request.group("");
    let in_unsuffixed = |class| unsuffixed.resources.contains_key(class);
    let moves_memory = in_unsuffixed("MEMORY_MB") && !explicit_amounts.contains_key("MEMORY_MB");
    let moves_cpus =
        (in_unsuffixed("VCPU") || in_unsuffixed("PCPU")) && !explicit_amounts.contains_key("VCPU");
    if moves_memory {
        unsuffixed.resources.remove("MEMORY_MB");
    }
    if moves_cpus {
        unsuffixed.resources.remove("VCPU");
        unsuffixed.resources.remove("PCPU");
        move_host_traits(request);
    }
    for index in 0..guest.cells.len() {
        let group = RequestGroup {
            requester_id: suffix(index),
            resources: cell_resources(guest, index, moves_cpus, moves_memory),
            ..RequestGroup::default()
        };
        if !group.is_empty() {
            request.add_group(group, "hw:numa_nodes")?;
        }
    }
    Ok(())
}

/// The resources that are moved into the group of the cell with an index: its processors, its memory, or
/// both.
fn cell_resources(
    guest: &GuestTopology,
    index: usize,
    moves_cpus: bool,
    moves_memory: bool,
) -> BTreeMap<String, u64> {
    let cell = &guest.cells[index];
    // The emulator threads get their processor from the provider of the first cell.
    let isolates_emulator = guest.emulator_threads_policy == Some(EmulatorThreadsPolicy::Isolate);
    let emulator_cpus = u64::from(isolates_emulator && index == 0);
    let mut resources = BTreeMap::new();
    let mut add = |class: &str, amount: u64| {
        if amount > 0 {
            resources.insert(class.to_owned(), amount);
        }
    };
    if moves_cpus {
        add("VCPU", cell.shared_cpus.len() as u64);
        add("PCPU", cell.dedicated_cpus.len() as u64 + emulator_cpus);
    }
    if moves_memory {
        add("MEMORY_MB", cell.memory_mb);
    }
    resources
}

/// Moves traits of the host from the unsuffixed group to those that the root provider must have, or must not have.
fn move_host_traits(request: &mut ResourceRequest) {
    let is_host_trait = |name: &str| name.starts_with("HW_") || name.starts_with("COMPUTE_");
    let Some(group) = &mut request.unsuffixed else {
        return;
    };
    let required = group
        .required_traits
        .extract_if(.., |name| is_host_trait(name));
    request.root_required.extend(required);
    let forbidden = group
        .forbidden_traits
        .extract_if(.., |name| is_host_trait(name));
    request.root_forbidden.extend(forbidden);
}

/// Adds the relations of guest NUMA cells: different cells are on different providers, and if there
/// is one cell, the devices that need affinity are below its provider.
pub(super) fn add_relations(guest: &GuestTopology, translation: &mut Translation) {
    let Translation { request, rules, .. } = translation;
    let cells: Vec<_> = (0..guest.cells.len()).map(suffix).collect();
    let have_groups = cells.iter().all(|cell| {
        let mut groups = request.suffixed.iter();
        groups.any(|group| group.requester_id == *cell)
    });
    if !have_groups {
        return;
    }
    if let [_] = &*cells {
        rules.retain(|rule| match rule {
            CandidateRule::BelowAnyCell {
                group,
                cells,
                may_lack_numa_node: false,
            } => {
                let suffixes = cells.iter().chain([group]).cloned();
                request.same_subtree.push(suffixes.collect());
                false
            }
            CandidateRule::BelowAnyCell { .. }
            | CandidateRule::DifferentProviders { .. }
            | CandidateRule::Trait { .. }
            | CandidateRule::Host { .. } => true,
        });
        return;
    }
    if request.suffixed.len() == cells.len() && request.group_policy.is_none() {
        request.group_policy = Some(GroupPolicy::Isolate);
    }
    if request.group_policy != Some(GroupPolicy::Isolate) {
        let groups = cells;
        rules.push(CandidateRule::DifferentProviders { groups });
    }
}
