//! The contract of the trait `Journal`, tested with the implementations of this crate.

use placewright_journal::{
    Faults, Faulty, Journal as _, MemoryJournal, SqliteJournal, SqliteOptions, compact,
};
use placewright_journal_testing::check_contract;

#[test]
fn a_journal_in_memory_keeps_the_contract() {
    check_contract(MemoryJournal::new);
}

#[test]
fn trimmed_batches_of_a_journal_in_memory_are_not_counted() {
    let mut journal = MemoryJournal::new();
    for first in [1, 3, 5] {
        journal.append(first, &[b"a", b"b"]).unwrap();
    }
    journal.write_snapshot(4).unwrap().finish().unwrap();
    compact(&mut journal, 0).unwrap();
    let stats = journal.stats().unwrap();
    assert_eq!((stats.entries, stats.batches), (2, 1));
}

#[test]
fn a_journal_with_injected_faults_keeps_the_contract() {
    check_contract(|| Faulty::new(MemoryJournal::new(), Faults::new()));
}

#[test]
fn a_journal_in_sqlite_keeps_the_contract() {
    let parent = tempfile::tempdir().unwrap();
    let mut stores = 0;
    check_contract(|| {
        stores += 1;
        let directory = parent.path().join(stores.to_string());
        SqliteJournal::open(&directory, SqliteOptions::default()).unwrap()
    });
}
