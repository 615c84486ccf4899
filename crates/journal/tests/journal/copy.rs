//! Copies of journals, whole and interrupted.

use std::io::{Read as _, Write as _};
use std::ops::ControlFlow;

use placewright_journal::{
    AppendError, Copied, CopyError, Fault, Faults, Faulty, Journal, JournalError, MemoryJournal,
    Operation, SqliteJournal, SqliteOptions, copy,
};

fn append(journal: &mut dyn Journal, first: u64, last: u64) {
    for sequence in first..=last {
        let record = format!("record {sequence}");
        journal.append(sequence, &[record.as_bytes()]).unwrap();
    }
}

fn snapshot(journal: &mut dyn Journal, sequence: u64) {
    let mut writer = journal.write_snapshot(sequence).unwrap();
    write!(writer, "state {sequence}").unwrap();
    writer.finish().unwrap();
}

fn records(journal: &mut dyn Journal) -> Vec<String> {
    let mut records = Vec::new();
    let first = journal.first_held().unwrap();
    let read = journal.read(first, &mut |sequence, record| {
        let record = String::from_utf8(record.to_vec()).unwrap();
        records.push(format!("{sequence}: {record}"));
        ControlFlow::Continue(())
    });
    read.unwrap();
    records
}

fn state(journal: &mut dyn Journal, sequence: u64) -> String {
    let mut state = String::new();
    let mut reader = journal.read_snapshot(sequence).unwrap();
    reader.read_to_string(&mut state).unwrap();
    state
}

fn copy_to(source: &mut dyn Journal, target: &mut dyn Journal) -> Result<Copied, CopyError> {
    copy(source, target, "there", &mut |_| ())
}

/// A journal of 30 entries, of which the first ten are trimmed.
fn trimmed_source() -> MemoryJournal {
    let mut source = MemoryJournal::new();
    append(&mut source, 1, 30);
    snapshot(&mut source, 12);
    snapshot(&mut source, 20);
    source.trim(11).unwrap();
    source
}

#[test]
fn a_copy_has_the_entries_and_snapshots_and_the_source_is_sealed() {
    let mut source = trimmed_source();
    let folder = tempfile::tempdir().unwrap();
    let mut target = SqliteJournal::open(folder.path(), SqliteOptions::default()).unwrap();
    let mut seen = Vec::new();
    let copied = copy(&mut source, &mut target, "there", &mut |at| seen.push(at));
    let expected = Copied {
        end: 30,
        entries: 20,
        snapshots: 2,
    };
    assert_eq!(copied.unwrap(), expected);
    assert_eq!(seen.last().map(|at| (at.entry, at.end)), Some((30, 30)));
    assert_eq!(records(&mut target), records(&mut source));
    assert_eq!(target.first_held().unwrap(), 11);
    assert_eq!(state(&mut target, 12), "state 12");
    assert_eq!(state(&mut target, 20), "state 20");
    assert!(matches!(
        source.append(31, &[b"late"]),
        Err(AppendError::Failed(JournalError::Sealed { end: 30, .. }))
    ));
    append(&mut target, 31, 31);
    drop(target);
    let mut target = SqliteJournal::open(folder.path(), SqliteOptions::default()).unwrap();
    assert_eq!(target.end().unwrap(), 31);
    // Once somebody goes on with the target, it is no copy any more.
    assert!(matches!(
        copy_to(&mut source, &mut target),
        Err(CopyError::Differs { entry: 31 })
    ));
}

#[test]
fn snapshots_that_are_replaced_during_a_copy_are_copied_after_the_seal() {
    let mut source = trimmed_source();
    let mut service = source.try_clone().unwrap();
    let mut target = MemoryJournal::new();
    let copied = copy(&mut source, &mut target, "there", &mut |at| {
        if at.entry == 30 {
            append(service.as_mut(), 31, 31);
            snapshot(service.as_mut(), 31);
            service.drop_snapshots(1).unwrap();
        }
    });
    let expected = Copied {
        end: 31,
        entries: 21,
        snapshots: 1,
    };
    assert_eq!(copied.unwrap(), expected);
    assert_eq!(state(&mut target, 31), "state 31");
}

#[test]
fn an_interrupted_copy_goes_on_where_it_ended() {
    let mut source = trimmed_source();
    let mut target = MemoryJournal::new();
    let large = vec![b'x'; 1 << 20];
    for sequence in 31..=34 {
        source.append(sequence, &[&large]).unwrap();
    }
    let faults = Faults::new();
    let mut failing = Faulty::new(target.try_clone().unwrap(), faults.clone());
    // Two appends succeed, and the third one fails.
    faults.fail(Operation::Append, 2, 1, Fault::NoSpace);
    assert!(matches!(
        copy_to(&mut source, &mut failing),
        Err(CopyError::Target(JournalError::NoSpace { .. }))
    ));
    let end = target.end().unwrap();
    assert!((30..34).contains(&end), "{end}");
    // The source is not sealed yet.
    source.append(35, &[b"meanwhile"]).unwrap();
    // The answer to the first append is lost, the second one succeeds, and the request of the third one is lost.
    faults.fail(Operation::Append, 0, 1, Fault::LostAnswer);
    faults.fail(Operation::Append, 1, 1, Fault::LostRequest);
    let copied = copy_to(&mut source, &mut failing).unwrap();
    assert_eq!((copied.end, copied.entries), (35, 35 - end));
    assert_eq!(records(&mut target), records(&mut source));
    let again = copy_to(&mut source, &mut target).unwrap();
    assert_eq!((again.entries, again.snapshots), (0, 0));
}

#[test]
fn a_target_with_something_else_is_left_as_it_is() {
    let mut source = trimmed_source();
    let mut target = MemoryJournal::new();
    target.begin_after(10).unwrap();
    append(&mut target, 11, 14);
    target.append(15, &[b"another"]).unwrap();
    let before = records(&mut target);
    assert!(matches!(
        copy_to(&mut source, &mut target),
        Err(CopyError::Differs { entry: 15 })
    ));
    assert_eq!(records(&mut target), before);
    let mut short = MemoryJournal::new();
    append(&mut short, 1, 5);
    assert!(matches!(
        copy_to(&mut source, &mut short),
        Err(CopyError::Gap {
            end: 5,
            first_held: 11
        })
    ));
    // The source can still be written.
    append(&mut source, 31, 31);
}

#[test]
fn a_sealed_directory_stays_sealed_and_earlier_releases_refuse_it() {
    let folder = tempfile::tempdir().unwrap();
    let open = || SqliteJournal::open(folder.path(), SqliteOptions::default());
    let mut journal = open().unwrap();
    append(&mut journal, 1, 2);
    assert_eq!(journal.seal("etcd://a:1/p").unwrap(), 2);
    drop(journal);
    let mut journal = open().unwrap();
    let refused = journal.append(3, &[b"late"]).unwrap_err().to_string();
    assert!(refused.contains("etcd://a:1/p"), "{refused}");
    assert_eq!(records(&mut journal).len(), 2);
    let format = "SELECT value FROM meta WHERE key = 'format'";
    let database = rusqlite::Connection::open(folder.path().join("journal.sqlite")).unwrap();
    let format: i64 = database.query_row(format, [], |row| row.get(0)).unwrap();
    assert!(format > i64::from(placewright_journal::FORMAT));
}
