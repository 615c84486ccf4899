//! Which replica the entries of a journal name as the origin of their commands.

use crate::network::{Member, Network, wait_for_leader};
use crate::toy::{block_on, eventually};
use placewright_engine::TakeoverReason;
use placewright_journal::MemoryJournal;

fn members(count: u64) -> Vec<Member> {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let members: Vec<Member> = (1..=count)
        .map(|origin| Member::start(&journal, &network, origin))
        .collect();
    wait_for_leader(&members);
    members
}

/// The member that leads, and another one.
fn leader_and_other(members: &[Member]) -> (&Member, &Member) {
    let leader = wait_for_leader(members);
    let find = |leads| members.iter().find(|m| (m.origin == leader) == leads);
    (find(true).unwrap(), find(false).unwrap())
}

#[test]
fn entries_tell_which_replica_took_their_commands() {
    let members = members(2);
    let (leader, other) = leader_and_other(&members);
    // A member knows its leader a moment before the entry that names the leader counts as durable.
    other.values();
    let end = other.engine.durable_sequence();
    other.add(0, 1).unwrap().unwrap();
    let mut follower = other.engine.follow(end).unwrap();
    let entries = block_on(follower.next_entries()).unwrap().unwrap();
    let entry = entries.entries().next().unwrap();
    assert_eq!(entry.sequence, end + 1);
    assert_eq!(entry.command.unwrap().origin, other.engine.origin());
    leader.add(0, 1).unwrap().unwrap();
    leader.values();
    let mut follower = leader.engine.follow(end + 1).unwrap();
    let entries = block_on(follower.next_entries()).unwrap().unwrap();
    assert_eq!(entries.entries().next().unwrap().command, None);
}

#[test]
fn the_entry_of_a_leader_tells_when_and_why_it_began_to_lead() {
    let mut members = members(3);
    let (leader, other) = leader_and_other(&members);
    assert_eq!(leader.leadership().reason, TakeoverReason::NoneKnown);
    let address = format!("replica {}", other.origin);
    leader.engine.replica().hand_over(other.origin, &address);
    eventually(|| other.leadership().is_own);
    for member in &members {
        member.values();
        let leadership = member.leadership();
        assert_eq!(leadership.reason, TakeoverReason::HandedOver);
        assert_eq!(leadership.address, address);
        assert!(leadership.since_ms > 0);
        assert_eq!(member.engine.leads(), leadership.is_own);
    }
    let index = members.iter().position(|m| m.engine.leads()).unwrap();
    members.remove(index).crash();
    // The follower sends its command to the leader, and so finds out that the leader is gone.
    members[0].add(0, 1).unwrap().unwrap();
    members[1].values();
    let leadership = members[1].leadership();
    assert_eq!(leadership.reason, TakeoverReason::Unreachable);
}
