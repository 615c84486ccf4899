//! Alternates for the selected hosts.

use std::collections::HashSet;

use super::request::DestinationsRequest;
use super::search;
use super::selected::SelectedHost;
use super::shared::Shared;
use crate::placer::{FeasibleHost, TimeSlice};

/// Alternates for each instance that has a host, all in the cell of that host. Hosts that are selected for other
/// instances, or are alternates of these, are used only if there are not enough other hosts. Other tasks run in
/// between, because there may be a search for each of a thousand instances.
pub(super) async fn alternates(
    shared: &Shared,
    request: &DestinationsRequest,
    selected: &mut [Option<SelectedHost>],
) -> Vec<Vec<FeasibleHost>> {
    let wanted = request.alternate_count;
    if wanted == 0 {
        return selected.iter().map(|_| Vec::new()).collect();
    }
    let slots = selected.iter().flatten().map(|one| one.host.slot);
    let mut taken_slots: HashSet<u32> = slots.collect();
    let mut all = Vec::with_capacity(selected.len());
    let mut slice = TimeSlice::begin();
    for (index, selected_host) in selected.iter_mut().enumerate() {
        slice.yield_if_over().await;
        let Some(selected_host) = selected_host else {
            all.push(Vec::new());
            continue;
        };
        let cell = selected_host.host.cell();
        let others = std::mem::take(&mut selected_host.others).into_iter();
        let others = others.filter(|host| host.cell() == cell);
        let (mut found, taken_hosts): (Vec<FeasibleHost>, Vec<FeasibleHost>) =
            others.partition(|host| !taken_slots.contains(&host.slot));
        if found.len() < wanted && selected_host.has_all_of_cell {
            found.extend(taken_hosts);
        } else if found.len() < wanted {
            found = search_alternates(shared, request, index, selected_host, &taken_slots);
        }
        found.truncate(wanted);
        taken_slots.extend(found.iter().map(|host| host.slot));
        all.push(found);
    }
    all
}

/// Alternates from a separate search, when the ranking of the selection had too few.
fn search_alternates(
    shared: &Shared,
    request: &DestinationsRequest,
    index: usize,
    selected: &SelectedHost,
    taken_slots: &HashSet<u32>,
) -> Vec<FeasibleHost> {
    let instance = request.instances[index];
    let find = |count, excluded_slots: &[u32]| {
        let scope = (selected.host.cell(), excluded_slots);
        let found = search::in_cell(shared, &request.request_spec, instance, count, scope);
        // The same request was ranked before, so the search does not fail. If it does, there are no alternates.
        found.map_or_else(|_| Vec::new(), |found| found.hosts)
    };
    let wanted = request.alternate_count;
    let mut excluded_slots: Vec<u32> = taken_slots.iter().copied().collect();
    excluded_slots.sort_unstable();
    let mut found = find(wanted, &excluded_slots);
    if found.len() < wanted {
        // There are too few hosts that no other instance uses, so hosts of other instances serve as alternates, too.
        let mut used_slots: Vec<u32> = found.iter().map(|host| host.slot).collect();
        used_slots.push(selected.host.slot);
        found.extend(find(wanted - found.len(), &used_slots));
    }
    found
}
