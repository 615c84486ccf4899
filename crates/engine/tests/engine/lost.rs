//! What engines do when the journal does not have acknowledged entries any more.

use crate::network::{Member, Network, wait_for_leader};
use crate::toy::{Command, Counters, SubmitBlocking, block_on, eventually};
use placewright_engine::{AppendAgainError, Engine, Loss, Options, StoreError, SubmitError};
use placewright_journal::{Journal, MemoryJournal};

const ADD: Command = Command::Add {
    counter: 0,
    amount: 1,
};

fn is_refused_as_lost<T>(answer: &Result<T, SubmitError>, entries: (u64, u64)) -> bool {
    let Err(SubmitError::Unavailable(reason)) = answer else {
        return false;
    };
    matches!(&**reason, StoreError::Lost { first, last } if (*first, *last) == entries)
}

fn loss_of(engine: &Engine<Counters>) -> Option<Loss> {
    engine.lost_entries().borrow().clone()
}

#[test]
fn an_engine_stops_and_goes_on_when_the_entries_are_appended_again() {
    let journal = MemoryJournal::new();
    let handle = journal.try_clone().unwrap();
    let engine = Engine::<Counters>::open(handle, Options::default(), ()).unwrap();
    for _ in 0..5 {
        engine.submit_blocking(ADD).unwrap().unwrap();
    }
    let nothing = block_on(engine.append_lost_again());
    assert!(matches!(nothing, Err(AppendAgainError::NothingLost)));

    journal.drop_after(3);
    engine.submit_blocking(ADD).unwrap_err();
    eventually(|| loss_of(&engine).is_some());
    let loss = loss_of(&engine).unwrap();
    assert_eq!((loss.first, loss.last), (4, 5));
    assert!(is_refused_as_lost(&engine.submit_blocking(ADD), (4, 5)));
    assert!(is_refused_as_lost(&block_on(engine.confirm()), (4, 5)));

    assert_eq!(block_on(engine.append_lost_again()).unwrap(), (4, 5));
    eventually(|| loss_of(&engine).is_none());
    assert_eq!(engine.submit_blocking(ADD).unwrap(), Ok(6));
}

#[test]
fn what_took_the_place_of_lost_entries_is_not_overwritten() {
    let mut journal = MemoryJournal::new();
    let handle = journal.try_clone().unwrap();
    let engine = Engine::<Counters>::open(handle, Options::default(), ()).unwrap();
    for _ in 0..5 {
        engine.submit_blocking(ADD).unwrap().unwrap();
    }
    journal.drop_after(3);
    journal.append(4, &[b"another entry"]).unwrap();
    engine.submit_blocking(ADD).unwrap_err();
    eventually(|| loss_of(&engine).is_some());
    let loss = loss_of(&engine).unwrap();
    assert_eq!((loss.first, loss.is_replaced), (4, true));
    let refused = block_on(engine.append_lost_again());
    assert!(matches!(
        refused,
        Err(AppendAgainError::Replaced { first: 4, .. })
    ));
    assert_eq!(journal.end().unwrap(), 4, "nothing was appended");
}

#[test]
fn entries_that_are_not_in_memory_are_not_appended() {
    let journal = MemoryJournal::new();
    let open = || {
        let handle = journal.try_clone().unwrap();
        Engine::<Counters>::open(handle, Options::default(), ()).unwrap()
    };
    let engine = open();
    for _ in 0..5 {
        engine.submit_blocking(ADD).unwrap().unwrap();
    }
    engine.shutdown();
    let engine = open();
    journal.drop_after(3);
    engine.submit_blocking(ADD).unwrap_err();
    eventually(|| loss_of(&engine).is_some());
    let refused = block_on(engine.append_lost_again());
    assert!(matches!(
        refused,
        Err(AppendAgainError::NotInMemory { first: 4, last: 5 })
    ));
}

#[test]
fn replicas_stop_and_go_on_when_one_of_them_has_appended_the_entries() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let members: Vec<Member> = (1..=3)
        .map(|origin| Member::start(&journal, &network, origin))
        .collect();
    let leader = wait_for_leader(&members);
    for member in &members {
        member.add(0, 1).unwrap().unwrap();
    }
    // Reading the values makes each member apply every entry.
    let end = members
        .iter()
        .map(|m| {
            m.values();
            m.engine.durable_sequence()
        })
        .max()
        .unwrap();
    journal.drop_after(end - 2);
    for member in &members {
        assert!(
            block_on(member.engine.confirm()).is_err(),
            "a confirmed read of replica {}",
            member.origin
        );
        eventually(|| loss_of(&member.engine).is_some());
        let loss = loss_of(&member.engine).unwrap();
        assert_eq!((loss.first, loss.last), (end - 1, end));
        assert!(is_refused_as_lost(
            &member.engine.submit_blocking(ADD),
            (end - 1, end)
        ));
    }
    let follower = members.iter().find(|m| m.origin != leader).unwrap();
    let appended = block_on(follower.engine.append_lost_again());
    assert_eq!(appended.unwrap(), (end - 1, end));
    for member in &members {
        eventually(|| loss_of(&member.engine).is_none());
    }
    for (added, member) in members.iter().enumerate() {
        assert_eq!(member.add(0, 1).unwrap(), Ok(added as u64 + 4));
    }
}
