//! `placewright journal`: inspects and maintains a store without a server.

mod backup;
mod bad_argument;
mod copy;
mod digest;
mod export;
mod progress;
mod restore;
mod time;
mod until;

use std::io::{self, IsTerminal as _};
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};
use placewright_cell::CellMachine;
use placewright_engine::{Machine as _, inner_record};
use placewright_journal::{
    Journal, JournalError, SqliteJournal, SqliteOptions, Stats, compact, verify,
};
use placewright_roles::config::{Config, Environment, Flags, chain};
use placewright_roles::output::print;
use serde::Serialize;

pub(crate) use bad_argument::BadArgument;

/// The subcommands of `placewright journal`.
#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    /// Check every entry and snapshot against its checksum, and whether every entry is there that was
    /// acknowledged; exit code 1 when something is damaged or missing
    Verify(StoreArgs),
    /// Count what the store holds
    Stats {
        #[command(flatten)]
        store: StoreArgs,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the changes as JSON lines, one entry a line, in the form of the change stream
    #[command(after_help = "Example: every change of one provider\n  \
        placewright journal export | grep 7a9d7a9d-1111-2222-3333-444444444444")]
    Export {
        #[command(flatten)]
        store: StoreArgs,
        /// The first entry to print; without it, the first that is held
        #[arg(long, value_name = "SEQUENCE")]
        from: Option<u64>,
        /// The last entry to print
        #[arg(long, value_name = "SEQUENCE", default_value_t = u64::MAX, hide_default_value = true)]
        to: u64,
    },
    /// Accept that entries are missing: print which ones, and the entry after which the store continues. The server
    /// must be stopped
    #[command(
        name = "accept-loss",
        after_help = "A store that lacks entries which were acknowledged does \
        not start. Restore it from a copy if there is one; copy its directory before this in any case.\n\
        What is lost here is not taken back elsewhere: run `placewright audit` afterwards, and have \
        readers of the change stream start anew, since the numbers of lost entries come again."
    )]
    AcceptLoss(StoreArgs),
    /// Copy a store into one file, also while a service writes to it
    Backup(backup::BackupCommand),
    /// Make a store from a backup, as it was at its end or at an earlier moment
    Restore(restore::RestoreCommand),
    /// Move a journal to another engine: copy it, and seal the old one, so that nobody writes to it any more
    Copy(copy::CopyCommand),
    /// Print the digest of the state after an entry: equal states have equal digests
    Digest(digest::DigestCommand),
    /// Give up entries that the newest snapshot covers, and return their room to the file system.
    /// The server must be stopped
    Compact {
        #[command(flatten)]
        store: StoreArgs,
        /// Entries to keep for readers of the change stream, counted from the end
        #[arg(long, value_name = "ENTRIES", default_value_t = 0)]
        keep: u64,
    },
}

/// Arguments that select a store.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// The store's directory [default: what `store.path` is configured to]
    #[arg(long = "store", value_name = "DIRECTORY")]
    store: Option<PathBuf>,

    /// The configuration file that says where the store is
    #[arg(long, value_name = "FILE", conflicts_with = "store")]
    config: Option<PathBuf>,
}

impl StoreArgs {
    fn directory(&self) -> anyhow::Result<PathBuf> {
        if let Some(directory) = &self.store {
            return Ok(directory.clone());
        }
        let flags = Flags::with_config(self.config.clone());
        let config = Config::load(&flags, &Environment::of_process())?;
        let store = &config.options.store;
        if let Some(url) = store
            .url
            .as_deref()
            .filter(|url| !url.starts_with("sqlite:"))
        {
            let scheme = url.split("://").next().unwrap_or_default();
            bail!(
                "the journal is in {scheme} (store.url), and this command is for a directory: name one with --store"
            );
        }
        Ok(store.directory())
    }

    /// Opens the store for reading, and prints a warning if acknowledged entries are missing in it.
    fn open_read_only(&self) -> anyhow::Result<SqliteJournal> {
        let mut journal = SqliteJournal::open_read_only(&self.directory()?)?;
        if let Err(problem) = journal.check_acknowledged() {
            eprintln!("placewright: {}", chain(&problem));
        }
        Ok(journal)
    }
}

impl JournalCommand {
    /// Runs the command. `verify` returns whether the store is intact; all other commands return true.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        match self {
            Self::Verify(store) => run_verify(&store),
            Self::Stats { store, json } => run_stats(&store, json).map(|()| true),
            Self::Export { store, from, to } => {
                export::run(store.open_read_only()?, from, to).map(|()| true)
            }
            Self::AcceptLoss(store) => run_accept_loss(&store).map(|()| true),
            Self::Backup(command) => command.run().map(|()| true),
            Self::Restore(command) => command.run().map(|()| true),
            Self::Copy(command) => command.run().map(|()| true),
            Self::Digest(command) => command.run().map(|()| true),
            Self::Compact { store, keep } => run_compact(&store, keep).map(|()| true),
        }
    }
}

/// The number of entries between two lines of progress.
const PROGRESS_ENTRIES: u64 = 1_000_000;
/// The number of entries that cannot be decoded after which the search for more stops.
const UNREADABLE_MAX: usize = 100;

fn run_verify(store: &StoreArgs) -> anyhow::Result<bool> {
    let directory = store.directory()?;
    let mut journal = SqliteJournal::open_read_only(&directory)?;
    let end = journal.end()?;
    let shows_progress = io::stderr().is_terminal();
    let verified = verify(&mut journal, &mut |sequence| {
        if shows_progress && sequence % PROGRESS_ENTRIES == 0 {
            eprintln!("entry {sequence} of {end}");
        }
    })?;
    let mut unreadable = Vec::new();
    find_unreadable(&mut journal, &mut unreadable)?;
    let mut text = format!(
        "{}: {} entries ({} bytes) and {} snapshots are whole\n",
        directory.display(),
        verified.entries,
        verified.record_bytes,
        verified.snapshots.len()
    );
    for problem in &verified.problems {
        text.push_str(&format!("{}: {}\n", kind(problem), chain(problem)));
    }
    for problem in &unreadable {
        text.push_str(&format!("unreadable: {problem}\n"));
    }
    for notice in journal.notices() {
        text.push_str(&format!("warning: {notice}\n"));
    }
    print(&text)?;
    Ok(verified.problems.is_empty() && unreadable.is_empty())
}

fn kind(problem: &JournalError) -> &'static str {
    match problem {
        JournalError::Lost { .. }
        | JournalError::Missing { .. }
        | JournalError::NoBase { .. }
        | JournalError::NoMark { .. } => "missing",
        _ => "damaged",
    }
}

/// Adds to `problems` the entries that have a valid checksum but no changes that this release can decode.
fn find_unreadable(journal: &mut SqliteJournal, problems: &mut Vec<String>) -> anyhow::Result<()> {
    let first = journal.first_held()?;
    // `verify` has reported any damage already; here damage only ends the search.
    let _ = journal.read(first, &mut |sequence, record| {
        match inner_record(record) {
            Err(error) => problems.push(format!("entry {sequence}: {}", chain(&error))),
            Ok(record) => {
                if let Err(error) = placewright_records::control::decode(record)
                    // The store may be that of a cell, whose entries have other changes than control's.
                    && CellMachine::decode(record).is_err()
                {
                    problems.push(format!("entry {sequence}: {}", chain(&error)));
                }
            }
        }
        if problems.len() < UNREADABLE_MAX {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    Ok(())
}

fn run_stats(store: &StoreArgs, json: bool) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Snapshot {
        sequence: u64,
        bytes: u64,
    }
    #[derive(Serialize)]
    struct Report {
        first_held: u64,
        end: u64,
        entries: u64,
        batches: u64,
        record_bytes: u64,
        file_bytes: u64,
        snapshots: Vec<Snapshot>,
    }
    let Stats {
        entries,
        batches,
        record_bytes,
        first_held,
        end,
        snapshots,
        file_bytes,
    } = store.open_read_only()?.stats()?;
    if json {
        let snapshots = snapshots.iter();
        let snapshots = snapshots
            .map(|snapshot| Snapshot {
                sequence: snapshot.sequence,
                bytes: snapshot.bytes,
            })
            .collect();
        let report = Report {
            first_held,
            end,
            entries,
            batches,
            record_bytes,
            file_bytes,
            snapshots,
        };
        return print(&format!("{}\n", serde_json::to_string(&report)?));
    }
    let mut text = format!(
        "first entry held  {first_held}\n\
         last entry        {end}\n\
         entries held      {entries} in {batches} batches, {record_bytes} bytes\n\
         journal's files   {file_bytes} bytes\n"
    );
    for snapshot in snapshots {
        text.push_str(&format!(
            "snapshot          at entry {}, {} bytes\n",
            snapshot.sequence, snapshot.bytes
        ));
    }
    print(&text)
}

fn run_accept_loss(store: &StoreArgs) -> anyhow::Result<()> {
    let directory = store.directory()?;
    let accepted = SqliteJournal::accept_loss(&directory)?;
    let mut text = match accepted.lost {
        Some((first, last)) => format!(
            "gave up entries {first} to {last} ({} entries); ",
            last - first + 1
        ),
        None => "nothing is missing; ".to_owned(),
    };
    text.push_str(&format!("the last entry is {}", accepted.end));
    if accepted.has_only_snapshot {
        text.push_str(", as the snapshot has it");
    }
    print(&format!("{text}\n"))
}

fn run_compact(store: &StoreArgs, keep: u64) -> anyhow::Result<()> {
    let directory = store.directory()?;
    // To open it for writing would make a store in a directory that has none.
    SqliteJournal::open_read_only(&directory)?;
    let mut journal = SqliteJournal::open(&directory, SqliteOptions::default())?;
    if journal.snapshots()?.is_empty() {
        print("there is no snapshot yet, so every entry is needed\n")?;
    }
    let compacted = compact(&mut journal, keep)?;
    print(&format!(
        "gave up {} entries; the first held is {}; the files shrank from {} to {} bytes\n",
        compacted.entries_trimmed,
        compacted.first_held,
        compacted.file_bytes_before,
        compacted.file_bytes_after
    ))
}
