//! Recovery, and the snapshots that shorten it.

use std::io::Write;

use crate::toy::{Command, Counters, Event, SubmitBlocking, Toy, block_on, eventually};
use placewright_engine::{DecodeError, Engine, LoadError, Options, RecoverError, StoreError};
use placewright_journal::{
    Fault, Journal, JournalError, MemoryJournal, Operation, SqliteJournal, SqliteOptions,
};

fn frequent_snapshots() -> Options {
    Options {
        snapshot_entries: 50,
        snapshot_duty: 1.0,
        retain_entries: 20,
        ..Options::default()
    }
}

fn open_error(journal: &dyn Journal) -> RecoverError {
    Engine::<Counters>::open(journal.try_clone().unwrap(), Options::default(), ())
        .err()
        .expect("opening must fail")
}

fn write_snapshot(journal: &mut dyn Journal, sequence: u64, bytes: &[u8]) {
    let mut writer = journal.write_snapshot(sequence).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap();
}

#[test]
fn snapshots_are_made_in_the_background_and_shorten_the_start() {
    let mut toy = Toy::new(frequent_snapshots());
    let mut sequence = 0;
    let mut counters = (0..10).cycle();
    let mut add = || {
        toy.add(counters.next().unwrap(), 1).unwrap().unwrap();
        sequence += 1;
    };
    (0..500).for_each(|_| add());
    // Entries are trimmed only when there are two snapshots.
    eventually(|| {
        add();
        toy.engine.first_held() > 1
    });
    let events = toy.events.take();
    assert!(events.iter().any(|e| matches!(e, Event::Snapshot(_))));
    let digest = toy.digest();
    toy.restart(frequent_snapshots());
    assert_eq!(toy.digest(), digest);
    // Snapshots may have been made shortly before and after the restart.
    let events = toy.events.take();
    let recovered: Vec<&Event> = events
        .iter()
        .filter(|event| !matches!(event, Event::Snapshot(_)))
        .collect();
    let [
        Event::Recovered {
            snapshot,
            sequence: end,
        },
    ] = recovered[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(*end, sequence);
    let snapshots = toy.journal.snapshots().unwrap();
    assert!(
        *snapshot >= 50
            && snapshots
                .iter()
                .any(|snapshot_info| snapshot_info.sequence == *snapshot)
    );
    assert!(toy.journal.snapshots().unwrap().len() <= 2);
}

#[test]
fn a_snapshot_on_request_covers_everything_durable() {
    let mut toy = Toy::new(Options {
        retain_entries: 0,
        ..Options::default()
    });
    for sequence in [10, 20] {
        for _ in 0..10 {
            toy.add(0, 1).unwrap().unwrap();
        }
        let report = block_on(toy.engine.snapshot()).unwrap();
        assert_eq!(report.sequence, sequence);
        // After the first snapshot all entries are kept, in case the snapshot is damaged: from entry 1. After the
        // second one the entries after the first snapshot are kept: from entry 11.
        assert_eq!(report.first_held, sequence - 9);
        assert_eq!(block_on(toy.engine.snapshot()).unwrap().sequence, sequence);
    }
    // The journal is trimmed up to the older of the two snapshots.
    assert_eq!(toy.engine.first_held(), 11);
    assert_eq!(toy.digest(), toy.recovered_digest());
}

#[test]
fn a_damaged_snapshot_is_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let open = || SqliteJournal::open(directory.path(), SqliteOptions::default()).unwrap();
    let damage = |sequence: u64| {
        let path = directory.path().join(format!("snapshot-{sequence:020}"));
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    let options = Options {
        retain_entries: 0,
        ..Options::default()
    };
    let mut toy = Toy::on(&open(), options.clone());
    for _ in 0..2 {
        toy.add(0, 1).unwrap().unwrap();
        block_on(toy.engine.snapshot()).unwrap();
    }
    toy.add(0, 1).unwrap().unwrap();
    let digest = toy.digest();
    damage(2);
    toy.restart(options);
    assert_eq!(toy.digest(), digest);
    let recovered = Event::Recovered {
        snapshot: 1,
        sequence: 3,
    };
    assert_eq!(toy.events.take(), [Event::UnusableSnapshot(2), recovered]);
    // The next snapshot is made from the older snapshot, too.
    toy.add(0, 1).unwrap().unwrap();
    assert_eq!(block_on(toy.engine.snapshot()).unwrap().sequence, 4);

    toy.engine.shutdown();
    drop(toy);
    // Snapshot 2 is still damaged.
    damage(4);
    assert!(matches!(
        open_error(&open()),
        RecoverError::Snapshot {
            sequence: 4,
            source: LoadError::Io(_)
        }
    ));
}

#[test]
fn a_snapshot_of_a_newer_release_is_refused() {
    let mut store = MemoryJournal::new();
    // The first byte of a record and of a snapshot is its version; this release reads version 1.
    store.append(1, &[&[1], &[1]]).unwrap();
    write_snapshot(&mut store, 1, &[2]);
    assert!(matches!(
        open_error(&store),
        RecoverError::Snapshot {
            sequence: 1,
            source: LoadError::Newer {
                found: 2,
                supported: 1
            }
        }
    ));
}

#[test]
fn errors_name_the_entry_that_cannot_be_used() {
    // The first byte of a record is its version; this release reads version 1.
    let mut newer = MemoryJournal::new();
    newer.append(1, &[&[1], &[7]]).unwrap();
    assert!(matches!(
        open_error(&newer),
        RecoverError::Store(StoreError::Record {
            sequence: 2,
            source: DecodeError::Newer {
                found: 7,
                supported: 1
            }
        })
    ));

    let mut undecodable = MemoryJournal::new();
    undecodable.append(1, &[&[1, 0]]).unwrap();
    let error = open_error(&undecodable);
    assert_eq!(error.to_string(), "entry 1 cannot be used");

    // A snapshot that is ahead of the journal, as after only a part of a store was restored.
    let directory = tempfile::tempdir().unwrap();
    let mut toy = Toy::on(
        &SqliteJournal::open(directory.path(), SqliteOptions::default()).unwrap(),
        Options::default(),
    );
    toy.add(0, 1).unwrap().unwrap();
    block_on(toy.engine.snapshot()).unwrap();
    toy.engine.shutdown();
    // All handles on the store have to be closed, so that its lock is released.
    toy.journal = Box::new(MemoryJournal::new());
    drop(toy);
    std::fs::remove_file(directory.path().join("journal.sqlite")).unwrap();
    let refused = SqliteJournal::open(directory.path(), SqliteOptions::default()).err();
    assert!(matches!(
        refused,
        Some(JournalError::Lost {
            first: 1,
            last: 1,
            ..
        })
    ));
    // Without the mark, as in a store of an earlier release, the snapshot shows what is missing.
    std::fs::remove_file(directory.path().join("mark")).unwrap();
    let journal = SqliteJournal::open(directory.path(), SqliteOptions::default()).unwrap();
    assert!(matches!(
        open_error(&journal),
        RecoverError::Store(StoreError::Journal(JournalError::Missing {
            first: 1,
            last: 1,
            ..
        }))
    ));
}

#[test]
fn a_failed_snapshot_is_reported_and_retried_without_other_effects() {
    let options = Options {
        snapshot_retry: std::time::Duration::ZERO,
        ..frequent_snapshots()
    };
    let mut toy = Toy::new(options);
    // The next two snapshots cannot be written.
    toy.faults
        .fail(Operation::WriteSnapshot, 0, 2, Fault::NoSpace);
    let mut events = Vec::new();
    toy.add(0, 1).unwrap().unwrap();
    let (mut from, mut to) = (0, 1);
    eventually(|| {
        let amount = 1;
        let moved = toy
            .engine
            .submit_blocking(Command::Move { from, to, amount });
        moved.unwrap().unwrap();
        std::mem::swap(&mut from, &mut to);
        events.extend(toy.events.take());
        events.iter().any(|e| matches!(e, Event::Snapshot(_)))
    });
    let failed = events
        .iter()
        .filter(|e| **e == Event::SnapshotFailed)
        .count();
    assert_eq!(failed, 2);
    assert_eq!(toy.digest(), toy.recovered_digest());
}

#[test]
fn a_shutdown_interrupts_a_snapshot() {
    let mut toy = Toy::new(Options {
        snapshot_duty: 0.01,
        ..Options::default()
    });
    for _ in 0..100 {
        toy.add(0, 1).unwrap().unwrap();
    }
    let snapshots: Vec<_> = (0..1_000).map(|_| toy.engine.snapshot()).collect();
    toy.engine.shutdown();
    // Each snapshot was made or interrupted, and every call returns.
    snapshots.into_iter().for_each(|a| drop(block_on(a)));
    assert_eq!(toy.digest(), toy.recovered_digest());
}
