//! Measures how fast a large store is written and read: 1,000,000 entries and a snapshot of 200 MB.
//!
//! ```text
//! cargo run --release -p placewright-journal --example load -- [DIRECTORY]
//! ```

#![allow(clippy::print_stdout, reason = "it prints its figures")]

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use placewright_journal::{Journal, SqliteJournal, SqliteOptions, compact, verify};

const ENTRIES: u64 = 1_000_000;
const ENTRIES_PER_BATCH: u64 = 64;
const SNAPSHOT_BYTES: usize = 200_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let directory = std::env::args()
        .nth(1)
        .map_or(temporary.path().join("store"), PathBuf::from);
    let mut journal = SqliteJournal::open(&directory, SqliteOptions::default())?;
    timed("append", || {
        let record = [0x5a; 200];
        let mut next_sequence = 1;
        while next_sequence <= ENTRIES {
            let records = vec![record.as_slice(); usize::try_from(ENTRIES_PER_BATCH)?];
            journal.append(next_sequence, &records)?;
            next_sequence += ENTRIES_PER_BATCH;
        }
        Ok(())
    })?;
    timed("write the snapshot", || {
        let end = journal.end()?;
        let mut writer = journal.write_snapshot(end)?;
        let piece: Vec<u8> = (0..=255).cycle().take(256 << 10).collect();
        for _ in 0..SNAPSHOT_BYTES / piece.len() {
            writer.write_all(&piece)?;
        }
        writer.finish()?;
        Ok(())
    })?;
    drop(journal);
    let mut journal = timed("open", || {
        Ok(SqliteJournal::open(&directory, SqliteOptions::default())?)
    })?;
    timed("read all entries", || {
        let mut bytes = 0;
        journal.read(1, &mut |_, record| {
            bytes += record.len();
            ControlFlow::Continue(())
        })?;
        assert!(bytes > 0);
        Ok(())
    })?;
    timed("read the snapshot", || {
        let end = journal.end()?;
        let mut reader = journal.read_snapshot(end)?;
        let mut piece = vec![0; 256 << 10];
        while reader.read(&mut piece)? > 0 {}
        Ok(())
    })?;
    timed("verify", || {
        let found = verify(&mut journal, &mut |_| ())?;
        assert!(found.problems.is_empty());
        Ok(())
    })?;
    timed("compact", || Ok(compact(&mut journal, 1_000)?))?;
    Ok(())
}

fn timed<T>(
    label: &str,
    run: impl FnOnce() -> Result<T, Box<dyn std::error::Error>>,
) -> Result<T, Box<dyn std::error::Error>> {
    let started = Instant::now();
    let result = run()?;
    println!("{label}: {:.2} s", started.elapsed().as_secs_f64());
    Ok(result)
}
