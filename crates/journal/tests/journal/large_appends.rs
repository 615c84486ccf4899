//! Appends that are stored as several batches.

use std::path::Path;

use placewright_journal::{
    AppendError, Journal, JournalError, SqliteJournal, SqliteOptions, verify,
};
use rusqlite::Connection;

use crate::backup::{back_up, restore_to};
use crate::mark::open_accepting_loss;
use crate::sqlite::{open, read_all};

/// Forty records of 10 kB, six of which fit in a batch, a large one, and two small ones.
fn records() -> Vec<Vec<u8>> {
    let mut records: Vec<Vec<u8>> = (0..40).map(|n| vec![n; 10_000]).collect();
    records.extend([vec![40; 300_000], vec![41; 10], vec![]]);
    records
}

fn append_records(
    journal: &mut dyn Journal,
    first: u64,
    records: &[Vec<u8>],
) -> Result<(), AppendError> {
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    journal.append(first, &records)
}

fn append(journal: &mut dyn Journal, first: u64) -> Result<(), AppendError> {
    append_records(journal, first, &records())
}

/// The number of entries in each batch.
fn batches(directory: &Path) -> Vec<i64> {
    let database = Connection::open(directory.join("journal.sqlite")).unwrap();
    let mut select = database
        .prepare("SELECT last - first + 1 FROM batch ORDER BY first")
        .unwrap();
    let batches = select.query_map([], |row| row.get(0)).unwrap();
    batches.map(Result::unwrap).collect()
}

fn assert_sound(journal: &mut SqliteJournal, appends: usize) {
    let expected = vec![records(); appends].concat();
    assert_eq!(read_all(journal, 1).unwrap(), expected);
    assert!(verify(journal, &mut |_| ()).unwrap().problems.is_empty());
}

#[test]
fn a_large_append_has_several_batches_and_one_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).unwrap();
    for append_index in 0..2 {
        append(&mut journal, append_index * 43 + 1).unwrap();
    }
    assert_sound(&mut journal, 2);
    let of_one = [6, 6, 6, 6, 6, 6, 4, 1, 2];
    assert_eq!(batches(directory.path()), of_one.repeat(2));
    let times: Vec<Option<i64>> = (1..=43)
        .map(|entry| journal.appended_at(entry).unwrap())
        .collect();
    assert!(times[0].is_some() && times.iter().all(|time| *time == times[0]));
    // Reads begin within a batch, too.
    assert_eq!(read_all(&mut journal, 40).unwrap().len(), 47);
    drop(journal);
    assert_sound(&mut open(directory.path()).unwrap(), 2);
}

#[test]
fn the_mark_of_a_killed_store_names_the_last_batch_of_a_large_append() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).unwrap();
    append(&mut journal, 1).unwrap();
    let old_mark = std::fs::read(directory.path().join("mark")).unwrap();
    append(&mut journal, 44).unwrap();
    // Copies as after a kill; in the second one the mark of the last append was not written.
    for mark in [None, Some(old_mark)] {
        let killed = tempfile::tempdir().unwrap();
        for name in ["journal.sqlite", "journal.sqlite-wal", "mark"] {
            std::fs::copy(directory.path().join(name), killed.path().join(name)).unwrap();
        }
        if let Some(mark) = mark {
            std::fs::write(killed.path().join("mark"), mark).unwrap();
        }
        assert_sound(&mut open(killed.path()).unwrap(), 2);
    }
}

#[test]
fn a_batch_has_as_many_records_as_64_kib_allow() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).unwrap();
    // Each record has its length before it, in 4 bytes.
    let half = (32 << 10) - 4;
    append_records(&mut journal, 1, &[vec![1; half], vec![2; half]]).unwrap();
    append_records(&mut journal, 3, &[vec![3; half], vec![4; half + 1]]).unwrap();
    assert_eq!(batches(directory.path()), [2, 1, 1]);
}

#[test]
fn a_log_that_was_cut_within_a_large_append_has_none_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).unwrap();
    append(&mut journal, 1).unwrap();
    append(&mut journal, 44).unwrap();
    let log = std::fs::read(directory.path().join("journal.sqlite-wal")).unwrap();
    let mut ends = Vec::new();
    for cut in (0..=log.len()).rev().step_by(50_003) {
        let killed = tempfile::tempdir().unwrap();
        for name in ["journal.sqlite", "mark"] {
            std::fs::copy(directory.path().join(name), killed.path().join(name)).unwrap();
        }
        std::fs::write(killed.path().join("journal.sqlite-wal"), &log[..cut]).unwrap();
        let (mut journal, _) = open_accepting_loss(killed.path(), 86);
        let end = journal.end().unwrap();
        assert_sound(&mut journal, usize::try_from(end / 43).unwrap());
        ends.push(end);
    }
    ends.dedup();
    assert_eq!(ends, [86, 43, 0]);
}

#[test]
fn a_backup_is_restored_up_to_an_entry_within_a_large_append() {
    let folder = tempfile::tempdir().unwrap();
    let [store, file, restored] =
        ["store", "file", "restored"].map(|name| folder.path().join(name));
    let mut journal = open(&store).unwrap();
    append(&mut journal, 1).unwrap();
    back_up(&store, &file).unwrap();
    restore_to(&file, &restored, 20).unwrap();
    assert_eq!(batches(&restored), [6, 6, 6, 2]);
    let mut journal = open(&restored).unwrap();
    assert_eq!(read_all(&mut journal, 1).unwrap(), records()[..20]);
    assert!(
        verify(&mut journal, &mut |_| ())
            .unwrap()
            .problems
            .is_empty()
    );
    journal.append(21, &[b"goes on"]).unwrap();
}

#[test]
fn a_large_append_that_fails_leaves_none_of_its_batches() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions {
        file_bytes_max: Some(6_000_000),
    };
    let mut journal = SqliteJournal::open(directory.path(), options).unwrap();
    append(&mut journal, 1).unwrap();
    let conflict = append(&mut journal, 7).unwrap_err();
    assert!(matches!(
        conflict,
        AppendError::Conflict { next_sequence: 44 }
    ));
    // More than SQLite's cache has room for, so that a part of it is in the log before it fails.
    let larger = vec![records(); 10].concat();
    let full = append_records(&mut journal, 44, &larger).unwrap_err();
    assert!(
        matches!(full, AppendError::Failed(JournalError::NoSpace { .. })),
        "{full}"
    );
    assert_sound(&mut journal, 1);
    append(&mut journal, 44).unwrap();
    assert_sound(&mut journal, 2);
    drop(journal);
    assert_sound(&mut open(directory.path()).unwrap(), 2);
}

#[test]
fn a_store_with_the_pages_of_earlier_releases_is_used_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).unwrap());
    let page_bytes = |database: &Connection| -> i64 {
        let page_size = database.query_row("PRAGMA page_size", [], |row| row.get(0));
        page_size.unwrap()
    };
    let database = Connection::open(directory.path().join("journal.sqlite")).unwrap();
    assert_eq!(page_bytes(&database), 8192);
    database
        .execute_batch("PRAGMA journal_mode = DELETE; PRAGMA page_size = 4096; VACUUM")
        .unwrap();
    assert_eq!(page_bytes(&database), 4096);
    drop(database);
    let mut journal = open(directory.path()).unwrap();
    append(&mut journal, 1).unwrap();
    assert_sound(&mut journal, 1);
}
