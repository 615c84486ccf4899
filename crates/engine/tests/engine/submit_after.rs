//! Commands that callers make from what they read, and submit before the changes that they read are durable.

use crate::toy::counters::Refusal;
use crate::toy::{Command, Toy, block_on, eventually, poll};
use placewright_engine::{Options, Reading, SubmitError};
use placewright_journal::{Fault, Operation};

fn add(counter: usize, amount: u64) -> Command {
    Command::Add { counter, amount }
}

#[test]
fn a_command_waits_for_the_disk_together_with_its_reading() {
    let mut toy = Toy::new(Options::default());
    toy.faults.hold();
    let write = toy.engine.submit(add(0, 7));
    toy.faults.wait_until_held();
    let mut reading = Reading::default();
    let seen = toy.engine.read_part(&mut reading, |c| c.values()[0]);
    assert_eq!(seen, 7);
    let mut made = Box::pin(toy.engine.submit_after(reading, add(1, seen)));
    assert!(poll(&mut made).is_pending());
    // The command is queued although the change that it was made from is not durable.
    assert_eq!(toy.engine.queued(), 1);
    toy.faults.release();
    assert_eq!(block_on(made).0.unwrap(), Ok(7));
    assert_eq!(block_on(write).unwrap(), Ok(7));
    assert_eq!(toy.digest(), toy.recovered_digest());
}

#[test]
fn a_command_made_from_an_undone_change_has_no_effect() {
    let mut toy = Toy::new(Options::default());
    toy.faults.hold();
    // The next append fails: 0 more succeed, then 1 fails.
    toy.faults.fail(Operation::Append, 0, 1, Fault::NoSpace);
    let write = toy.engine.submit(add(0, 7));
    toy.faults.wait_until_held();
    let mut reading = Reading::default();
    let seen = toy.engine.read_part(&mut reading, |c| c.values()[0]);
    let mut queued = Box::pin(toy.engine.submit_after(reading, add(1, seen)));
    assert!(poll(&mut queued).is_pending());
    toy.faults.release();
    assert!(block_on(write).is_err());
    assert!(matches!(
        block_on(queued).0,
        Err(SubmitError::ReadingUndone)
    ));
    // The same holds for a command that is submitted only after the change was undone.
    let late = block_on(toy.engine.submit_after(reading, add(1, seen))).0;
    assert!(matches!(late, Err(SubmitError::ReadingUndone)));
    let values = toy.engine.read_now(|c| [c.values()[0], c.values()[1]]);
    assert_eq!(values, [0, 0]);
    assert_eq!(toy.digest(), toy.recovered_digest());

    let mut reading = Reading::default();
    let seen = toy.engine.read_part(&mut reading, |c| c.values()[0]);
    let again = block_on(toy.engine.submit_after(reading, add(1, seen + 1))).0;
    assert_eq!(again.unwrap(), Ok(1));
}

#[test]
fn a_command_that_was_decided_on_an_undone_change_is_answered_as_all_others() {
    let options = Options {
        ahead_commands_min: 1,
        ..Options::default()
    };
    let toy = Toy::new(options);
    toy.faults.hold();
    toy.faults.fail(Operation::Append, 0, 1, Fault::Io);
    let write = toy.engine.submit(add(0, 1_000));
    toy.faults.wait_until_held();
    let mut reading = Reading::default();
    toy.engine.read_part(&mut reading, |c| c.values()[0]);
    let mut made = Box::pin(toy.engine.submit_after(reading, add(0, 1)));
    assert!(poll(&mut made).is_pending());
    eventually(|| toy.engine.queued() == 0);
    toy.faults.release();
    assert!(block_on(write).is_err());
    // The command was refused because of the change that was undone, so its caller does not get the refusal.
    assert!(matches!(
        block_on(made).0,
        Err(SubmitError::Unavailable(_) | SubmitError::ReadingUndone)
    ));
}

#[test]
fn a_refusal_is_given_when_what_the_reading_saw_is_durable() {
    let toy = Toy::new(Options::default());
    toy.faults.hold();
    let write = toy.engine.submit(add(0, 1_000));
    toy.faults.wait_until_held();
    let mut reading = Reading::default();
    toy.engine.read_part(&mut reading, |c| c.values()[0]);
    let mut made = Box::pin(toy.engine.submit_after(reading, add(0, 1)));
    assert!(poll(&mut made).is_pending());
    toy.faults.release();
    let refused = Err(Refusal::TooMuch { value: 1_000 });
    assert_eq!(block_on(made).0.unwrap(), refused);
    assert_eq!(block_on(write).unwrap(), Ok(1_000));
}
