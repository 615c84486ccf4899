//! Checks that the claim requests of a cell are for its own instances and its own hosts.

use placewright_conductor::{Amounts, Candidate, CellId, ClaimChange, ClaimRequest};
use uuid::Uuid;

use crate::machine::ControlMachine;

/// Checks that claim requests concern only the instances, hosts and moves of the cell with this name.
///
/// # Errors
///
/// A sentence for the cell about the first request that concerns anything else.
pub(crate) fn authorize(
    control: &ControlMachine,
    cell_name: &str,
    requests: &[ClaimRequest],
) -> Result<(), String> {
    let mut cells = control.state.conductor.cells().iter();
    let named = cells.find(|(_, row)| row.name == cell_name);
    let own_cell = named.map(|(id, _)| *id);
    let own_cell = own_cell.ok_or_else(|| format!("control has no cell {cell_name:?}"))?;
    requests
        .iter()
        .try_for_each(|request| authorize_request(control, own_cell, request))
}

fn authorize_request(
    control: &ControlMachine,
    own_cell: CellId,
    request: &ClaimRequest,
) -> Result<(), String> {
    let conductor = &control.state.conductor;
    // A request for an instance that control does not know is answered with `Gone`, whichever cell sends it. A cell
    // from which an instance was taken gets the same answer to the requests that it numbered before the instance was
    // taken.
    if let Some(mapping) = conductor.mappings().get(&request.instance)
        && mapping.cell != Some(own_cell)
        && !mapping
            .left_cell()
            .is_some_and(|left| left.cell == own_cell && request.number < left.first_number)
    {
        return Err(format!(
            "the instance {} is not of this cell",
            request.instance
        ));
    }
    match &request.change {
        ClaimChange::Release { .. } => Ok(()),
        ClaimChange::Settle { migration, .. } => match conductor.migrations().get(migration) {
            Some(row) if row.cell != own_cell || row.instance != request.instance => Err(format!(
                "the move {migration} is not of the instance {}",
                request.instance
            )),
            _ => Ok(()),
        },
        ClaimChange::Swap { candidates } => candidates
            .iter()
            .try_for_each(|candidate| authorize_candidate(control, own_cell, candidate)),
    }
}

fn authorize_candidate(
    control: &ControlMachine,
    own_cell: CellId,
    candidate: &Candidate,
) -> Result<(), String> {
    authorize_provider(control, own_cell, candidate.host.0)?;
    let amounts = candidate.amounts.iter();
    amounts
        .map(|Amounts { provider, .. }| *provider)
        .try_for_each(|provider| authorize_provider(control, own_cell, provider))
}

/// Checks that a resource provider is not in the tree of another cell's host. Sharing providers
/// belong to no cell and are allowed. An unknown provider is allowed too: no claim on it succeeds.
fn authorize_provider(
    control: &ControlMachine,
    own_cell: CellId,
    provider: Uuid,
) -> Result<(), String> {
    let placement = control.placement();
    let found = placement.provider_id(provider);
    let root = found.and_then(|id| placement.provider(placement.provider(id)?.root));
    let Some(root) = root else { return Ok(()) };
    let host = placewright_conductor::HostId(root.uuid);
    match control.state.conductor.hosts().get(&host) {
        Some(row) if row.cell != own_cell => Err(format!(
            "the resource provider {provider} is of a host of another cell"
        )),
        _ => Ok(()),
    }
}
