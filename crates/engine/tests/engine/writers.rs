//! Several writers on one journal: all entries have one order, and none is lost or duplicated.

use std::thread;

use crate::toy::counters::{LIMIT, Refusal};
use crate::toy::{Command, Counters, Event, SubmitBlocking, Toy, block_on};
use placewright_engine::{Engine, Options, SubmitError};
use placewright_journal::{Fault, Journal, MemoryJournal, Operation, SqliteJournal, SqliteOptions};

#[test]
fn a_writer_decides_again_after_a_conflict() {
    let store = MemoryJournal::new();
    let (first, mut second) = (
        Toy::on(&store, Options::default()),
        Toy::on(&store, Options::default()),
    );
    assert_eq!(first.add(0, 700).unwrap(), Ok(700));
    assert_eq!(first.add(1, 1).unwrap(), Ok(1));
    // The second writer has not read the entries of the first one yet: by its own state the amount would fit.
    assert_eq!(
        second.add(0, 400).unwrap(),
        Err(Refusal::TooMuch { value: 700 })
    );
    assert_eq!(second.add(0, 300).unwrap(), Ok(1_000));
    assert_eq!(
        first.add(0, 1).unwrap(),
        Err(Refusal::TooMuch { value: 1_000 })
    );
    assert_eq!(first.add(1, 1).unwrap(), Ok(2));
    assert_eq!(
        first.add(0, 1).unwrap(),
        Err(Refusal::TooMuch { value: 1_000 })
    );
    assert_eq!(first.digest(), second.recovered_digest());
    let conflicts: Vec<_> = second.events.take();
    assert!(conflicts.contains(&Event::Conflict {
        commands: 1,
        missed: 2
    }));
}

/// Two engines on one journal add to one counter, until its limit is reached.
fn race(journal: &dyn Journal) {
    let engines: Vec<Engine<Counters>> = (0..2)
        .map(|_| Engine::open(journal.try_clone().unwrap(), Options::default(), ()).unwrap())
        .collect();
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let engine = engines[caller % 2].clone();
            thread::spawn(move || {
                let mut accepted = 0;
                for _ in 0..60 {
                    let add = Command::Add {
                        counter: 0,
                        amount: 3,
                    };
                    accepted += u64::from(engine.submit_blocking(add).unwrap().is_ok());
                }
                accepted
            })
        })
        .collect();
    let accepted: u64 = callers.into_iter().map(|c| c.join().unwrap()).sum();
    assert_eq!(
        accepted,
        LIMIT / 3,
        "the limit holds for both engines together, and is reached"
    );
    let mut journal = journal.try_clone().unwrap();
    let recovered = placewright_engine::recover::<Counters>(journal.as_mut(), &()).unwrap();
    assert_eq!(recovered.machine.values()[0], accepted * 3);
    assert_eq!(recovered.sequence, accepted);
}

#[test]
fn two_engines_race_on_one_journal() {
    race(&MemoryJournal::new());
    let directory = tempfile::tempdir().unwrap();
    race(&SqliteJournal::open(directory.path(), SqliteOptions::default()).unwrap());
}

#[test]
fn a_writer_that_cannot_catch_up_returns_an_error_and_retries() {
    let store = MemoryJournal::new();
    let toy = Toy::on(&store, Options::default());
    let other = Toy::on(&store, Options::default());
    other.add(0, 5).unwrap().unwrap();
    // The next read of the journal fails.
    toy.faults.fail(Operation::Read, 0, 1, Fault::Io);
    assert!(matches!(toy.add(0, 1), Err(SubmitError::Unavailable(_))));
    assert_eq!(toy.add(0, 1).unwrap(), Ok(6));

    // A newer release's entry cannot be decoded, but everything before it can be read.
    let mut journal = store.try_clone().unwrap();
    journal.append(3, &[&[99]]).unwrap();
    for _ in 0..2 {
        assert!(matches!(toy.add(0, 1), Err(SubmitError::Unavailable(_))));
    }
    assert_eq!(block_on(toy.engine.read(|c| c.values()[0])), 6);
}
