//! `placewright journal backup`: a store in one file, also while a service writes to it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use placewright_journal::SqliteJournal;
use placewright_journal::backup::{self, BackupOptions};
use placewright_roles::cell::UUID_FILE;
use placewright_roles::config::chain;
use placewright_roles::output::print;

use super::bad_argument::{BadArgument, classify};
use super::progress::{Progress, size};
use super::time;

/// The suffix of the file names that this command chooses.
const SUFFIX: &str = ".backup";
/// The niceness of the process, so that a service on the same machine has priority.
#[cfg(unix)]
const NICENESS: i32 = 10;

/// Arguments of `placewright journal backup`.
#[derive(Debug, Args)]
#[command(after_help = "\
The service goes on meanwhile and need not be told. The backup has everything that was acknowledged before \
it was begun, and comes with the snapshot that its entries follow on, so that the state after each of these \
entries can be restored. A store that is damaged, or that lacks entries which were acknowledged, is named, \
and no backup is made of it.\n\n\
The file has its name only once all of it is on the disk; until then it is called NAME.partial. What a \
backup that was killed left behind is removed by the next one to the same place. It is readable for its owner \
alone, since it holds everything of every tenant: keep it so.\n\n\
Exit code 2: what was asked for cannot be (no such store, a file that exists); 1: it failed.\n\n\
Examples:\n  \
  placewright journal backup /var/lib/placewright/placement /var/backups/placewright\n  \
  placewright journal backup --bytes-per-second 8M /var/lib/placewright/cell cell.backup")]
pub(crate) struct BackupCommand {
    /// The store's directory: control's or a cell's
    #[arg(value_name = "STORE")]
    store: PathBuf,

    /// The file to make, or a directory in which it is named after the store, the time and the last entry
    #[arg(value_name = "FILE|DIRECTORY")]
    target: PathBuf,

    /// How many bytes are copied in a second at most: a number, with K, M or G for KiB, MiB or GiB; `unlimited`
    /// for as many as the disk can
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = parse_rate)]
    bytes_per_second: Rate,
}

/// Bytes a second; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rate(Option<u64>);

fn parse_rate(text: &str) -> Result<Rate, String> {
    if text == "unlimited" {
        return Ok(Rate(None));
    }
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let number: Option<u64> = digits.parse().ok();
    let bytes = number.and_then(|number| number.checked_mul(unit));
    match bytes {
        Some(bytes) if bytes >= 1 << 10 => Ok(Rate(Some(bytes))),
        Some(_) => Err("at least 1K".to_owned()),
        None => Err("a number such as 16777216 or 16M, or `unlimited`".to_owned()),
    }
}

impl BackupCommand {
    /// Makes the backup, and prints a description of its content.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let started = Instant::now();
        // If the system refuses, the backup only slows the service down more.
        #[cfg(unix)]
        let _ = rustix::process::nice(NICENESS);
        let mut store =
            SqliteJournal::open_read_only(&self.store).map_err(|e| classify(e.into()))?;
        let name_file = self.prepare_target()?;
        let options = BackupOptions {
            name: &name_file,
            // A cell's store has the cell's UUID in a file beside its journal.
            files: &[UUID_FILE],
            bytes_per_second: self.bytes_per_second.0,
        };
        let mut progress = Progress::new();
        let written = backup::write(&mut store, &options, &mut |reached| progress.show(reached));
        // This erases the line of progress before anything else is printed.
        drop(progress);
        let written = written.map_err(classify)?;
        for problem in &written.damaged_snapshots {
            eprintln!("placewright: passed over: {}", chain(problem));
        }
        print(&format!(
            "{}: up to entry {}, with everything acknowledged before {}; reaches back to entry {}; \
             {} in {:.1} s\n",
            written.path.display(),
            written.end,
            time::text(written.made_at),
            written.snapshot,
            size(written.bytes),
            started.elapsed().as_secs_f64()
        ))
    }

    /// Removes from the target, if it is a directory, the files that killed backups left behind. Returns a function
    /// that names the file of the backup, given its time and its last entry.
    fn prepare_target(&self) -> anyhow::Result<impl Fn(i64, u64) -> PathBuf + use<>> {
        let target = self.target.clone();
        let stem = match target.is_dir() {
            true => {
                backup::remove_leftovers(&target, SUFFIX).map_err(classify)?;
                Some(directory_name(&self.store)?)
            }
            false => None,
        };
        Ok(move |made_at, end| match &stem {
            Some(stem) => target.join(format!(
                "{stem}-{}-{end}{SUFFIX}",
                time::for_file_name(made_at)
            )),
            None => target.clone(),
        })
    }
}

/// The last part of the store's path.
fn directory_name(store: &Path) -> anyhow::Result<String> {
    let store = store.canonicalize()?;
    let name = store.file_name().ok_or_else(|| {
        let text = format!(
            "{} has no name: name a file for its backup",
            store.display()
        );
        BadArgument(text)
    })?;
    Ok(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers_with_a_unit_and_never_zero() {
        assert_eq!(parse_rate("16M"), Ok(Rate(Some(16 << 20))));
        assert_eq!(parse_rate("1024"), Ok(Rate(Some(1024))));
        assert_eq!(parse_rate("2G"), Ok(Rate(Some(2 << 30))));
        assert_eq!(parse_rate("unlimited"), Ok(Rate(None)));
        for wrong in [
            "",
            "0",
            "1023",
            "M",
            "-1",
            "1.5M",
            "1MB",
            "18446744073709551615K",
            "é",
        ] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }
}
