//! A replica that has skipped the entry in which its successor began to lead.

use placewright_engine::Options;
use placewright_journal::{Fault, MemoryJournal, Operation};

use crate::network::{Member, Network, wait_for_leader};
use crate::toy::{Command, block_on, eventually};

/// Three members whose snapshots trim all entries that they cover.
fn three_that_trim(journal: &MemoryJournal, network: &Network) -> Vec<Member> {
    let options = Options {
        snapshots_kept: 1,
        retain_entries: 0,
        ..Options::default()
    };
    (1..=3)
        .map(|origin| Member::start_with(journal, network, origin, options.clone()))
        .collect()
}

/// Lets another member lead while `former` is cut off from the others and from the store, and trims the entry with
/// which that member began to lead. The counter 0 is 10 then.
fn replace(former: &Member, members: &[Member], network: &Network) {
    network.isolate(former.origin);
    for operation in [Operation::Read, Operation::DurableEnd] {
        former.faults.fail(operation, 0, u64::MAX, Fault::Io);
    }
    let other = members.iter().find(|m| m.origin != former.origin).unwrap();
    for value in 1..10 {
        assert_eq!(other.add(0, 1).unwrap(), Ok(value));
    }
    let present = other.leadership().origin;
    let present = members.iter().find(|m| m.origin == present).unwrap();
    block_on(present.engine.snapshot()).unwrap();
    assert_eq!(present.add(0, 1).unwrap(), Ok(10));
    former.faults.cancel_all();
    network.heal();
}

fn check_one_leads(members: &[Member]) {
    wait_for_leader(members);
    assert_eq!(members.iter().filter(|m| m.leadership().is_own).count(), 1);
    for member in members {
        member.add(1, 1).unwrap().unwrap();
    }
    assert!(members.iter().all(|member| member.values()[..2] == [10, 3]));
}

#[test]
fn a_leader_that_was_replaced_and_missed_the_entry_of_its_successor_does_not_lead() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let members = three_that_trim(&journal, &network);
    let former = wait_for_leader(&members);
    let former = members.iter().find(|m| m.origin == former).unwrap();
    replace(former, &members, &network);
    check_one_leads(&members);
}

#[test]
fn a_leader_whose_append_is_in_doubt_when_its_successor_trims_goes_on() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let members = three_that_trim(&journal, &network);
    let former = wait_for_leader(&members);
    let former = members.iter().find(|m| m.origin == former).unwrap();
    (former.faults).fail(Operation::Append, 0, 1, Fault::LostRequest);
    (former.faults).fail(Operation::Resolve, 0, u64::MAX, Fault::Io);
    let add = Command::Add {
        counter: 2,
        amount: 1,
    };
    let in_doubt = former.engine.submit(add);
    eventually(|| former.engine.time_since_failed_append().is_some());
    replace(former, &members, &network);
    // The journal still says that the append was not made, so its command is decided on the new state.
    assert_eq!(block_on(in_doubt).unwrap(), Ok(1));
    check_one_leads(&members);
}
