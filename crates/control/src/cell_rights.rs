//! What a cell may ask for: claims of its own instances, on its own hosts.

use placewright_conductor::{Amounts, Candidate, CellId, ClaimChange, ClaimRequest};
use uuid::Uuid;

use crate::machine::ControlMachine;

/// Whether claim requests concern nothing but the cell of this name.
///
/// # Errors
///
/// The first that does not, as a sentence for the cell.
pub(crate) fn check(
    control: &ControlMachine,
    cell: &str,
    asks: &[ClaimRequest],
) -> Result<(), String> {
    let mut cells = control.0.conductor.cells().iter();
    let own = cells.find(|(_, row)| row.name == cell);
    let own = own.map(|(id, _)| *id);
    let own = own.ok_or_else(|| format!("control has no cell {cell:?}"))?;
    asks.iter().try_for_each(|ask| check_one(control, own, ask))
}

fn check_one(control: &ControlMachine, own: CellId, ask: &ClaimRequest) -> Result<(), String> {
    let conductor = &control.0.conductor;
    // An instance that control does not know is answered as gone, whoever asks.
    if let Some(mapping) = conductor.mappings().get(&ask.instance)
        && mapping.cell != Some(own)
    {
        return Err(format!("the instance {} is not of this cell", ask.instance));
    }
    match &ask.want {
        ClaimChange::Release { .. } => Ok(()),
        ClaimChange::Settle { migration, .. } => match conductor.migrations().get(migration) {
            Some(row) if row.cell != own || row.instance != ask.instance => Err(format!(
                "the move {migration} is not of the instance {}",
                ask.instance
            )),
            _ => Ok(()),
        },
        ClaimChange::Swap { candidates } => candidates
            .iter()
            .try_for_each(|candidate| check_candidate(control, own, candidate)),
    }
}

fn check_candidate(
    control: &ControlMachine,
    own: CellId,
    candidate: &Candidate,
) -> Result<(), String> {
    check_provider(control, own, candidate.host.0)?;
    let amounts = candidate.amounts.iter();
    amounts
        .map(|Amounts { provider, .. }| *provider)
        .try_for_each(|provider| check_provider(control, own, provider))
}

/// Whether a resource provider is one of the cell's: of a tree of one of its hosts, or of one that is
/// no cell's host and shares with others. One that there is not fits nothing.
fn check_provider(control: &ControlMachine, own: CellId, provider: Uuid) -> Result<(), String> {
    let placement = control.placement();
    let found = placement.provider_id(provider);
    let root = found.and_then(|id| placement.provider(placement.provider(id)?.root));
    let Some(root) = root else { return Ok(()) };
    let host = placewright_conductor::HostId(root.uuid);
    match control.0.conductor.hosts().get(&host) {
        Some(row) if row.cell != own => Err(format!(
            "the resource provider {provider} is of a host of another cell"
        )),
        _ => Ok(()),
    }
}
