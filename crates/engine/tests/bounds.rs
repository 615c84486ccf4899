//! Limits on what one command, or many at once, may cost the other callers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod toy;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use placewright_engine::{Options, SubmitError};
use toy::{Command, Event, Toy, block_on};

const MOVE: Command = Command::Move {
    from: 0,
    to: 1,
    amount: 1,
};

/// A record of the toy has 1 byte and 9 for each change; a move has two changes.
const ONE_CHANGE: usize = 10;

#[test]
fn a_command_that_is_too_large_is_refused_alone_and_leaves_no_trace() {
    let mut toy = Toy::new(Options {
        record_bytes_max: ONE_CHANGE,
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
            bytes_max: ONE_CHANGE
        }
    ));
    assert!(
        error
            .to_string()
            .contains("store.record_bytes_max allows 10")
    );
    assert_eq!(block_on(after).unwrap(), Ok(2));
    assert!(toy.engine.store_failed_ago().is_none());
    assert_eq!(toy.engine.durable_sequence(), 4);
    assert_ne!(toy.digest(), digest);
    assert_eq!(toy.digest(), toy.recovered_digest());
    assert!(
        !toy.events
            .take()
            .iter()
            .any(|event| matches!(event, Event::Failed(_)))
    );
}

#[test]
fn no_append_is_larger_than_allowed_and_the_order_stays() {
    for decide_commands_max in [1, 7, 1_000] {
        let mut toy = Toy::new(Options {
            batch_bytes_max: 5 * ONE_CHANGE,
            decide_commands_max,
            ..Options::default()
        });
        toy.faults.hold();
        let answers: Vec<_> = (0..100)
            .map(|_| toy.engine.submit(Command::Slow { micros: 0 }))
            .collect();
        toy.faults.release();
        for (number, answer) in (1..).zip(answers) {
            assert_eq!(block_on(answer).unwrap(), Ok(number));
        }
        // Callers are answered before observers are called; afterwards nothing is under way.
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
fn readers_have_their_turn_while_many_commands_are_decided() {
    let toy = Toy::new(Options {
        decide_commands_max: 10_000,
        ahead_commands_min: 10_000,
        ahead_work_min: Duration::MAX,
        decide_hold_max: Duration::from_millis(1),
        ..Options::default()
    });
    // All of them are taken at once, when the append before them is done; none is decided ahead of that.
    toy.faults.hold();
    let first = toy.engine.submit(Command::Slow { micros: 0 });
    toy.faults.wait_until_held();
    let answers: Vec<_> = (0..200)
        .map(|_| toy.engine.submit(Command::Slow { micros: 500 }))
        .collect();
    let over = AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while !over.load(Ordering::Relaxed) {
                seen.insert(toy.engine.read_now(|counters| counters.values()[0]));
            }
            seen
        });
        toy.faults.release();
        block_on(first).unwrap().unwrap();
        for answer in answers {
            block_on(answer).unwrap().unwrap();
        }
        over.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    // With a single hold of the lock, only the first and the last value would be seen.
    assert!(seen.len() > 2, "{seen:?}");
}
