//! Backups of stores, and restoring them.

use std::cell::Cell;
use std::fs;
use std::io::{Read as _, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use placewright_journal::backup::{
    BackupBatch, BackupContents, BackupError, BackupOptions, BackupProgress, WrittenBackup,
    inspect, restore, write,
};
use placewright_journal::{Journal, JournalError, SqliteJournal, SqliteOptions, verify};
use rusqlite::Connection;
use tempfile::TempDir;

fn open(directory: &Path) -> SqliteJournal {
    SqliteJournal::open(directory, SqliteOptions::default()).unwrap()
}

/// Appends batches of ten small records each: the number of their entry in angle brackets.
fn append(journal: &mut dyn Journal, batches: u64) {
    for _ in 0..batches {
        let first = journal.end().unwrap() + 1;
        let records: Vec<String> = (first..first + 10).map(|n| format!("<{n}>")).collect();
        let records: Vec<&[u8]> = records.iter().map(String::as_bytes).collect();
        journal.append(first, &records).unwrap();
    }
}

/// Makes appends of 100 kB, each of which is stored as two batches.
fn append_large(journal: &mut dyn Journal, appends: u64) {
    for _ in 0..appends {
        let first = journal.end().unwrap() + 1;
        let records: Vec<String> = (first..first + 10)
            .map(|n| format!("{:10000}", format!("<{n}>")))
            .collect();
        let records: Vec<&[u8]> = records.iter().map(String::as_bytes).collect();
        journal.append(first, &records).unwrap();
    }
}

fn snapshot(journal: &mut dyn Journal, sequence: u64) {
    let mut writer = journal.write_snapshot(sequence).unwrap();
    writer.write_all(&content(sequence)).unwrap();
    writer.finish().unwrap();
}

/// The content of a snapshot, which is longer than one chunk.
fn content(sequence: u64) -> Vec<u8> {
    (sequence..sequence + 1_500_000)
        .flat_map(|number| number.to_le_bytes()[..4].to_vec())
        .collect()
}

/// A folder, the path of a store in it with ten batches of ten entries, and a path in it for a backup.
fn folder() -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (store, file) = (folder.path().join("store"), folder.path().join("backup"));
    append(&mut open(&store), 10);
    (folder, store, file)
}

pub(crate) fn back_up(store: &Path, file: &Path) -> Result<WrittenBackup, BackupError> {
    let mut store = SqliteJournal::open_read_only(store)?;
    back_up_with(&mut store, file, &mut |_| ())
}

fn back_up_with(
    store: &mut SqliteJournal,
    file: &Path,
    progress: &mut dyn FnMut(&BackupProgress),
) -> Result<WrittenBackup, BackupError> {
    let options = BackupOptions {
        name: &|_, _| file.to_path_buf(),
        files: &["cell-uuid"],
        bytes_per_second: None,
    };
    write(store, &options, progress)
}

fn inspect_backup(file: &Path) -> Result<BackupContents, BackupError> {
    inspect(file, &mut |_| ())
}

pub(crate) fn restore_to(file: &Path, store: &Path, last: u64) -> Result<(), BackupError> {
    restore(file, store, last, &mut |_| ())?.publish()
}

/// The sequence of the first entry of a store, and all entries. Asserts that the store is intact.
fn entries(store: &Path) -> (u64, Vec<String>) {
    let mut journal = open(store);
    let problems = verify(&mut journal, &mut |_| ()).unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
    let first = journal.first_held().unwrap();
    let mut entries = Vec::new();
    journal
        .read(first, &mut |_, record| {
            entries.push(String::from_utf8_lossy(record).trim_end().to_owned());
            ControlFlow::Continue(())
        })
        .unwrap();
    (first, entries)
}

fn expected(first: u64, last: u64) -> Vec<String> {
    (first..=last).map(|number| format!("<{number}>")).collect()
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_store_can_be_restored_to_each_entry_of_a_backup() {
    let (folder, store, file) = folder();
    fs::write(store.join("cell-uuid"), "who it is\n").unwrap();
    let written = back_up(&store, &file).unwrap();
    assert_eq!((written.snapshot, written.end), (0, 100));
    let found = inspect_backup(&file).unwrap();
    assert_eq!((found.first, found.end), (0, 100));
    assert_eq!(found.files, ["cell-uuid"]);
    assert_eq!(found.bytes, fs::metadata(&file).unwrap().len());
    for last in [0, 1, 9, 10, 11, 55, 99, 100] {
        let restored = folder.path().join(format!("restored-{last}"));
        restore_to(&file, &restored, last).unwrap();
        assert_eq!(entries(&restored), (1, expected(1, last)), "{last}");
        assert_eq!(
            fs::read_to_string(restored.join("cell-uuid")).unwrap(),
            "who it is\n"
        );
        // Further entries can be appended.
        append(&mut open(&restored), 1);
        assert_eq!(entries(&restored), (1, expected(1, last + 10)));
    }
}

#[test]
#[cfg(unix)]
fn only_the_owner_can_read_a_backup_and_a_restored_store() {
    let (folder, store, file) = folder();
    fs::write(store.join("cell-uuid"), "who it is\n").unwrap();
    back_up(&store, &file).unwrap();
    assert_eq!(mode(&file), 0o600);
    let restored = folder.path().join("restored");
    restore_to(&file, &restored, 100).unwrap();
    assert_eq!(mode(&restored), 0o700);
    for entry in fs::read_dir(&restored).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn the_backup_of_a_trimmed_store_has_its_oldest_intact_snapshot() {
    let (folder, store, file) = folder();
    let mut journal = open(&store);
    for sequence in [30, 60] {
        snapshot(&mut journal, sequence);
    }
    journal.trim(31).unwrap();
    let written = back_up_with(&mut journal, &file, &mut |_| ()).unwrap();
    assert_eq!((written.snapshot, written.end), (30, 100));
    assert!(written.damaged_snapshots.is_empty());
    for last in [30, 31, 77, 100] {
        let restored = folder.path().join(format!("restored-{last}"));
        restore_to(&file, &restored, last).unwrap();
        assert_eq!(entries(&restored), (31, expected(31, last)));
        let mut bytes = Vec::new();
        let mut reader = open(&restored).read_snapshot(30).unwrap();
        reader.read_to_end(&mut bytes).unwrap();
        assert!(bytes == content(30));
    }
    let early = restore_to(&file, &folder.path().join("early"), 29);
    assert!(matches!(early, Err(BackupError::Outside { first: 30, .. })));
    assert!(!folder.path().join("early").exists());
}

#[test]
fn a_damaged_snapshot_is_reported_and_a_later_one_is_used() {
    let (folder, store, file) = folder();
    let mut journal = open(&store);
    for sequence in [30, 60] {
        snapshot(&mut journal, sequence);
    }
    journal.trim(31).unwrap();
    let path = |sequence| store.join(format!("snapshot-{sequence:020}"));
    damage(&path(30));
    let written = back_up_with(&mut journal, &file, &mut |_| ()).unwrap();
    assert_eq!((written.snapshot, written.end), (60, 100));
    assert!(matches!(
        written.damaged_snapshots[..],
        [JournalError::DamagedSnapshot { sequence: 30, .. }]
    ));
    let restored = folder.path().join("restored");
    restore_to(&file, &restored, 100).unwrap();
    assert_eq!(entries(&restored), (61, expected(61, 100)));

    damage(&path(60));
    let without_base = back_up_with(&mut journal, &folder.path().join("none"), &mut |_| ());
    assert!(
        matches!(without_base, Err(BackupError::NoBase { .. })),
        "{without_base:?}"
    );
    assert_files(&folder, &["store", "backup", "restored"]);
}

/// Changes a byte in the middle of a file.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn assert_files(folder: &TempDir, allowed: &[&str]) {
    for entry in fs::read_dir(folder.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(allowed.contains(&name.as_str()), "{name} was not removed");
    }
}

#[test]
fn the_backup_of_a_damaged_store_fails_and_leaves_no_file() {
    let (folder, store, file) = folder();
    drop(open(&store));
    Connection::open(store.join("journal.sqlite"))
        .unwrap()
        .execute(
            "UPDATE batch SET records = zeroblob(length(records)) WHERE first = 31",
            [],
        )
        .unwrap();
    let error = back_up(&store, &file).unwrap_err();
    assert!(error.to_string().contains("entries 31 to 40"), "{error}");
    assert_files(&folder, &["store"]);

    Connection::open(store.join("journal.sqlite"))
        .unwrap()
        .execute("DELETE FROM batch WHERE first >= 91", [])
        .unwrap();
    let error = back_up(&store, &file).unwrap_err();
    let is_lost = matches!(
        error,
        BackupError::Store(JournalError::Lost {
            first: 91,
            last: 100,
            ..
        })
    );
    assert!(is_lost, "{error}");
    assert_files(&folder, &["store"]);
}

#[test]
fn a_changed_or_truncated_backup_is_refused() {
    let (folder, store, file) = folder();
    let mut journal = open(&store);
    append(&mut journal, 1);
    back_up_with(&mut journal, &file, &mut |_| ()).unwrap();
    let intact = fs::read(&file).unwrap();
    let changed = folder.path().join("changed");
    let restored = folder.path().join("restored");
    for at in 0..intact.len() {
        let mut bytes = intact.clone();
        bytes[at] ^= 1;
        fs::write(&changed, &bytes).unwrap();
        assert!(inspect_backup(&changed).is_err(), "byte {at}");
        fs::write(&changed, &intact[..at]).unwrap();
        assert!(inspect_backup(&changed).is_err(), "cut at {at}");
    }
    fs::write(&changed, [&intact[..], b"x"].concat()).unwrap();
    assert!(inspect_backup(&changed).is_err(), "longer");
    for at in (0..intact.len()).step_by(intact.len() / 7) {
        let mut bytes = intact.clone();
        bytes[at] ^= 1;
        fs::write(&changed, &bytes).unwrap();
        assert!(restore_to(&changed, &restored, 110).is_err(), "byte {at}");
        assert_files(&folder, &["store", "backup", "changed"]);
    }
}

#[test]
fn existing_files_are_never_overwritten() {
    let (folder, store, file) = folder();
    fs::write(&file, "something").unwrap();
    let error = back_up(&store, &file).unwrap_err();
    assert!(matches!(error, BackupError::Exists { .. }), "{error}");
    assert_eq!(fs::read(&file).unwrap(), b"something");
    fs::remove_file(&file).unwrap();
    back_up(&store, &file).unwrap();
    let error = restore_to(&file, &store, 100).unwrap_err();
    assert!(matches!(error, BackupError::Exists { .. }), "{error}");
    // A directory with the temporary name of the store is not overwritten either.
    let partial = folder.path().join("restored.partial");
    fs::create_dir(&partial).unwrap();
    fs::write(partial.join("unrelated"), "unrelated").unwrap();
    let error = restore_to(&file, &folder.path().join("restored"), 100).unwrap_err();
    assert!(matches!(error, BackupError::Exists { .. }), "{error}");
    assert!(partial.join("unrelated").exists());
    assert_eq!(entries(&store).1.len(), 100);
}

#[test]
fn leftovers_of_a_killed_backup_or_restore_are_removed() {
    let (folder, store, file) = folder();
    fs::write(folder.path().join("backup.partial"), "half").unwrap();
    back_up(&store, &file).unwrap();
    assert_files(&folder, &["store", "backup"]);
    let restored = folder.path().join("restored");
    // A restore that was killed leaves a store with fewer entries.
    let leftover = folder.path().join("restored.partial");
    append(&mut open(&leftover), 3);
    restore_to(&file, &restored, 100).unwrap();
    assert_eq!(entries(&restored), (1, expected(1, 100)));
    assert_files(&folder, &["store", "backup", "restored"]);
}

#[test]
fn concurrent_backups_or_restores_to_the_same_path_are_refused() {
    let (folder, store, file) = folder();
    let other = Cell::new(None);
    let mut journal = SqliteJournal::open_read_only(&store).unwrap();
    back_up_with(&mut journal, &file, &mut |_| {
        other.set(Some(back_up(&store, &file)));
    })
    .unwrap();
    assert!(matches!(other.take(), Some(Err(BackupError::Busy { .. }))));
    inspect_backup(&file).unwrap();

    let restored = folder.path().join("restored");
    let first = restore(&file, &restored, 100, &mut |_| ()).unwrap();
    let second = restore(&file, &restored, 50, &mut |_| ());
    assert!(matches!(second, Err(BackupError::Busy { .. })));
    first.publish().unwrap();
    assert_eq!(entries(&restored), (1, expected(1, 100)));
}

#[test]
fn a_backup_starts_again_when_its_entries_are_trimmed() {
    let (folder, store, file) = folder();
    let mut journal = open(&store);
    append_large(&mut journal, 40);
    let mut steps = 0;
    let mut reader = SqliteJournal::open_read_only(&store).unwrap();
    let written = back_up_with(&mut reader, &file, &mut |_| {
        steps += 1;
        if steps == 1 {
            // The service makes two snapshots and trims the entries before them.
            for sequence in [400, 500] {
                snapshot(&mut journal, sequence);
            }
            journal.trim(401).unwrap();
            append(&mut journal, 1);
        }
    });
    let written = written.unwrap();
    assert_eq!((written.snapshot, written.end), (400, 510));
    let restored = folder.path().join("restored");
    restore_to(&file, &restored, 510).unwrap();
    assert_eq!(entries(&restored), (401, expected(401, 510)));
}

#[test]
fn the_write_ahead_log_is_reset_during_a_backup() {
    let (_folder, store, file) = folder();
    let mut journal = open(&store);
    append_large(&mut journal, 20);
    let mut reader = SqliteJournal::open_read_only(&store).unwrap();
    let is_done = AtomicBool::new(false);
    let log = store.join("journal.sqlite-wal");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let record = vec![7; 100_000];
            while !is_done.load(Ordering::Relaxed) {
                let next = journal.end().unwrap() + 1;
                journal.append(next, &[&record]).unwrap();
            }
        });
        let options = BackupOptions {
            name: &|_, _| file.clone(),
            files: &[],
            bytes_per_second: Some(1 << 20),
        };
        let written = write(&mut reader, &options, &mut |_| ());
        is_done.store(true, Ordering::Relaxed);
        written.unwrap();
    });
    // The log is checkpointed at 16 MiB, and then reset unless a reader still uses it.
    let bytes = fs::metadata(log).unwrap().len();
    assert!(bytes < 32 << 20, "the log has {bytes} bytes");
}

#[test]
fn the_rate_limit_is_kept() {
    let (_folder, store, file) = folder();
    append_large(&mut open(&store), 40);
    let options = BackupOptions {
        name: &|_, _| file.clone(),
        files: &[],
        bytes_per_second: Some(4 << 20),
    };
    let began = std::time::Instant::now();
    let mut reader = SqliteJournal::open_read_only(&store).unwrap();
    let written = write(&mut reader, &options, &mut |_| ()).unwrap();
    // A delay of up to 50 ms may be made up for by copying faster.
    let seconds_min = written.bytes as f64 / f64::from(4 << 20) - 0.1;
    let took = began.elapsed().as_secs_f64();
    assert!(took >= seconds_min, "{took} s for {} bytes", written.bytes);
}

#[test]
fn batches_have_the_time_of_their_append() {
    let (folder, store, file) = folder();
    let before = microseconds();
    append(&mut open(&store), 1);
    let after = microseconds();
    let written = back_up(&store, &file).unwrap();
    assert!(written.made_at >= after);
    let mut seen: Vec<BackupBatch> = Vec::new();
    inspect(&file, &mut |batch| seen.push(batch)).unwrap();
    let last = seen.last().unwrap();
    assert_eq!((seen.len(), last.first, last.last), (11, 101, 110));
    let at = last.appended_at.unwrap();
    assert!((before..=after).contains(&at), "{before} {at} {after}");
    // A restored store still has the times, also that of the batch that the restore cut short.
    let (restored, again) = (folder.path().join("restored"), folder.path().join("again"));
    restore_to(&file, &restored, 105).unwrap();
    back_up(&restored, &again).unwrap();
    let mut seen_again = Vec::new();
    inspect(&again, &mut |batch| seen_again.push(batch)).unwrap();
    assert_eq!(seen_again[..10], seen[..10]);
    assert_eq!(seen_again[10].last, 105);
    assert_eq!(seen_again[10].appended_at, Some(at));
}

fn microseconds() -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    i64::try_from(since.as_micros()).unwrap()
}

#[test]
fn a_store_of_an_earlier_release_has_no_times_until_it_is_opened() {
    let (folder, store, file) = folder();
    let database = Connection::open(store.join("journal.sqlite")).unwrap();
    database
        .execute_batch("ALTER TABLE batch DROP COLUMN appended_at")
        .unwrap();
    back_up(&store, &file).unwrap();
    let mut seen = Vec::new();
    inspect(&file, &mut |batch| seen.push(batch.appended_at)).unwrap();
    assert_eq!(seen, [None; 10]);
    append(&mut open(&store), 1);
    let again = folder.path().join("again");
    back_up(&store, &again).unwrap();
    let mut seen = Vec::new();
    inspect(&again, &mut |batch| seen.push(batch.appended_at.is_some())).unwrap();
    assert_eq!(seen[..10], [false; 10]);
    assert_eq!(seen[10..], [true]);
    let restored = folder.path().join("restored");
    restore_to(&again, &restored, 110).unwrap();
    assert_eq!(entries(&restored), (1, expected(1, 110)));
}
