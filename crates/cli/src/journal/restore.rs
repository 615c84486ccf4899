//! `placewright journal restore`: a store from a backup.

use std::path::{Path, PathBuf};

use clap::Args;
use placewright_journal::backup::{self, BackupContents};
use placewright_roles::output::print;

use super::bad_argument::classify;
use super::progress::{Progress, size};
use super::until::{RestorePoint, Until};
use super::{digest, time, until};

/// Arguments of `placewright journal restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
The whole backup is verified before anything is written, and the state is loaded from the new store before \
that gets its name: what has the name STORE is whole. Nothing that exists is touched; move an old store away \
first. What is printed is the entry that the store ends with, when it was written, and the digest of the \
state, as `placewright journal digest` prints it.\n\n\
--until SEQUENCE keeps that entry and leaves out those after it. --until TIME keeps what was acknowledged \
before TIME and leaves out what was asked for after it, by the clock of the machine that ran the service. The \
number of an entry is in the change stream and in `placewright journal export`.\n\n\
A restored store knows nothing of what came later, though other roles do. Run `placewright audit` once the service \
runs on it, and read \
\"Back up and restore\" in docs/operations.md before --repair.\n\n\
Exit code 2: what was asked for cannot be (a store that exists, a moment that the backup does not reach); \
1: it failed.\n\n\
Examples:\n  \
  placewright journal restore placement-20261122T140500.000Z-120000.backup /var/lib/placewright/placement\n  \
  placewright journal restore BACKUP STORE --until 2026-11-22T14:02:30Z\n  \
  placewright journal restore BACKUP --check")]
pub(crate) struct RestoreCommand {
    /// The file that `placewright journal backup` made
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// The directory of the store to make
    #[arg(value_name = "STORE", required_unless_present = "check")]
    store: Option<PathBuf>,

    /// The last entry to keep, or a time in RFC 3339
    #[arg(long, value_name = "SEQUENCE|TIME", value_parser = until::parse)]
    until: Option<Until>,

    /// Only verify the backup and say what it holds
    #[arg(long, conflicts_with_all = ["store", "until"])]
    check: bool,
}

impl RestoreCommand {
    /// Restores the store, and prints its last entry and the digest of its state. With `--check` it only verifies the
    /// backup and prints what the backup holds.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if let Some(store) = &self.store
            && store.symlink_metadata().is_ok()
        {
            let path = store.clone();
            return Err(classify(backup::BackupError::Exists { path }));
        }
        let mut restore_point = RestorePoint::new(self.until);
        let inspected = backup::inspect(&self.backup, &mut |batch| restore_point.add_batch(batch))
            .map_err(classify)?;
        let Some(store) = &self.store else {
            return print(&description(&self.backup, &inspected));
        };
        let (last, at) = restore_point.find(&inspected)?;
        if let Some(warning) = restore_point.warning() {
            eprintln!("placewright: {warning}");
        }
        let mut progress = Progress::new();
        let restored = backup::restore(&self.backup, store, last, &mut |reached| {
            progress.show(reached);
        });
        // This erases the line of progress before anything else is printed.
        drop(progress);
        let mut restored = restored.map_err(classify)?;
        let directory = restored.journal().directory().to_path_buf();
        let digests = digest::digests(restored.journal(), &directory, &[last])?;
        restored.publish().map_err(classify)?;
        let mut text = format!("{}: restored to entry {last}", store.display());
        if let Some(at) = at {
            text.push_str(&format!(" of {}", time::text(at)));
        }
        for (_, digest) in digests {
            text.push_str(&format!(", digest {digest:032x}"));
        }
        print(&format!("{text}\n"))
    }
}

/// Describes the content of a backup, for the option `--check`.
fn description(path: &Path, inspected: &BackupContents) -> String {
    let mut description = format!(
        "{}: whole; restores to each entry from {} to {}, with everything acknowledged before {}; {}",
        path.display(),
        inspected.first,
        inspected.end,
        time::text(inspected.made_at),
        size(inspected.bytes)
    );
    if !inspected.files.is_empty() {
        description.push_str(&format!("; with {}", inspected.files.join(", ")));
    }
    description.push('\n');
    description
}
