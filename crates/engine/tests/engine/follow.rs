//! Followers, which read the durable entries in order.

use crate::toy::counters::Change;
use crate::toy::{Command, Counters, Toy, block_on, poll};
use placewright_engine::{FollowError, Follower, Machine, Options};
use placewright_journal::{Fault, Operation};

/// Reads the entries after `after` up to `last`, and asserts that none is missing. Returns their changes.
fn read_changes(follower: &mut Follower<Counters>, after: u64, last: u64) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut expected = after + 1;
    while expected <= last {
        let entries = block_on(follower.next_entries()).unwrap().unwrap();
        for (sequence, record) in entries.iter() {
            assert_eq!(sequence, expected);
            expected += 1;
            changes.extend(Counters::decode(record).unwrap());
        }
        assert_eq!(entries.last_sequence() + 1, expected);
    }
    changes
}

#[test]
fn entries_are_returned_in_order_from_any_position() {
    for recent_bytes in [16 << 20, 1_000, 0] {
        let options = Options {
            recent_bytes,
            ..Options::default()
        };
        let mut toy = Toy::new(options.clone());
        let mut live = toy.engine.follow(0).unwrap();
        for n in 1..=100 {
            toy.add(0, 1).unwrap().unwrap();
            if n % 7 == 0 {
                read_changes(&mut live, n - 7, n);
            }
        }
        let expected: Vec<Change> = (1..=100)
            .map(|value| Change { counter: 0, value })
            .collect();
        for restarted in [false, true] {
            if restarted {
                toy.restart(options.clone());
            }
            for after in [0, 1, 50, 99] {
                let changes = read_changes(&mut toy.engine.follow(after).unwrap(), after, 100);
                assert_eq!(changes, expected[after as usize..]);
            }
        }
    }
}

#[test]
fn followers_get_durable_entries_only() {
    let toy = Toy::new(Options::default());
    let mut follower = toy.engine.follow(0).unwrap();
    toy.faults.hold();
    // The next append fails: 0 more succeed, then 1 fails.
    toy.faults.fail(Operation::Append, 0, 1, Fault::Io);
    let undone = toy.engine.submit(Command::Add {
        counter: 0,
        amount: 1,
    });
    toy.faults.wait_until_held();
    {
        let mut next = Box::pin(follower.next_entries());
        assert!(poll(&mut next).is_pending());
        toy.faults.release();
        block_on(undone).unwrap_err();
        assert!(poll(&mut next).is_pending());
        // Dropping the future loses nothing.
    }
    toy.add(5, 9).unwrap().unwrap();
    assert_eq!(
        read_changes(&mut follower, 0, 1),
        [Change {
            counter: 5,
            value: 9
        }]
    );
}

#[test]
fn a_follower_ends_with_the_engine() {
    let toy = Toy::new(Options::default());
    toy.add(0, 1).unwrap().unwrap();
    let mut follower = toy.engine.follow(0).unwrap();
    let mut idle = toy.engine.follow(1).unwrap();
    let waiting = std::thread::spawn(move || block_on(idle.next_entries()).is_none());
    toy.engine.shutdown();
    assert!(waiting.join().unwrap());
    assert_eq!(read_changes(&mut follower, 0, 1).len(), 1);
    assert!(block_on(follower.next_entries()).is_none());
}

#[test]
fn following_entries_that_do_not_exist_or_were_trimmed_is_an_error() {
    let options = Options {
        retain_entries: 10,
        snapshots_kept: 1,
        recent_bytes: 0,
        ..Options::default()
    };
    let toy = Toy::new(options);
    let mut slow = toy.engine.follow(0).unwrap();
    for _ in 0..30 {
        toy.add(0, 1).unwrap().unwrap();
    }
    let too_far = toy.engine.follow(31).err().unwrap();
    assert!(matches!(too_far, FollowError::Ahead { after: 31, end: 30 }));
    block_on(toy.engine.snapshot()).unwrap();
    assert_eq!(toy.engine.first_held(), 21);
    let trimmed = toy.engine.follow(19).err().unwrap();
    assert!(matches!(
        trimmed,
        FollowError::Trimmed {
            asked: 20,
            first_held: 21
        }
    ));
    let trimmed = block_on(slow.next_entries()).unwrap().err().unwrap();
    assert!(matches!(
        trimmed,
        FollowError::Trimmed {
            asked: 1,
            first_held: 21
        }
    ));

    toy.faults.fail(Operation::Read, 0, 1, Fault::Io);
    let mut follower = toy.engine.follow(20).unwrap();
    let failed = block_on(follower.next_entries()).unwrap().err().unwrap();
    assert!(matches!(failed, FollowError::Store(_)));
    read_changes(&mut follower, 20, 30);
    // Another follower gets the entries from the cache, so the planned fault does not occur.
    toy.faults.fail(Operation::Read, 0, 1, Fault::Io);
    read_changes(&mut toy.engine.follow(25).unwrap(), 25, 30);
}

#[test]
fn a_follower_that_goes_back_gets_the_same_entries_again() {
    for recent_bytes in [16 << 20, 0] {
        let toy = Toy::new(Options {
            recent_bytes,
            ..Options::default()
        });
        for _ in 0..20 {
            toy.add(0, 1).unwrap().unwrap();
        }
        let mut follower = toy.engine.follow(0).unwrap();
        read_changes(&mut follower, 0, 20);
        follower.go_back_to(7);
        read_changes(&mut follower, 6, 20);
        // A follower cannot skip entries that it has not returned.
        follower.go_back_to(40);
        toy.add(0, 1).unwrap().unwrap();
        read_changes(&mut follower, 20, 21);
    }
}
