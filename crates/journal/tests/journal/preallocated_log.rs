//! The write-ahead log that is extended before it is used.

use std::fs;
use std::path::Path;

use placewright_journal::{Journal as _, JournalError, SqliteJournal, SqliteOptions};

use crate::sqlite::{open, read_all, store};

#[test]
fn appends_reuse_a_preallocated_log_and_do_not_require_it() {
    let directory = store();
    let mut journal = open(directory.path()).unwrap();
    let before = read_all(&mut journal, 1).unwrap();
    let log_bytes = || {
        let log = fs::metadata(directory.path().join("journal.sqlite-wal"));
        log.unwrap().len()
    };
    for _ in 0..2 {
        journal.grow_log().unwrap();
        assert!((4 << 20..5 << 20).contains(&log_bytes()), "{}", log_bytes());
    }
    let grown = log_bytes();
    let next = before.len() as u64 + 1;
    journal.append(next, &[b"first"]).unwrap();
    journal.append(next + 1, &[&[7; 100_000]]).unwrap();
    assert_eq!(log_bytes(), grown, "appends reuse the allocated space");

    // A copy as after a crash, because the store was not closed.
    let crashed = tempfile::tempdir().unwrap();
    for name in ["journal.sqlite", "journal.sqlite-wal"] {
        fs::copy(directory.path().join(name), crashed.path().join(name)).unwrap();
    }
    for path in [crashed.path(), directory.path()] {
        let mut reader = SqliteJournal::open_read_only(path).unwrap();
        let records = read_all(&mut reader, 1).unwrap();
        assert_eq!(records[..before.len()], before);
        assert_eq!(
            records[before.len()..],
            [b"first".to_vec(), vec![7; 100_000]]
        );
        assert!(matches!(
            reader.grow_log(),
            Err(JournalError::ReadOnly { .. })
        ));
    }

    let small = tempfile::tempdir().unwrap();
    let options = SqliteOptions {
        file_bytes_max: Some(200_000),
    };
    let mut journal = SqliteJournal::open(small.path(), options).unwrap();
    journal.grow_log().unwrap();
    journal.append(1, &[b"still"]).unwrap();
    assert_eq!(read_all(&mut journal, 1).unwrap(), [b"still"]);
}

#[test]
fn a_store_that_was_killed_before_the_first_append_to_a_preallocated_log_is_whole() {
    let directory = store();
    let mut journal = open(directory.path()).unwrap();
    let before = read_all(&mut journal, 1).unwrap();
    // Closing moves all entries into the database and removes the log.
    drop(journal);
    let mut journal = open(directory.path()).unwrap();
    journal.grow_log().unwrap();
    let killed = copy_of(directory.path());
    let log = fs::read(killed.path().join("journal.sqlite-wal")).unwrap();
    assert_eq!(log, vec![0; 4 << 20]);
    let mut reader = SqliteJournal::open_read_only(killed.path()).unwrap();
    assert_eq!(read_all(&mut reader, 1).unwrap(), before);
    drop(reader);
    let mut journal = open(killed.path()).unwrap();
    journal.append(before.len() as u64 + 1, &[b"next"]).unwrap();
    assert_eq!(
        read_all(&mut journal, before.len() as u64 + 1).unwrap(),
        [b"next"]
    );
}

/// A copy of a store's files, as after a kill.
fn copy_of(directory: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["journal.sqlite", "journal.sqlite-wal", "mark"] {
        fs::copy(directory.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

#[test]
fn a_log_that_ends_in_part_of_an_append_is_preallocated_and_continued() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).unwrap();
    journal.append(1, &[b"first"]).unwrap();
    let killed = copy_of(directory.path());
    let log = killed.path().join("journal.sqlite-wal");
    let mut bytes = fs::read(&log).unwrap();
    bytes.extend_from_slice(&[b'Z'; 1_000]);
    fs::write(&log, &bytes).unwrap();
    let mut journal = open(killed.path()).unwrap();
    journal.grow_log().unwrap();
    assert_eq!(fs::metadata(&log).unwrap().len(), 4 << 20);
    for next in 2..20 {
        journal.append(next, &[&[7; 3_000]]).unwrap();
    }
    let killed_again = copy_of(killed.path());
    for path in [killed.path(), killed_again.path()] {
        let mut reader = SqliteJournal::open_read_only(path).unwrap();
        let records = read_all(&mut reader, 1).unwrap();
        assert_eq!(records.len(), 19);
        assert_eq!(records[0], b"first");
    }
}
