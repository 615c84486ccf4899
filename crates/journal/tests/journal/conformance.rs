//! The contract of the trait `Journal`, tested with the implementations of this crate.

use placewright_journal::{Faults, Faulty, MemoryJournal, SqliteJournal, SqliteOptions};
use placewright_journal_testing::check_contract;

#[test]
fn a_journal_in_memory_keeps_the_contract() {
    check_contract(MemoryJournal::new);
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
