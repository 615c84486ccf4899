//! A replica that has skipped the entry in which its successor began to lead.

use placewright_engine::Options;
use placewright_journal::{Fault, MemoryJournal, Operation};

use crate::network::{Member, Network, wait_for_leader};
use crate::toy::block_on;

#[test]
fn a_leader_that_was_replaced_and_missed_the_entry_of_its_successor_does_not_lead() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    // Snapshots trim all entries that they cover.
    let options = Options {
        snapshots_kept: 1,
        retain_entries: 0,
        ..Options::default()
    };
    let members: Vec<Member> = (1..=3)
        .map(|origin| Member::start_with(&journal, &network, origin, options.clone()))
        .collect();
    let former = wait_for_leader(&members);
    let former = members.iter().find(|m| m.origin == former).unwrap();
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
    wait_for_leader(&members);
    assert_eq!(members.iter().filter(|m| m.leadership().is_own).count(), 1);
    for member in &members {
        member.add(1, 1).unwrap().unwrap();
    }
    assert!(members.iter().all(|member| member.values()[..2] == [10, 3]));
}
