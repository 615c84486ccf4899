//! Limits that protect callers from large commands and from large numbers of commands of others.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::toy::{Command, Event, Toy, block_on};
use placewright_engine::{Options, SubmitError};

const MOVE: Command = Command::Move {
    from: 0,
    to: 1,
    amount: 1,
};

/// The size of a record with one change in bytes: 1 for the record and 9 for each change. A move has
/// two changes.
const ONE_CHANGE_BYTES: usize = 10;

#[test]
fn a_command_that_is_too_large_is_refused_and_has_no_effect() {
    let mut toy = Toy::new(Options {
        record_bytes_max: ONE_CHANGE_BYTES,
        ..Options::default()
    });
    toy.add(0, 5).unwrap().unwrap();
    let digest = toy.digest();
    toy.faults.hold();
    let first = toy.engine.submit(Command::Add {
        counter: 2,
        amount: 1,
    });
    toy.faults.wait_until_held();
    let before = toy.engine.submit(Command::Add {
        counter: 3,
        amount: 1,
    });
    let too_large = toy.engine.submit(MOVE);
    let after = toy.engine.submit(Command::Add {
        counter: 3,
        amount: 1,
    });
    toy.faults.release();
    assert_eq!(block_on(first).unwrap(), Ok(1));
    assert_eq!(block_on(before).unwrap(), Ok(1));
    let error = block_on(too_large).unwrap_err();
    assert!(matches!(
        error,
        SubmitError::TooLarge {
            bytes: 19,
            bytes_max: ONE_CHANGE_BYTES
        }
    ));
    assert!(
        error
            .to_string()
            .contains("store.record_bytes_max allows 10")
    );
    assert_eq!(block_on(after).unwrap(), Ok(2));
    assert!(toy.engine.time_since_failed_append().is_none());
    assert_eq!(toy.engine.durable_sequence(), 4);
    assert_ne!(toy.digest(), digest);
    assert_eq!(toy.digest(), toy.recovered_digest());
    assert!(
        !toy.events
            .take()
            .iter()
            .any(|event| matches!(event, Event::AppendFailed(_)))
    );
}

#[test]
fn appends_are_limited_in_size_and_commands_keep_their_order() {
    for decide_commands_max in [1, 7, 1_000] {
        let mut toy = Toy::new(Options {
            batch_bytes_max: 5 * ONE_CHANGE_BYTES,
            decide_commands_max,
            ..Options::default()
        });
        toy.faults.hold();
        let answers: Vec<_> = (0..100)
            // The command adds 1 to the first counter, and returns its value.
            .map(|_| toy.engine.submit(Command::Slow { micros: 0 }))
            .collect();
        toy.faults.release();
        for (number, answer) in (1..).zip(answers) {
            assert_eq!(block_on(answer).unwrap(), Ok(number));
        }
        // Callers get their answers before the observer is called. After the shutdown it has been called for
        // each append.
        toy.engine.shutdown();
        let committed = toy
            .events
            .take()
            .into_iter()
            .filter_map(|event| match event {
                Event::Committed { entries, .. } => Some(entries),
                _ => None,
            });
        let committed: Vec<usize> = committed.collect();
        assert_eq!(committed.iter().sum::<usize>(), 100);
        assert!(
            committed.iter().all(|entries| *entries <= 5),
            "{committed:?}"
        );
        assert_eq!(toy.digest(), toy.recovered_digest());
    }
}

#[test]
fn reads_are_not_blocked_while_many_commands_are_decided() {
    let toy = Toy::new(Options {
        decide_commands_max: 10_000,
        ahead_commands_min: 10_000,
        decide_hold_max: Duration::from_millis(1),
        ..Options::default()
    });
    // All commands after the first are decided together after the held append, and none before that.
    toy.faults.hold();
    let first = toy.engine.submit(Command::Slow { micros: 0 });
    toy.faults.wait_until_held();
    let answers: Vec<_> = (0..200)
        .map(|_| toy.engine.submit(Command::Slow { micros: 500 }))
        .collect();
    let is_done = AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while !is_done.load(Ordering::Relaxed) {
                seen.insert(toy.engine.read_now(|counters| counters.values()[0]));
            }
            seen
        });
        toy.faults.release();
        block_on(first).unwrap().unwrap();
        for answer in answers {
            block_on(answer).unwrap().unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    // If the lock were held once for all commands, only the first and the last value would be seen.
    assert!(seen.len() > 2, "{seen:?}");
}
