//! Callers never see changes that are not durable, and a failed append has no effect.

use crate::toy;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;

use placewright_engine::{Engine, Machine, Options, Reading, StoreError, SubmitError};
use placewright_journal::{
    Fault, Journal, JournalError, MemoryJournal, Operation, SqliteJournal, SqliteOptions,
};
use toy::counters::Refusal;
use toy::{Command, Counters, Event, SubmitBlocking, Toy, block_on, eventually, poll};

const GET: Command = Command::Get { counter: 0 };

fn is_unavailable(answer: &toy::counters::Answer) -> bool {
    matches!(answer, Err(SubmitError::Unavailable(_)))
}

#[test]
fn acknowledged_changes_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    for round in 1..=3 {
        let journal = SqliteJournal::open(directory.path(), SqliteOptions::default()).unwrap();
        let engine: Engine<Counters> = Engine::open(journal, Options::default(), ()).unwrap();
        let add = Command::Add {
            counter: 3,
            amount: 5,
        };
        assert_eq!(engine.submit_blocking(add).unwrap(), Ok(5 * round));
        assert_eq!(block_on(engine.read(|c| c.values()[3])), 5 * round);
        // In the other rounds the last handle is dropped, which closes the store, too.
        if round == 2 {
            engine.shutdown();
        }
    }
}

#[test]
fn only_changes_are_journaled() {
    let mut toy = Toy::new(Options::default());
    assert_eq!(toy.add(0, 900).unwrap(), Ok(900));
    let digest = toy.digest();
    assert_eq!(
        toy.add(0, 101).unwrap(),
        Err(Refusal::TooMuch { value: 900 })
    );
    toy.add(1, 990).unwrap().unwrap();
    // Refused after its first change was decided.
    let refused = Command::Move {
        from: 0,
        to: 1,
        amount: 11,
    };
    let answer = toy.engine.submit_blocking(refused).unwrap();
    assert_eq!(answer, Err(Refusal::TooMuch { value: 990 }));
    toy.engine.submit_blocking(GET).unwrap().unwrap();
    assert_eq!(toy.engine.durable_sequence(), 2);
    assert_eq!(toy.journal.end().unwrap(), 2);
    assert_ne!(toy.digest(), digest);
    assert_eq!(toy.digest(), toy.recovered_digest());
}

#[test]
fn a_panic_fails_only_its_command() {
    let mut toy = Toy::new(Options::default());
    toy.faults.hold();
    let before = toy.engine.submit(Command::Add {
        counter: 0,
        amount: 1,
    });
    toy.faults.wait_until_held();
    let bug = toy.engine.submit(Command::Panic);
    let after = toy.engine.submit(Command::Add {
        counter: 0,
        amount: 1,
    });
    toy.faults.release();
    assert_eq!(block_on(before).unwrap(), Ok(1));
    assert!(matches!(block_on(bug), Err(SubmitError::Panicked)));
    assert_eq!(block_on(after).unwrap(), Ok(2));
    assert_eq!(toy.digest(), toy.recovered_digest());
}

#[test]
fn reads_wait_until_everything_they_read_is_durable() {
    let toy = Toy::new(Options::default());
    toy.faults.hold();
    let mut write = Box::pin(toy.engine.submit(Command::Add {
        counter: 0,
        amount: 7,
    }));
    toy.faults.wait_until_held();
    assert_eq!(toy.engine.read_now(|c| c.values()[0]), 7);
    assert_eq!(toy.engine.durable_sequence(), 0);
    let mut read = Box::pin(toy.engine.read(|c| c.values()[0]));
    assert!(poll(&mut read).is_pending());
    assert!(poll(&mut write).is_pending());
    toy.faults.release();
    assert_eq!(block_on(read), 7);
    assert_eq!(toy.engine.durable_sequence(), 1);
    assert_eq!(block_on(write).unwrap(), Ok(7));
}

#[test]
fn a_read_of_undone_changes_is_repeated() {
    let toy = Toy::new(Options::default());
    toy.add(0, 5).unwrap().unwrap();
    let digest = toy.digest();
    toy.faults.hold();
    // The next append fails: 0 more succeed, then 1 fails.
    toy.faults.fail(Operation::Append, 0, 1, Fault::NoSpace);
    let write = toy.engine.submit(Command::Add {
        counter: 0,
        amount: 7,
    });
    toy.faults.wait_until_held();
    let computed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&computed);
    let mut read = Box::pin(toy.engine.read(move |c| {
        count.fetch_add(1, Ordering::Relaxed);
        c.values()[0]
    }));
    assert!(poll(&mut read).is_pending());
    toy.faults.release();
    assert_eq!(block_on(read), 5);
    assert_eq!(computed.load(Ordering::Relaxed), 2);
    assert!(is_unavailable(&block_on(write)));
    assert_eq!(toy.digest(), digest);
}

#[test]
fn a_reading_completes_when_everything_it_read_is_durable() {
    for is_durable in [true, false] {
        let toy = Toy::new(Options::default());
        toy.add(0, 5).unwrap().unwrap();
        toy.faults.hold();
        if !is_durable {
            toy.faults.fail(Operation::Append, 0, 1, Fault::NoSpace);
        }
        let mut reading = Reading::default();
        let mut value = || toy.engine.read_part(&mut reading, |c| c.values()[0]);
        assert_eq!(value(), 5);
        let write = toy.engine.submit(Command::Add {
            counter: 0,
            amount: 7,
        });
        toy.faults.wait_until_held();
        // Reading a part does not wait, even if it reads changes that are not durable yet.
        assert_eq!(value(), 12);
        let mut end = Box::pin(toy.engine.wait_durable(reading));
        assert!(poll(&mut end).is_pending());
        toy.faults.release();
        assert_eq!(block_on(end), is_durable);
        assert_eq!(block_on(write).is_ok(), is_durable);
    }
    let toy = Toy::new(Options::default());
    let mut reading = Reading::default();
    toy.engine.read_part(&mut reading, |_| ());
    assert!(
        block_on(toy.engine.wait_durable(reading)),
        "nothing to wait for"
    );
}

#[test]
fn a_failed_append_undoes_its_changes_and_all_later_ones() {
    for fault in [Fault::NoSpace, Fault::ReadOnly, Fault::Io] {
        let options = Options {
            ahead_commands_min: 1,
            // This limit is so small that an append would be full if undone commands still counted.
            batch_commands_max: 2,
            ..Options::default()
        };
        let mut toy = Toy::new(options);
        toy.add(0, 5).unwrap().unwrap();
        let digest = toy.digest();
        toy.faults.hold();
        toy.faults.fail(Operation::Append, 0, 1, fault);
        let first = toy.engine.submit(Command::Add {
            counter: 0,
            amount: 1,
        });
        toy.faults.wait_until_held();
        // During the append, commands are decided that depend on its changes.
        let second = toy.engine.submit(Command::Move {
            from: 0,
            to: 1,
            amount: 6,
        });
        eventually(|| toy.engine.read_now(|c| c.values()[1]) == 6);
        let third = toy.engine.submit(Command::Move {
            from: 0,
            to: 1,
            amount: 1,
        });
        eventually(|| toy.engine.queued() == 0);
        toy.faults.release();
        let answers = [block_on(first), block_on(second), block_on(third)];
        let unavailable = answers.iter().filter(|a| is_unavailable(a)).count();
        // The third command may be decided after the failure.
        assert!(unavailable == 3 || (unavailable == 2 && answers[2].is_ok()));
        assert_eq!(toy.digest() == digest, unavailable == 3);

        // The engine remains usable, and the journal has none of the undone changes.
        assert_eq!(toy.add(2, 1).unwrap(), Ok(1));
        assert_eq!(toy.digest(), toy.recovered_digest());
    }
}

#[test]
fn a_refusal_waits_for_the_changes_that_it_depends_on() {
    let options = Options {
        ahead_commands_min: 1,
        ..Options::default()
    };
    for fails in [false, true] {
        let toy = Toy::new(options.clone());
        toy.faults.hold();
        if fails {
            toy.faults.fail(Operation::Append, 0, 1, Fault::Io);
        }
        let filling = toy.engine.submit(Command::Add {
            counter: 0,
            amount: 1_000,
        });
        toy.faults.wait_until_held();
        let mut refused = Box::pin(toy.engine.submit(Command::Add {
            counter: 0,
            amount: 1,
        }));
        eventually(|| toy.engine.queued() == 0);
        assert!(poll(&mut refused).is_pending());
        toy.faults.release();
        assert_eq!(is_unavailable(&block_on(filling)), fails);
        match block_on(refused) {
            Ok(Err(Refusal::TooMuch { value })) => assert!(!fails && value == 1_000),
            // The command was decided after the failure, when the amount fits.
            Ok(Ok(value)) => assert!(fails && value == 1),
            Err(SubmitError::Unavailable(_)) => assert!(fails),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn while_the_store_fails_reads_succeed_and_writes_return_the_reason() {
    let mut toy = Toy::new(Options::default());
    toy.add(0, 5).unwrap().unwrap();
    // From now on every append fails.
    toy.faults
        .fail(Operation::Append, 0, u64::MAX, Fault::NoSpace);
    for _ in 0..20 {
        let Err(SubmitError::Unavailable(reason)) = toy.add(0, 1) else {
            panic!("the append must fail")
        };
        assert!(matches!(
            *reason,
            StoreError::Journal(JournalError::NoSpace { .. })
        ));
        assert_eq!(block_on(toy.engine.read(|c| c.values()[0])), 5);
        // Commands that need no append succeed.
        assert_eq!(toy.engine.submit_blocking(GET).unwrap(), Ok(5));
        assert_eq!(toy.add(0, 996).unwrap(), Err(Refusal::TooMuch { value: 5 }));
    }
    toy.faults.cancel_all();
    assert_eq!(toy.add(0, 1).unwrap(), Ok(6));
    assert_eq!(toy.digest(), toy.recovered_digest());
    let events = toy.events.take();
    let failed = events
        .iter()
        .filter(|e| matches!(e, Event::AppendFailed(1)))
        .count();
    assert_eq!(failed, 20);
}

#[test]
fn waiting_commands_share_one_append() {
    let toy = Toy::new(Options::default());
    toy.faults.hold();
    let first = toy.engine.submit(Command::Add {
        counter: 0,
        amount: 1,
    });
    toy.faults.wait_until_held();
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            toy.engine.submit(Command::Add {
                counter: 0,
                amount: 1,
            })
        })
        .collect();
    assert_eq!(toy.engine.queued(), 50);
    toy.faults.release();
    block_on(first).unwrap().unwrap();
    for (index, answer) in waiting.into_iter().enumerate() {
        assert_eq!(block_on(answer).unwrap(), Ok(index as u64 + 2));
    }
    assert_eq!(toy.faults.appends(), 2);
    toy.engine.shutdown();
    let last = toy.events.take().pop();
    let expected = Event::Committed {
        sequence: 51,
        commands: 50,
        entries: 50,
    };
    assert_eq!(last, Some(expected));
}

#[test]
fn small_limits_do_not_change_the_results() {
    let options = Options {
        decide_commands_max: 3,
        batch_commands_max: 5,
        batch_bytes_max: 1,
        ahead_commands_min: 2,
        recent_bytes: 0,
        ..Options::default()
    };
    let mut toy = Toy::new(options);
    let answers: Vec<_> = (0..500)
        .map(|_| {
            toy.engine.submit(Command::Add {
                counter: 0,
                amount: 1,
            })
        })
        .collect();
    for (index, answer) in answers.into_iter().enumerate() {
        assert_eq!(block_on(answer).unwrap(), Ok(index as u64 + 1));
    }
    assert_eq!(toy.digest(), toy.recovered_digest());
}

#[test]
fn a_full_queue_refuses_commands_until_it_has_capacity_again() {
    let toy = Toy::new(Options {
        queue_commands_max: 2,
        ..Options::default()
    });
    toy.faults.hold();
    let first = toy.engine.submit(Command::Add {
        counter: 0,
        amount: 1,
    });
    toy.faults.wait_until_held();
    let waiting = [toy.engine.submit(GET), toy.engine.submit(GET)];
    assert!(matches!(
        block_on(toy.engine.submit(GET)),
        Err(SubmitError::Overloaded)
    ));
    toy.faults.release();
    assert_eq!(block_on(first).unwrap(), Ok(1));
    for answer in waiting {
        assert_eq!(block_on(answer).unwrap(), Ok(1));
    }
    assert_eq!(toy.engine.submit_blocking(GET).unwrap(), Ok(1));
}

#[test]
fn a_shutdown_completes_all_submitted_commands() {
    let mut toy = Toy::new(Options::default());
    toy.faults.hold();
    let answers: Vec<_> = (0..200)
        .map(|_| {
            toy.engine.submit(Command::Add {
                counter: 0,
                amount: 1,
            })
        })
        .collect();
    toy.faults.wait_until_held();
    let engine = toy.engine.clone();
    let stopping = thread::spawn(move || engine.shutdown());
    eventually(|| {
        let mut late = Box::pin(toy.engine.submit(GET));
        matches!(poll(&mut late), Poll::Ready(Err(SubmitError::ShuttingDown)))
    });
    toy.faults.release();
    stopping.join().unwrap();
    for (index, answer) in answers.into_iter().enumerate() {
        assert_eq!(block_on(answer).unwrap(), Ok(index as u64 + 1));
    }
    assert_eq!(
        block_on(toy.engine.read(Counters::total)),
        toy.engine.read_now(Counters::total)
    );
    assert_eq!(toy.digest(), toy.recovered_digest());
    toy.engine.shutdown();
    assert!(matches!(toy.add(0, 1), Err(SubmitError::ShuttingDown)));
}

#[test]
fn all_callers_get_correct_answers_despite_failures() {
    let store = MemoryJournal::new();
    let mut toy = Toy::on(
        &store,
        Options {
            ahead_commands_min: 4,
            ..Options::default()
        },
    );
    // 3 to 6 appends succeed, then 1 to 3 fail, and so on.
    for n in 0..40 {
        toy.faults
            .fail(Operation::Append, 3 + n % 4, 1 + n % 3, Fault::Io);
    }
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let engine = toy.engine.clone();
            thread::spawn(move || {
                let mut sum = 0;
                for _ in 0..300 {
                    let add = Command::Add {
                        counter: caller,
                        amount: 1,
                    };
                    match engine.submit_blocking(add) {
                        Ok(Ok(value)) => {
                            sum += 1;
                            assert_eq!(value, sum, "each accepted command counts once");
                            let read = block_on(engine.read(|c| c.values()[caller]));
                            assert_eq!(read, sum, "a caller reads what it wrote");
                        }
                        Err(SubmitError::Unavailable(_)) => {}
                        other => panic!("{other:?}"),
                    }
                }
                sum
            })
        })
        .collect();
    let accepted: Vec<u64> = callers.into_iter().map(|c| c.join().unwrap()).collect();
    assert_eq!(toy.engine.read_now(|c| c.values()[..8].to_vec()), accepted);
    assert_eq!(toy.digest(), toy.recovered_digest());
    let mut journal: Box<dyn Journal> = store.try_clone().unwrap();
    assert_eq!(journal.end().unwrap(), accepted.iter().sum::<u64>());
    assert_eq!(toy.engine.read_now(Machine::digest), toy.recovered_digest());
}
