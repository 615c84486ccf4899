//! `placewright journal digest`: the digest of the state after an entry.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use placewright_cell::CellMachine;
use placewright_control::ControlMachine;
use placewright_engine::{Machine, Recovered, inner_record, recover_at};
use placewright_journal::{Journal, SqliteJournal};
use placewright_roles::cell::UUID_FILE;
use placewright_roles::output::print;

use super::StoreArgs;
use super::bad_argument::BadArgument;

/// The versions of cells' records; the first byte of a record is its version. Control's records have higher versions,
/// except those that old releases wrote.
const CELL_RECORD_VERSIONS: std::ops::RangeInclusive<u8> = 1..=2;

/// Arguments of `placewright journal digest`.
#[derive(Debug, Args)]
#[command(after_help = "\
A copy of a store has the same digest after the same entry, whatever its snapshots are. This command \
builds the state from the newest snapshot at or before the first entry that is asked for, and takes as much \
memory as the service does for its state. A service may write to the store meanwhile.\n\n\
Example: the digest of a restored store, to compare with the original's\n  \
  placewright journal digest --store /var/lib/placewright/placement --at 120000")]
pub(crate) struct DigestCommand {
    #[command(flatten)]
    store: StoreArgs,

    /// The entry; several times for several digests. Without it, the last one
    #[arg(long, value_name = "SEQUENCE")]
    at: Vec<u64>,
}

impl DigestCommand {
    /// Prints a line for each entry: its sequence and the digest.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let directory = self.store.directory()?;
        let mut journal = SqliteJournal::open_read_only(&directory)?;
        let end = journal.end()?;
        let mut sequences = self.at;
        if sequences.is_empty() {
            sequences.push(end);
        }
        sequences.sort_unstable();
        sequences.dedup();
        if let Some(too_large) = sequences.last().filter(|last| **last > end) {
            let text = format!("--at {too_large}: the last entry is {end}");
            return Err(BadArgument(text).into());
        }
        for (sequence, digest) in digests(&mut journal, &directory, &sequences)? {
            print(&format!("{sequence} {digest:032x}\n"))?;
        }
        Ok(())
    }
}

/// The digests of the states after the entries with these sequences. The sequences have to be in ascending order.
pub(super) fn digests(
    journal: &mut SqliteJournal,
    directory: &Path,
    sequences: &[u64],
) -> anyhow::Result<Vec<(u64, u128)>> {
    if directory.join(UUID_FILE).exists() {
        return digests_of::<CellMachine>(journal, sequences);
    }
    if !may_be_of_a_cell(journal)? {
        return digests_of::<ControlMachine>(journal, sequences);
    }
    // A cell of `placewright up` has its UUID from control's store, and therefore no file with the UUID in its own. So
    // without such a file the store may be control's or a cell's: try both state machines.
    match digests_of::<CellMachine>(journal, sequences) {
        Ok(digests) => Ok(digests),
        Err(cell_error) => digests_of::<ControlMachine>(journal, sequences).map_err(|_| cell_error),
    }
}

/// Whether the store may be a cell's: its last record has a version that cells write, or there is no record.
fn may_be_of_a_cell(journal: &mut SqliteJournal) -> anyhow::Result<bool> {
    let end = journal.end()?;
    if journal.first_held()? > end {
        return Ok(true);
    }
    let mut version = None;
    journal.read(end, &mut |_, record| {
        version = inner_record(record)
            .ok()
            .and_then(|record| record.first().copied());
        ControlFlow::Break(())
    })?;
    Ok(version.is_some_and(|version| CELL_RECORD_VERSIONS.contains(&version)))
}

fn digests_of<M: Machine>(
    journal: &mut dyn Journal,
    sequences: &[u64],
) -> anyhow::Result<Vec<(u64, u128)>> {
    let mut digests = Vec::new();
    let mut state: Option<Recovered<M>> = None;
    for &sequence in sequences {
        let mut recovered = match state.take() {
            Some(state) => state,
            None => recover_at(journal, sequence, &())
                .with_context(|| format!("the state after entry {sequence} cannot be built"))?,
        };
        // This does nothing if the state was just built, because it is the state after `sequence` then.
        recovered
            .advance(journal, sequence, &())
            .with_context(|| format!("the state after entry {sequence} cannot be built"))?;
        digests.push((sequence, recovered.machine.digest()));
        state = Some(recovered);
    }
    Ok(digests)
}
