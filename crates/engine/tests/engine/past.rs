//! States of the past: rebuilt from snapshots and entries, within limits, beside the running engine.

use std::time::Duration;

use crate::toy::{Counters, Toy, block_on};
use placewright_engine::{Machine as _, Options, PastError, PastLimits, PastRange, PastState};
use placewright_journal::Journal as _;

const LIMITS: PastLimits = PastLimits {
    entries_max: 1_000,
    time_max: Duration::from_secs(60),
    duty: 1.0,
};

/// Rebuilds the state after an entry; from the state `kept`, if there is one.
fn rebuild(
    toy: &Toy,
    sequence: u64,
    kept: Option<PastState<Counters>>,
    limits: &PastLimits,
) -> Result<PastState<Counters>, PastError> {
    let mut past = block_on(toy.engine.open_past())?;
    past.rebuild(sequence, kept, limits)
}

fn range(toy: &Toy) -> PastRange {
    let mut past = block_on(toy.engine.open_past()).unwrap();
    past.range().unwrap()
}

/// Adds until the journal has so many entries; returns the digest after each of them.
fn add_until(toy: &Toy, digests: &mut Vec<u128>, end: u64) {
    while (digests.len() as u64) < end {
        toy.add(digests.len() % 10, 1).unwrap().unwrap();
        digests.push(toy.digest());
    }
}

#[test]
fn each_held_state_is_rebuilt_as_it_was() {
    let toy = Toy::new(Options::default());
    let mut digests = Vec::new();
    add_until(&toy, &mut digests, 120);
    assert_eq!(
        range(&toy),
        PastRange {
            oldest: 1,
            newest: 120
        }
    );
    block_on(toy.engine.snapshot()).unwrap();
    add_until(&toy, &mut digests, 200);
    let mut kept = None;
    // Forwards, backwards, across the snapshot, and the same one again.
    for sequence in [1, 50, 119, 120, 121, 200, 200, 150, 3, 160, 199] {
        let state = rebuild(&toy, sequence, kept, &LIMITS).unwrap();
        let index = usize::try_from(sequence).unwrap() - 1;
        assert_eq!(state.sequence(), sequence);
        assert_eq!(state.machine().digest(), digests[index], "{sequence}");
        kept = Some(state);
    }
    assert_eq!(toy.digest(), digests[199], "the engine's state is its own");
    let ahead = rebuild(&toy, 201, None, &LIMITS);
    let held = range(&toy);
    assert!(matches!(ahead, Err(PastError::Ahead { asked: 201, held: said }) if said == held));
}

#[test]
fn states_before_the_oldest_snapshot_are_gone() {
    let toy = Toy::new(Options {
        snapshots_kept: 1,
        retain_entries: 10,
        ..Options::default()
    });
    let mut digests = Vec::new();
    add_until(&toy, &mut digests, 100);
    block_on(toy.engine.snapshot()).unwrap();
    add_until(&toy, &mut digests, 110);
    let held = PastRange {
        oldest: 100,
        newest: 110,
    };
    assert_eq!(range(&toy), held);
    for asked in [0, 1, 95, 99] {
        let gone = rebuild(&toy, asked, None, &LIMITS);
        assert!(
            matches!(gone, Err(PastError::Trimmed { asked: said, held: range }) if said == asked && range == held),
            "{asked}: {gone:?}"
        );
    }
    let state = rebuild(&toy, 100, None, &LIMITS).unwrap();
    assert_eq!(state.machine().digest(), digests[99]);
}

#[test]
fn a_rebuild_keeps_to_its_limits() {
    let toy = Toy::new(Options::default());
    let mut digests = Vec::new();
    add_until(&toy, &mut digests, 100);
    let few = PastLimits {
        entries_max: 30,
        ..LIMITS
    };
    let refused = rebuild(&toy, 100, None, &few);
    assert!(
        matches!(
            refused,
            Err(PastError::TooMany {
                entries: 100,
                entries_max: 30
            })
        ),
        "{refused:?}"
    );
    // Only the entries after the kept state count.
    let kept = rebuild(&toy, 30, None, &few).unwrap();
    let kept = rebuild(&toy, 60, Some(kept), &few).unwrap();
    assert_eq!(kept.machine().digest(), digests[59]);
    let no_time = PastLimits {
        time_max: Duration::ZERO,
        ..LIMITS
    };
    let late = rebuild(&toy, 100, None, &no_time);
    assert!(
        matches!(late, Err(PastError::TimeUp(Duration::ZERO))),
        "{late:?}"
    );
    toy.engine.shutdown();
    let stopped = rebuild(&toy, 100, None, &LIMITS);
    assert!(matches!(stopped, Err(PastError::Stopped)), "{stopped:?}");
}

#[test]
fn times_are_those_of_the_journal() {
    let toy = Toy::new(Options::default());
    add_until(&toy, &mut Vec::new(), 5);
    let mut past = block_on(toy.engine.open_past()).unwrap();
    let times: Vec<Option<i64>> = (1..=6)
        .map(|sequence| past.appended_at(sequence).unwrap())
        .collect();
    let mut journal = toy.journal.try_clone().unwrap();
    for (sequence, at) in (1..=6).zip(&times) {
        assert_eq!(journal.appended_at(sequence).unwrap(), *at);
        assert_eq!(at.is_some(), sequence < 6);
    }
}
