//! The high-water mark: lost acknowledged entries are reported. Also the permissions of a store.

use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;

use placewright_journal::{
    AcceptedLoss, Journal, JournalError, Notice, SqliteJournal, SqliteOptions, verify,
};
use rusqlite::Connection;
use tempfile::TempDir;

const DATABASE: &str = "journal.sqlite";
const WAL: &str = "journal.sqlite-wal";

fn open(directory: &Path) -> Result<SqliteJournal, JournalError> {
    SqliteJournal::open(directory, SqliteOptions::default())
}

fn append(journal: &mut dyn Journal, first: u64) {
    let record = first.to_le_bytes();
    journal.append(first, &[record.as_slice(); 10]).unwrap();
}

/// A store as after a kill: ten batches of ten entries, five of them in the database and five in its
/// write-ahead log.
fn killed_store() -> TempDir {
    let origin = tempfile::tempdir().unwrap();
    let mut journal = open(origin.path()).unwrap();
    for batch in 0..10 {
        if batch == 5 {
            journal.checkpoint().unwrap();
        }
        append(&mut journal, batch * 10 + 1);
    }
    copy(origin.path())
}

fn copy(origin: &Path) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(origin).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), directory.path().join(entry.file_name())).unwrap();
    }
    // SQLite's shared-memory file does not survive a crash of the machine.
    let _ = fs::remove_file(directory.path().join("journal.sqlite-shm"));
    directory
}

fn problems(directory: &Path) -> Vec<JournalError> {
    let mut journal = SqliteJournal::open_read_only(directory).unwrap();
    verify(&mut journal, &mut |_| ()).unwrap().problems
}

/// Opens a store that had `acknowledged` entries, and gives up what it lacks. Returns also whether it lacked nothing.
pub(crate) fn open_accepting_loss(directory: &Path, acknowledged: u64) -> (SqliteJournal, bool) {
    match open(directory) {
        Err(JournalError::Lost { last, .. }) if last == acknowledged => {
            SqliteJournal::accept_loss(directory).unwrap();
            (open(directory).unwrap(), false)
        }
        opened => (opened.unwrap(), true),
    }
}

fn open_error(directory: &Path) -> JournalError {
    open(directory).err().expect("opening must fail")
}

#[test]
fn a_damaged_write_ahead_log_is_refused_each_time_it_is_opened() {
    let directory = killed_store();
    let wal = directory.path().join(WAL);
    let mut bytes = fs::read(&wal).unwrap();
    // SQLite's write-ahead log has a header of 32 bytes with the size of a page in the bytes from 8 on, then frames
    // with 24 bytes before a page. A byte in the third frame is changed, which one of the five appends in that log
    // wrote.
    let page_bytes = u32::from_be_bytes(bytes[8..12].try_into().unwrap()) as usize;
    let third_frame = 32 + (24 + page_bytes) * 2;
    bytes[third_frame + 100] ^= 1;
    fs::write(&wal, &bytes).unwrap();
    for _ in 0..3 {
        let error = open_error(directory.path());
        let JournalError::Lost { first, last, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(last, 100);
        assert!((51..=81).contains(&first) && first % 10 == 1, "{first}");
        let text = error.to_string();
        assert!(text.contains(&format!(
            "lacks entries {first} to 100 ({} entries)",
            101 - first
        )));
        assert!(text.contains("accept-loss"));
        assert!(matches!(
            problems(directory.path())[..],
            [JournalError::Lost { last: 100, .. }]
        ));
        assert_eq!(
            fs::read(&wal).unwrap(),
            bytes,
            "the write-ahead log is not changed"
        );
    }
}

#[test]
fn a_truncated_or_missing_write_ahead_log_is_refused_until_the_loss_is_accepted() {
    for cut in [None, Some(0), Some(4096), Some(12_000)] {
        let directory = killed_store();
        let wal = directory.path().join(WAL);
        match cut {
            None => fs::remove_file(&wal).unwrap(),
            Some(length) => {
                let bytes = fs::read(&wal).unwrap();
                fs::write(&wal, &bytes[..length]).unwrap();
            }
        }
        let JournalError::Lost {
            first, last: 100, ..
        } = open_error(directory.path())
        else {
            panic!("not refused");
        };
        let accepted = SqliteJournal::accept_loss(directory.path()).unwrap();
        assert_eq!(accepted.lost, Some((first, 100)));
        assert_eq!(accepted.end, first - 1);
        assert!(problems(directory.path()).is_empty());
        let mut journal = open(directory.path()).unwrap();
        append(&mut journal, first);
        assert_eq!(journal.end().unwrap(), first + 9);
        drop(journal);
        assert!(problems(directory.path()).is_empty());
    }
}

#[test]
fn deleted_rows_at_the_end_are_detected() {
    let directory = killed_store();
    let database = Connection::open(directory.path().join(DATABASE)).unwrap();
    database
        .execute("DELETE FROM batch WHERE first > 70", [])
        .unwrap();
    drop(database);
    assert!(matches!(
        open_error(directory.path()),
        JournalError::Lost {
            first: 71,
            last: 100,
            ..
        }
    ));
    // A store whose database is empty lacks all entries.
    fs::write(directory.path().join(DATABASE), b"").unwrap();
    assert!(matches!(
        open_error(directory.path()),
        JournalError::Lost {
            first: 1,
            last: 100,
            ..
        }
    ));
    let opened = SqliteJournal::open_read_only(directory.path())
        .err()
        .unwrap();
    assert!(matches!(
        opened,
        JournalError::Lost {
            first: 1,
            last: 100,
            ..
        }
    ));
}

#[test]
fn a_database_with_another_history_is_detected() {
    let directory = killed_store();
    let other = tempfile::tempdir().unwrap();
    let mut journal = open(other.path()).unwrap();
    for first in [1, 11, 21, 31, 41, 51, 61, 71, 81, 91, 101] {
        journal.append(first, &[b"other".as_slice(); 10]).unwrap();
    }
    drop(journal);
    for name in [DATABASE, WAL] {
        let _ = fs::remove_file(directory.path().join(name));
    }
    fs::copy(other.path().join(DATABASE), directory.path().join(DATABASE)).unwrap();
    let error = open_error(directory.path());
    assert!(
        matches!(
            error,
            JournalError::Damaged {
                first: 91,
                last: 100,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_missing_or_damaged_mark_is_an_error_except_in_stores_of_earlier_releases() {
    let directory = killed_store();
    let mark = directory.path().join("mark");
    fs::write(&mark, [0; 3 * 4096]).unwrap();
    let error = open_error(directory.path());
    assert!(
        matches!(
            error,
            JournalError::NoMark {
                what: "damaged",
                end: 100,
                ..
            }
        ),
        "{error}"
    );
    fs::remove_file(&mark).unwrap();
    let error = open_error(directory.path());
    assert!(
        matches!(
            error,
            JournalError::NoMark {
                what: "missing",
                end: 100,
                ..
            }
        ),
        "{error}"
    );
    assert!(matches!(
        problems(directory.path())[..],
        [JournalError::NoMark { .. }]
    ));
    let accepted = SqliteJournal::accept_loss(directory.path()).unwrap();
    assert_eq!((accepted.lost, accepted.end), (None, 100));
    assert_eq!(open(directory.path()).unwrap().notices(), []);

    // A store of an earlier release has neither a mark nor the key `marked`.
    fs::remove_file(&mark).unwrap();
    let database = Connection::open(directory.path().join(DATABASE)).unwrap();
    database
        .execute("DELETE FROM meta WHERE key = 'marked'", [])
        .unwrap();
    drop(database);
    assert!(problems(directory.path()).is_empty());
    let journal = open(directory.path()).unwrap();
    assert!(matches!(
        journal.notices(),
        [Notice::Adopted { end: 100, .. }]
    ));
    drop(journal);
    assert_eq!(open(directory.path()).unwrap().notices(), []);
    fs::remove_file(&mark).unwrap();
    assert!(matches!(
        open_error(directory.path()),
        JournalError::NoMark { .. }
    ));
}

#[test]
fn a_kill_between_an_append_and_its_mark_is_not_an_error() {
    let origin = tempfile::tempdir().unwrap();
    let mut journal = open(origin.path()).unwrap();
    append(&mut journal, 1);
    let mark = fs::read(origin.path().join("mark")).unwrap();
    append(&mut journal, 11);
    let directory = copy(origin.path());
    fs::write(directory.path().join("mark"), &mark).unwrap();
    assert!(problems(directory.path()).is_empty());
    // From now on the entries of the second append can be read, so opening the store sets the mark to them.
    assert_eq!(open(directory.path()).unwrap().end().unwrap(), 20);
    let database = Connection::open(directory.path().join(DATABASE)).unwrap();
    database
        .execute("DELETE FROM batch WHERE first > 10", [])
        .unwrap();
    drop(database);
    assert!(matches!(
        open_error(directory.path()),
        JournalError::Lost {
            first: 11,
            last: 20,
            ..
        }
    ));
}

#[test]
fn lost_entries_that_a_snapshot_covers_are_not_lost_for_good() {
    let directory = killed_store();
    let mut journal = open(directory.path()).unwrap();
    let mut writer = journal.write_snapshot(80).unwrap();
    writer.write_all(b"state").unwrap();
    writer.finish().unwrap();
    drop(journal);
    let database = Connection::open(directory.path().join(DATABASE)).unwrap();
    database
        .execute("DELETE FROM batch WHERE first > 40", [])
        .unwrap();
    drop(database);
    assert!(matches!(
        open_error(directory.path()),
        JournalError::Lost {
            first: 41,
            last: 100,
            ..
        }
    ));
    let expected = AcceptedLoss {
        lost: Some((81, 100)),
        end: 80,
        has_only_snapshot: true,
    };
    assert_eq!(
        SqliteJournal::accept_loss(directory.path()).unwrap(),
        expected
    );
    let mut journal = open(directory.path()).unwrap();
    append(&mut journal, 81);
    let mut seen = Vec::new();
    let end = journal.read(81, &mut |sequence, _| {
        seen.push(sequence);
        ControlFlow::Continue(())
    });
    assert_eq!((end.unwrap(), seen.len()), (91, 10));
    drop(journal);
    assert!(problems(directory.path()).is_empty());

    // The snapshot is kept even if the database cannot be read at all.
    fs::write(directory.path().join(DATABASE), [7; 8192]).unwrap();
    assert!(
        open_error(directory.path())
            .to_string()
            .contains("entries up to 90 were acknowledged")
    );
    let accepted = SqliteJournal::accept_loss(directory.path()).unwrap();
    assert_eq!((accepted.lost, accepted.end), (Some((81, 90)), 80));
    assert!(directory.path().join("journal.sqlite.lost").exists());
    assert!(problems(directory.path()).is_empty());
    append(&mut open(directory.path()).unwrap(), 81);

    // What an earlier loss put aside stays.
    fs::write(directory.path().join(DATABASE), [8; 8192]).unwrap();
    SqliteJournal::accept_loss(directory.path()).unwrap();
    for (name, byte) in [("journal.sqlite.lost", 7), ("journal.sqlite.lost-2", 8)] {
        assert_eq!(fs::read(directory.path().join(name)).unwrap(), [byte; 8192]);
    }
}

#[test]
fn accepting_a_loss_truncates_the_journal_at_a_damaged_entry() {
    let directory = killed_store();
    let database = Connection::open(directory.path().join(DATABASE)).unwrap();
    database
        .execute("UPDATE batch SET checksum = 1 WHERE first = 61", [])
        .unwrap();
    drop(database);
    let accepted = SqliteJournal::accept_loss(directory.path()).unwrap();
    assert_eq!((accepted.lost, accepted.end), (Some((61, 100)), 60));
    assert!(problems(directory.path()).is_empty());

    let directory = killed_store();
    let accepted = SqliteJournal::accept_loss(directory.path()).unwrap();
    assert_eq!((accepted.lost, accepted.end), (None, 100));
    let absent = directory.path().join("absent");
    assert!(matches!(
        SqliteJournal::accept_loss(&absent),
        Err(JournalError::NotFound { .. })
    ));
}

#[test]
fn no_loss_is_accepted_when_no_snapshot_is_sound_and_entries_were_trimmed() {
    let directory = killed_store();
    let mut journal = open(directory.path()).unwrap();
    let mut writer = journal.write_snapshot(60).unwrap();
    writer.write_all(b"state").unwrap();
    writer.finish().unwrap();
    journal.trim(41).unwrap();
    drop(journal);
    fs::remove_file(directory.path().join(format!("snapshot-{:020}", 60))).unwrap();
    let refused = SqliteJournal::accept_loss(directory.path()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "entries 1 to 40 were trimmed, and no sound snapshot has the state after them"
    );
}

#[test]
fn handles_share_one_mark() {
    let directory = killed_store();
    let mut journal = open(directory.path()).unwrap();
    append(&mut journal, 101);
    let mut other = journal.try_clone().unwrap();
    append(other.as_mut(), 111);
    append(&mut journal, 121);
    drop((journal, other));
    assert_eq!(open(directory.path()).unwrap().end().unwrap(), 130);
}

#[cfg(unix)]
mod modes {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn only_the_owner_can_read_a_store_and_other_modes_cause_a_notice() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a/b/store");
        let mut journal = open(&directory).unwrap();
        append(&mut journal, 1);
        let mut writer = journal.write_snapshot(10).unwrap();
        writer.write_all(b"state").unwrap();
        writer.finish().unwrap();
        for path in [
            &directory,
            directory.parent().unwrap(),
            &parent.path().join("a"),
        ] {
            assert_eq!(mode(path), 0o700, "{}", path.display());
        }
        let files: Vec<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|f| f.unwrap().path())
            .collect();
        // The database with its two files, the mark, the lock and the snapshot.
        assert!(files.len() >= 6, "{files:?}");
        for path in files {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
        assert_eq!(journal.notices(), []);
        drop(journal);

        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(
            open(&directory).unwrap().notices(),
            [],
            "its files still have restrictive modes"
        );
        let database = directory.join(DATABASE);
        fs::set_permissions(&database, fs::Permissions::from_mode(0o644)).unwrap();
        let journal = open(&directory).unwrap();
        assert!(matches!(
            journal.notices(),
            [Notice::OpenToOthers { mode: 0o755, .. }]
        ));
        assert!(journal.notices()[0].to_string().contains("chmod"));
        drop(journal);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(open(&directory).unwrap().notices(), []);
    }
}
