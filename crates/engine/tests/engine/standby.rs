//! Replicas that hand no commands over: one of them decides, and the others stand by and refuse commands.

use crate::toy;

use std::time::Duration;

use placewright_engine::{Engine, LeaderLink, Leadership, Options, ReplicaOptions, SubmitError};
use placewright_journal::{Journal as _, MemoryJournal};
use toy::counters::{Command, Counters};
use toy::{SubmitBlocking, eventually};

/// A link for replicas that hand no commands over, so nothing is ever sent on it.
struct NoHandover;

impl LeaderLink<Counters> for NoHandover {
    fn send(&self, _: &Leadership, _: u64, _: &Command) {
        panic!("no command is handed over");
    }

    fn hands_commands_over(&self) -> bool {
        false
    }
}

fn open(journal: &MemoryJournal, origin: u64) -> Engine<Counters> {
    let replica = ReplicaOptions {
        origin,
        address: format!("replica {origin}"),
        link: Box::new(NoHandover),
        poll_interval: Duration::from_millis(1),
    };
    let journal = journal.try_clone().unwrap();
    Engine::open_replica(journal, Options::default(), (), replica).unwrap()
}

fn leadership(engine: &Engine<Counters>) -> Leadership {
    engine.replica().leadership().unwrap().borrow().clone()
}

fn add(engine: &Engine<Counters>) -> toy::counters::Answer {
    engine.submit_blocking(Command::Add {
        counter: 0,
        amount: 1,
    })
}

#[test]
fn a_standby_refuses_commands_and_takes_them_when_it_leads() {
    let journal = MemoryJournal::new();
    let first = open(&journal, 1);
    eventually(|| leadership(&first).is_own);
    let second = open(&journal, 2);
    assert_eq!(add(&first).unwrap(), Ok(1));
    assert!(matches!(add(&second), Err(SubmitError::NotLeading)));

    second.replica().leader_is_gone(leadership(&second).epoch);
    eventually(|| leadership(&second).is_own);
    assert_eq!(add(&second).unwrap(), Ok(2));
}

#[test]
fn a_former_leader_answers_that_it_does_not_lead_and_its_command_has_no_effect() {
    let journal = MemoryJournal::new();
    let first = open(&journal, 1);
    eventually(|| leadership(&first).is_own);
    let second = open(&journal, 2);
    second.replica().leader_is_gone(leadership(&second).epoch);
    eventually(|| leadership(&second).is_own);

    // The first replica may not know yet that another one leads; then its append conflicts.
    assert!(matches!(add(&first), Err(SubmitError::NotLeading)));
    assert_eq!(add(&second).unwrap(), Ok(1));
    eventually(|| leadership(&first).origin == 2);
    assert_eq!(leadership(&first).address, "replica 2");
}
