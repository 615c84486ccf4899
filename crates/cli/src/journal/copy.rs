//! `placewright journal copy`: copies a journal to another engine, and seals the old one.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use placewright_journal::backup::BackupProgress;
use placewright_journal::{Copied, CopyError, Journal, JournalError, copy};
use placewright_roles::Store;
use placewright_roles::config::chain;
use placewright_roles::output::print;

use super::bad_argument::BadArgument;
use super::progress::Progress;

/// Arguments of `placewright journal copy`.
#[derive(Debug, Args)]
#[command(after_help = "\
A store is a directory, or the address of an engine as in store.url. Entries keep their numbers, and snapshots are \
copied with them. The old store is sealed once all but its last entries are copied, and these are copied after that: \
whoever has it open gets an error that names the new store. There is no way back. A directory has to be out of use; \
on an engine the service may run until its store is sealed.\n\n\
A copy that was interrupted goes on where it ended when the command is given again. A target that holds something \
else is left as it is.\n\n\
Then set store.url (cell.store_url) to the new address, and start the service. What belongs to the machine, as the \
keys of secrets and a cell's UUID, stays in store.path (cell.store_path).\n\n\
Exit code 2: what was asked for cannot be (a wrong address, no such store, a target that holds something else); \
1: it failed.\n\n\
Examples:\n  \
  placewright journal copy /var/lib/placewright/placement etcd://10.0.0.1:2379,10.0.0.2:2379/placewright\n  \
  placewright journal copy etcd://10.0.0.1:2379/placewright postgresql://10.0.0.4,10.0.0.5/placewright")]
pub(crate) struct CopyCommand {
    /// The store to copy, which is sealed
    #[arg(value_name = "FROM")]
    from: String,

    /// The store to make: one that is empty, or that an earlier copy began
    #[arg(value_name = "TO")]
    to: String,
}

impl CopyCommand {
    /// Makes the copy, and prints a description of its content.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let started = Instant::now();
        let from = parse("FROM", &self.from)?;
        let to = parse("TO", &self.to)?;
        if from.to_string() == to.to_string() {
            let reason = "FROM and TO are the same store";
            return Err(BadArgument(reason.into()).into());
        }
        let address = to.to_string();
        let mut source = open_source(from)?;
        let mut target = to.open().map_err(classify)?;
        let mut progress = Progress::new();
        let copied = copy(source.as_mut(), target.as_mut(), &address, &mut |at| {
            let (entry, end, bytes) = (at.entry, at.end, at.bytes);
            progress.show(&BackupProgress { entry, end, bytes });
        });
        drop(progress);
        let Copied {
            end,
            entries,
            snapshots,
        } = copied.map_err(classify_copy)?;
        let seconds = started.elapsed().as_secs_f64();
        print(&format!(
            "{address}: up to entry {end}; {entries} entries and {snapshots} snapshots were copied in \
             {seconds:.1} s, and {} is sealed\n",
            self.source_without_secrets(),
        ))
    }

    fn source_without_secrets(&self) -> String {
        Store::parse(&self.from).map_or_else(|_| "the old store".into(), |from| from.to_string())
    }
}

/// Opens the store to copy. A directory that is not there is not created.
fn open_source(from: Store) -> anyhow::Result<Box<dyn Journal>> {
    if let Store::Directory(directory, _) = &from
        && !directory.join("journal.sqlite").exists()
    {
        let path: PathBuf = directory.clone();
        return Err(classify(JournalError::NotFound { path }));
    }
    from.open().map_err(classify)
}

fn parse(name: &str, address: &str) -> Result<Store, BadArgument> {
    let store = Store::parse(address).map_err(|reason| BadArgument(format!("{name}: {reason}")))?;
    Ok(match store {
        // The seal records this path for a program that may be started in another working directory.
        Store::Directory(directory, options) => {
            let absolute = std::path::absolute(&directory).unwrap_or(directory);
            Store::Directory(absolute, options)
        }
        store => store,
    })
}

/// Turns errors that are caused by the arguments into [`BadArgument`].
fn classify(error: JournalError) -> anyhow::Error {
    match error {
        JournalError::NotFound { .. }
        | JournalError::NotAJournal { .. }
        | JournalError::Sealed { .. }
        | JournalError::Locked { .. } => BadArgument(chain(&error)).into(),
        error => error.into(),
    }
}

fn classify_copy(error: CopyError) -> anyhow::Error {
    match error {
        CopyError::Differs { .. } | CopyError::Gap { .. } => BadArgument(chain(&error)).into(),
        CopyError::Source(JournalError::Sealed { .. })
        | CopyError::Target(JournalError::Sealed { .. }) => BadArgument(chain(&error)).into(),
        error => error.into(),
    }
}
