//! Appends of which the store does not say whether it made them.

use crate::toy;

use placewright_engine::{Options, SubmitError};
use placewright_journal::{Fault, Operation};
use toy::{Command, Event, Toy, block_on, eventually};

fn add(amount: u64) -> Command {
    Command::Add { counter: 0, amount }
}

#[test]
fn a_lost_answer_or_request_does_not_change_what_callers_see() {
    for (fault, is_kept) in [(Fault::LostAnswer, true), (Fault::LostRequest, false)] {
        let mut toy = Toy::new(Options::default());
        toy.add(0, 1).unwrap().unwrap();
        // The commit is reported to the observer only after the answer.
        let is_committed = |event: &Event| matches!(event, Event::Committed { .. });
        eventually(|| toy.events.take().iter().any(is_committed));
        // The outcome of the next append is unknown.
        toy.faults.fail(Operation::Append, 0, 1, fault);
        let answer = block_on(toy.engine.submit_with_sequence(add(10)));
        assert!(matches!(answer, (Ok(Ok(11)), Some(2))), "{fault:?}");
        let events = toy.events.take();
        assert_eq!(
            events[..2],
            [Event::AppendUnknown(1), Event::AppendResolved { is_kept }]
        );
        assert_eq!(toy.add(0, 100).unwrap(), Ok(111));
        assert_eq!(toy.digest(), toy.recovered_digest());
    }
}

#[test]
fn reads_go_on_and_writes_are_refused_until_the_outcome_is_known() {
    for fault in [Fault::LostAnswer, Fault::LostRequest] {
        let mut toy = Toy::new(Options::default());
        toy.add(0, 1).unwrap().unwrap();
        toy.faults.fail(Operation::Append, 0, 1, fault);
        // From now on no outcome can be found out.
        toy.faults.fail(Operation::Resolve, 0, u64::MAX, Fault::Io);
        let mut in_doubt = Box::pin(toy.engine.submit(add(10)));
        eventually(|| toy.events.take().contains(&Event::AppendUnknown(1)));
        // The change may or may not be durable. Until that is known, reads do not show it, and the caller of the
        // command gets no answer.
        assert_eq!(block_on(toy.engine.read(|c| c.values()[0])), 1);
        assert!(matches!(toy.add(0, 100), Err(SubmitError::Unavailable(_))));
        assert!(toy::poll(&mut in_doubt).is_pending());
        assert!(toy.engine.time_since_failed_append().is_some());
        toy.faults.cancel_all();
        assert_eq!(block_on(in_doubt).unwrap(), Ok(11), "{fault:?}");
        assert_eq!(toy.add(0, 100).unwrap(), Ok(111));
        assert!(toy.engine.time_since_failed_append().is_none());
        assert_eq!(toy.digest(), toy.recovered_digest());
    }
}

#[test]
fn a_kept_append_is_not_decided_again_if_the_store_is_away_after_it_told_the_outcome() {
    let mut toy = Toy::new(Options::default());
    toy.add(0, 1).unwrap().unwrap();
    toy.faults.fail(Operation::Append, 0, 1, Fault::LostAnswer);
    toy.faults.fail(Operation::Read, 0, 1, Fault::Io);
    assert_eq!(block_on(toy.engine.submit(add(10))).unwrap(), Ok(11));
    assert_eq!(toy.add(0, 100).unwrap(), Ok(111));
    assert_eq!(toy.digest(), toy.recovered_digest());
}

#[test]
fn an_outcome_that_is_unknown_at_the_end_is_reported_as_unknown() {
    for (fault, value) in [(Fault::LostAnswer, 11), (Fault::LostRequest, 1)] {
        let mut toy = Toy::new(Options::default());
        toy.add(0, 1).unwrap().unwrap();
        toy.faults.fail(Operation::Append, 0, 1, fault);
        toy.faults.fail(Operation::Resolve, 0, u64::MAX, Fault::Io);
        let in_doubt = toy.engine.submit(add(10));
        toy.engine.shutdown();
        let error = block_on(in_doubt).unwrap_err();
        assert!(matches!(error, SubmitError::Unknown(_)));
        assert!(error.effect().contains("not known"), "{}", error.effect());
        toy.restart(Options::default());
        assert_eq!(block_on(toy.engine.read(|c| c.values()[0])), value);
    }
}
