//! Stores on disk: damage, full disks, locks, formats and permissions.

use std::fs;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::Path;

use placewright_journal::{
    AppendError, Journal, JournalError, SqliteJournal, SqliteOptions, Verification, compact, verify,
};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::mark::open_accepting_loss;

pub(crate) fn open(directory: &Path) -> Result<SqliteJournal, JournalError> {
    SqliteJournal::open(directory, SqliteOptions::default())
}

fn failure<T>(result: Result<T, JournalError>) -> JournalError {
    result.err().expect("the call must fail")
}

/// Ten batches of ten entries: 1 to 10, 11 to 20, …
pub(crate) fn store() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).unwrap();
    for batch in 0..10_u64 {
        let records: Vec<String> = (1..=10).map(|n| format!("<{}>", batch * 10 + n)).collect();
        let records: Vec<&[u8]> = records.iter().map(String::as_bytes).collect();
        journal.append(batch * 10 + 1, &records).unwrap();
    }
    directory
}

fn snapshot(journal: &mut dyn Journal, sequence: u64, bytes: &[u8]) {
    let mut writer = journal.write_snapshot(sequence).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap();
}

pub(crate) fn read_all(journal: &mut dyn Journal, from: u64) -> Result<Vec<Vec<u8>>, JournalError> {
    let mut records = Vec::new();
    journal.read(from, &mut |_, record| {
        records.push(record.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(records)
}

fn database(directory: &TempDir) -> Connection {
    Connection::open(directory.path().join("journal.sqlite")).unwrap()
}

fn flip_bit(path: &Path, pattern: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.windows(pattern.len()).position(|w| w == pattern);
    bytes[at.expect("the pattern is in the file")] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn verify_store(directory: &TempDir) -> Verification {
    let mut journal = SqliteJournal::open_read_only(directory.path()).unwrap();
    verify(&mut journal, &mut |_| ()).unwrap()
}

fn problems(journal: &mut dyn Journal) -> Vec<JournalError> {
    verify(journal, &mut |_| ()).unwrap().problems
}

#[test]
fn a_store_has_all_entries_when_it_is_opened_again() {
    let directory = store();
    for round in 0..3_u64 {
        let mut journal = open(directory.path()).unwrap();
        assert_eq!(journal.end().unwrap(), 100 + round);
        assert_eq!(read_all(&mut journal, 1).unwrap().len() as u64, 100 + round);
        journal.append(101 + round, &[b"more"]).unwrap();
    }
}

#[test]
fn errors_name_a_damaged_entry_and_the_others_remain_readable() {
    let directory = store();
    flip_bit(&directory.path().join("journal.sqlite"), b"<37>");
    let mut journal = open(directory.path()).unwrap();
    let error = failure(read_all(&mut journal, 1));
    assert!(matches!(
        error,
        JournalError::Damaged {
            first: 31,
            last: 40,
            ..
        }
    ));
    let text = error.to_string();
    assert!(text.contains("entries 31 to 40") && text.contains(directory.path().to_str().unwrap()));
    assert_eq!(read_all(&mut journal, 41).unwrap().len(), 60);
    let verification = verify(&mut journal, &mut |_| ()).unwrap();
    assert_eq!(verification.entries, 90);
    assert!(matches!(
        verification.problems[..],
        [JournalError::Damaged { first: 31, .. }]
    ));
}

#[test]
fn a_deleted_or_replaced_batch_is_detected() {
    let directory = store();
    database(&directory)
        .execute("DELETE FROM batch WHERE first = 21", [])
        .unwrap();
    let mut journal = open(directory.path()).unwrap();
    for from in [1, 11, 21, 25] {
        let error = failure(read_all(&mut journal, from));
        let first = from.max(21);
        assert!(
            matches!(error, JournalError::Missing { first: f, last: 30, .. } if f == first),
            "{error}"
        );
    }
    let verification = verify(&mut journal, &mut |_| ()).unwrap();
    assert_eq!((verification.entries, verification.problems.len()), (90, 1));
    drop(journal);

    // A batch of another history: valid by itself, but not after the batch before it.
    let other = tempfile::tempdir().unwrap();
    open(other.path())
        .unwrap()
        .append(1, &[b"other".as_slice(); 20])
        .unwrap();
    let other_path = other.path().join("journal.sqlite");
    let directory = store();
    let connection = database(&directory);
    connection
        .execute("ATTACH ?1 AS other", [other_path.to_str().unwrap()])
        .unwrap();
    connection
        .execute_batch(
            "DELETE FROM batch WHERE first < 21; INSERT INTO batch SELECT * FROM other.batch",
        )
        .unwrap();
    drop(connection);
    let verification = verify_store(&directory);
    assert!(matches!(
        verification.problems[..],
        [JournalError::Damaged {
            first: 21,
            last: 30,
            ..
        }]
    ));
}

#[test]
fn a_database_with_a_damaged_structure_is_refused() {
    let directory = store();
    let path = directory.path().join("journal.sqlite");
    let mut bytes = fs::read(&path).unwrap();
    // The first page, which has the schema, stays as it is. A database has the size of its pages in the bytes from 16 on.
    let page_bytes = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    for byte in &mut bytes[page_bytes..] {
        *byte = 0xa5;
    }
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(
        failure(open(directory.path())),
        JournalError::DamagedStore { .. }
    ));
    fs::write(&path, b"a text file, which is long enough to be examined").unwrap();
    assert!(matches!(
        failure(open(directory.path())),
        JournalError::NotAJournal { .. }
    ));
}

#[test]
fn a_truncated_log_has_complete_batches_only() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = open(directory.path()).unwrap();
    for batch in 0..12_u64 {
        let record = vec![u8::try_from(batch).unwrap(); 700];
        journal
            .append(batch * 5 + 1, &[record.as_slice(); 5])
            .unwrap();
    }
    let log = fs::read(directory.path().join("journal.sqlite-wal")).unwrap();
    let mut ends = Vec::new();
    for cut in (0..=log.len()).rev().step_by(1_237) {
        let crashed = tempfile::tempdir().unwrap();
        let copy = crashed.path().join("journal.sqlite");
        fs::copy(directory.path().join("journal.sqlite"), copy).unwrap();
        fs::write(crashed.path().join("journal.sqlite-wal"), &log[..cut]).unwrap();
        fs::copy(directory.path().join("mark"), crashed.path().join("mark")).unwrap();
        let (mut journal, is_complete) = open_accepting_loss(crashed.path(), 60);
        let end = journal.end().unwrap();
        assert_eq!(
            is_complete,
            end == 60,
            "opening fails if entries are missing"
        );
        assert_eq!(end % 5, 0);
        let records = read_all(&mut journal, 1).unwrap();
        assert_eq!(records.len() as u64, end);
        let expected = |index: usize| vec![u8::try_from(index / 5).unwrap(); 700];
        assert!(records.iter().enumerate().all(|(i, r)| *r == expected(i)));
        journal.append(end + 1, &[b"goes on"]).unwrap();
        ends.push(end);
    }
    assert_eq!((ends.first(), ends.last()), (Some(&60), Some(&0)));
}

#[test]
fn a_full_store_keeps_its_entries_and_accepts_appends_again_after_a_trim() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions {
        file_bytes_max: Some(400_000),
    };
    let mut journal = SqliteJournal::open(directory.path(), options).unwrap();
    let record = [7_u8; 5_000];
    let mut next = 1;
    loop {
        match journal.append(next, &[&record, b"small"]) {
            Ok(()) => next += 2,
            Err(AppendError::Failed(JournalError::NoSpace { .. })) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(next > 50);
    for _ in 0..3 {
        let again = journal.append(next, &[&record]);
        assert!(matches!(
            again,
            Err(AppendError::Failed(JournalError::NoSpace { .. }))
        ));
        assert_eq!(journal.end().unwrap(), next - 1);
        assert_eq!(read_all(&mut journal, 1).unwrap().len() as u64, next - 1);
    }
    snapshot(&mut journal, next - 1, b"state");
    journal.trim(next - 3).unwrap();
    journal.append(next, &[&record]).unwrap();
    assert_eq!(read_all(&mut journal, next).unwrap(), [record]);
    assert!(problems(&mut journal).is_empty());
}

#[test]
fn opening_a_locked_store_is_an_error_that_names_the_lock_holder() {
    let directory = store();
    let mut journal = open(directory.path()).unwrap();
    let error = failure(open(directory.path()));
    assert!(matches!(error, JournalError::Locked { .. }));
    let text = error.to_string();
    assert!(text.contains(directory.path().to_str().unwrap()));
    assert!(text.contains(&format!("process {}", std::process::id())));

    // The store can be read while it is locked, including new entries.
    let mut reader = SqliteJournal::open_read_only(directory.path()).unwrap();
    journal.append(101, &[b"new"]).unwrap();
    assert_eq!(read_all(&mut reader, 101).unwrap(), [b"new"]);
    assert_eq!(reader.stats().unwrap().entries, 101);
    let refused = reader.append(102, &[b"x"]);
    assert!(matches!(
        refused,
        Err(AppendError::Failed(JournalError::ReadOnly { .. }))
    ));
    assert!(matches!(
        failure(compact(&mut reader, 0)),
        JournalError::ReadOnly { .. }
    ));

    // The lock is held as long as any handle exists.
    let handle = journal.try_clone().unwrap();
    drop(journal);
    assert!(matches!(
        failure(open(directory.path())),
        JournalError::Locked { .. }
    ));
    drop(handle);
    assert_eq!(open(directory.path()).unwrap().end().unwrap(), 101);
}

#[test]
fn a_store_of_a_newer_format_is_refused_and_not_changed() {
    let directory = store();
    let connection = database(&directory);
    connection
        .execute("UPDATE meta SET value = 3 WHERE key = 'format'", [])
        .unwrap();
    drop(connection);
    let before = fs::read(directory.path().join("journal.sqlite")).unwrap();
    let results = [
        open(directory.path()),
        SqliteJournal::open_read_only(directory.path()),
    ];
    for result in results {
        let error = failure(result);
        assert!(error.to_string().contains("has format 3"));
        assert!(matches!(
            error,
            JournalError::NewerFormat {
                found: 3,
                supported: 2,
                ..
            }
        ));
    }
    assert!(before == fs::read(directory.path().join("journal.sqlite")).unwrap());

    let directory = store();
    let mut journal = open(directory.path()).unwrap();
    snapshot(&mut journal, 50, b"state");
    let path = directory.path().join(format!("snapshot-{:020}", 50));
    let mut bytes = fs::read(&path).unwrap();
    // The format is at offset 8, and the header's checksum at offset 20.
    bytes[8] = 9;
    let crc = crc32fast::hash(&bytes[..20]).to_le_bytes();
    bytes[20..24].copy_from_slice(&crc);
    fs::write(&path, bytes).unwrap();
    let error = failure(journal.read_snapshot(50));
    assert!(matches!(error, JournalError::NewerFormat { found: 9, .. }));
}

#[test]
fn other_files_and_databases_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, b"text").unwrap();
    assert!(matches!(
        failure(open(&file)),
        JournalError::NotAJournal { .. }
    ));
    let absent = directory.path().join("absent");
    let error = failure(SqliteJournal::open_read_only(&absent));
    assert!(matches!(error, JournalError::NotFound { .. }));
    assert!(!absent.exists());

    database(&directory)
        .execute_batch("CREATE TABLE recipes (name TEXT)")
        .unwrap();
    for result in [
        open(directory.path()),
        SqliteJournal::open_read_only(directory.path()),
    ] {
        assert!(matches!(failure(result), JournalError::NotAJournal { .. }));
    }
}

#[test]
fn a_damaged_snapshot_returns_no_wrong_bytes_and_prevents_trimming() {
    let directory = store();
    let state: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut journal = open(directory.path()).unwrap();
    snapshot(&mut journal, 90, &state);
    let path = directory.path().join(format!("snapshot-{:020}", 90));
    let intact = fs::read(&path).unwrap();
    let size = intact.len();
    // In each field of the header, in the head and content of the first chunk, in the second chunk, which
    // begins at 4,194,336, and in the fields of the end.
    for at in [
        0,
        9,
        15,
        22,
        24,
        28,
        40,
        4_200_000,
        4_300_000,
        size - 20,
        size - 9,
        size - 1,
    ] {
        let mut bytes = intact.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        check_damaged(&mut journal, &state);
    }
    for length in [0, 10, 24, 1_000, 4_194_400, size - 16, size - 1] {
        fs::write(&path, &intact[..length]).unwrap();
        check_damaged(&mut journal, &state);
    }
    assert_eq!(journal.first_held().unwrap(), 1);
}

fn check_damaged(journal: &mut dyn Journal, state: &[u8]) {
    let mut bytes = Vec::new();
    let read = journal
        .read_snapshot(90)
        .map(|mut r| r.read_to_end(&mut bytes));
    assert!(state.starts_with(&bytes));
    match read {
        Err(JournalError::DamagedSnapshot { sequence: 90, .. }) => {}
        Ok(Err(error)) => assert_eq!(error.kind(), std::io::ErrorKind::InvalidData),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        problems(journal)[..],
        [JournalError::DamagedSnapshot { sequence: 90, .. }]
    ));
    assert!(matches!(
        failure(compact(journal, 0)),
        JournalError::DamagedSnapshot { .. }
    ));
}

#[test]
fn an_incomplete_snapshot_file_is_removed() {
    let directory = store();
    let leftover = directory
        .path()
        .join("snapshot-00000000000000000007.partial");
    fs::write(&leftover, b"half").unwrap();
    let mut journal = open(directory.path()).unwrap();
    assert!(!leftover.exists());
    assert_eq!(journal.snapshots().unwrap(), []);
}

#[test]
fn verifying_finds_missing_entries_that_no_snapshot_covers() {
    let directory = store();
    let mut journal = open(directory.path()).unwrap();
    snapshot(&mut journal, 60, b"state");
    journal.trim(41).unwrap();
    drop(journal);
    fs::remove_file(directory.path().join(format!("snapshot-{:020}", 60))).unwrap();
    assert!(matches!(
        verify_store(&directory).problems[..],
        [JournalError::NoBase { first: 1, last: 40 }]
    ));
}

#[cfg(unix)]
mod read_only {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    const CHILD_STORE_VARIABLE: &str = "PLACEWRIGHT_TEST_READ_ONLY_STORE";

    fn protect(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// The user and group `nobody`.
    const NOBODY: u32 = 65_534;

    /// Root can write everywhere, so if root runs the test, the test starts its own program again as another user.
    #[test]
    fn a_read_only_store_can_be_read_and_writing_is_an_error() {
        if let Some(directory) = std::env::var_os(CHILD_STORE_VARIABLE) {
            return check(Path::new(&directory));
        }
        let directory = store();
        protect(directory.path(), 0o555);
        for entry in fs::read_dir(directory.path()).unwrap() {
            protect(&entry.unwrap().path(), 0o444);
        }
        if fs::metadata(directory.path()).unwrap().uid() == 0 {
            let parent = tempfile::tempdir().unwrap();
            protect(parent.path(), 0o755);
            let program = parent.path().join("test");
            fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
            protect(&program, 0o755);
            let name = "read_only::a_read_only_store_can_be_read_and_writing_is_an_error";
            let status = Command::new(program)
                .args(["--exact", name])
                .env(CHILD_STORE_VARIABLE, directory.path())
                .current_dir("/")
                .uid(NOBODY)
                .gid(NOBODY)
                .status();
            assert!(status.unwrap().success());
        } else {
            check(directory.path());
        }
        protect(directory.path(), 0o755);
    }

    fn check(directory: &Path) {
        let error = failure(open(directory));
        assert!(matches!(error, JournalError::ReadOnly { .. }), "{error}");
        assert!(error.to_string().contains(directory.to_str().unwrap()));
        let mut journal = SqliteJournal::open_read_only(directory).unwrap();
        assert_eq!(read_all(&mut journal, 1).unwrap().len(), 100);
        assert!(problems(&mut journal).is_empty());
        let unwritable = failure(open(&directory.join("new")));
        assert!(
            matches!(unwritable, JournalError::ReadOnly { .. }),
            "{unwritable}"
        );
    }
}
