//! Several engines on one journal, of which one leads.

use crate::toy;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::network::{Member, Network, wait_for_leader};
use parking_lot::RwLock;
use placewright_engine::{AppendedBatch, Options, SubmitError, recover};
use placewright_journal::batch::{self, Link};
use placewright_journal::{Fault, Journal, MemoryJournal, Operation};
use proptest::prelude::*;
use toy::counters::{COUNTERS, LIMIT, Refusal};
use toy::{Command, SubmitBlocking, block_on};

fn three(journal: &MemoryJournal, network: &Network) -> Vec<Member> {
    let members: Vec<Member> = (1..=3)
        .map(|origin| Member::start(journal, network, origin))
        .collect();
    wait_for_leader(&members);
    members
}

fn followers(members: &[Member]) -> impl Iterator<Item = &Member> {
    members.iter().filter(|member| !member.leadership().is_own)
}

#[test]
fn every_replica_takes_commands_and_reads() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let members = three(&journal, &network);
    for round in 0..10 {
        for (index, member) in members.iter().enumerate() {
            let value = round * 3 + index as u64 + 1;
            assert_eq!(member.add(0, 1).unwrap(), Ok(value));
            for reader in &members {
                assert_eq!(reader.values()[0], value, "an acknowledged change is read");
            }
        }
    }
    assert_eq!(followers(&members).count(), 2);
}

#[test]
fn a_follower_answers_with_the_leaders_outcome_refusal_and_entry() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let members = three(&journal, &network);
    let follower = followers(&members).next().unwrap();
    follower.add(0, 900).unwrap().unwrap();
    let too_much = Refusal::TooMuch { value: 900 };
    assert_eq!(follower.add(0, 101).unwrap(), Err(too_much));
    let get = Command::Get { counter: 0 };
    assert_eq!(follower.engine.submit_blocking(get).unwrap(), Ok(900));
    let add = Command::Add {
        counter: 0,
        amount: 1,
    };
    let end = follower.engine.durable_sequence();
    let (answer, sequence) = block_on(follower.engine.submit_with_sequence(add));
    assert_eq!((answer.unwrap(), sequence), (Ok(901), Some(end + 1)));
}

#[test]
fn followers_read_entries_without_their_envelopes() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let members = three(&journal, &network);
    for member in &members {
        member.add(1, 1).unwrap().unwrap();
    }
    for member in &members {
        member.values();
        let mut follower = member.engine.follow(0).unwrap();
        let mut read = 0;
        while read < member.engine.durable_sequence() {
            let entries = block_on(follower.next_entries()).unwrap().unwrap();
            for (_, record) in entries.iter() {
                <toy::Counters as placewright_engine::Machine>::decode(record).unwrap();
            }
            read = entries.last_sequence();
        }
    }
}

#[test]
fn another_replica_leads_when_the_leader_is_gone() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let mut members = three(&journal, &network);
    for _ in 0..2 {
        let leader = wait_for_leader(&members);
        members[0].add(2, 1).unwrap().unwrap();
        let index = members.iter().position(|m| m.origin == leader).unwrap();
        members.remove(index).crash();
        // A follower sends its command to the leader, and so finds out that the leader is gone.
        members[0].add(2, 1).unwrap().unwrap();
    }
    assert_eq!(members[0].values()[2], 4);
    let back = Member::start(&journal, &network, 9);
    assert_eq!(back.values()[2], 4);
    assert_eq!(back.add(2, 1).unwrap(), Ok(5));
    assert!(!back.leadership().is_own, "the present leader is followed");
}

#[test]
fn a_follower_that_is_shut_down_refuses_commands() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let members = three(&journal, &network);
    let engine = followers(&members).next().unwrap().engine.clone();
    engine.shutdown();
    let (answered, answer) = mpsc::channel();
    thread::spawn(move || {
        let add = Command::Add {
            counter: 0,
            amount: 1,
        };
        answered.send(engine.submit_blocking(add)).unwrap();
    });
    let answer = answer.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(
        matches!(answer, Err(SubmitError::ShuttingDown)),
        "{answer:?}"
    );
}

#[test]
fn a_leader_hands_over_under_load_and_no_command_fails() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let members = three(&journal, &network);
    let is_over = AtomicBool::new(false);
    let added = AtomicU64::new(0);
    thread::scope(|scope| {
        for (client, member) in members.iter().cycle().take(12).enumerate() {
            let (is_over, added) = (&is_over, &added);
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    // Each client has a counter of its own. If the counter has reached its limit, the addition is
                    // refused and not counted.
                    let answer = member.add(client % COUNTERS, 1).unwrap();
                    added.fetch_add(u64::from(answer.is_ok()), Ordering::SeqCst);
                }
            });
        }
        for _ in 0..10 {
            let leader = wait_for_leader(&members);
            let other = members.iter().find(|m| m.origin != leader).unwrap();
            let former = members.iter().find(|m| m.origin == leader).unwrap();
            let address = format!("replica {}", other.origin);
            former.engine.replica().hand_over(other.origin, &address);
            toy::eventually(|| former.leadership().origin == other.origin);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    for member in &members {
        let sum: u64 = member.values().iter().sum();
        assert_eq!(sum, added.load(Ordering::SeqCst));
    }
}

#[test]
fn a_replica_that_does_not_lead_hands_over_nothing() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let members = three(&journal, &network);
    let leader = wait_for_leader(&members);
    let follower = followers(&members).next().unwrap();
    let other = followers(&members).last().unwrap();
    follower.engine.replica().hand_over(other.origin, "other");
    assert_eq!(follower.add(0, 1).unwrap(), Ok(1));
    assert_eq!(wait_for_leader(&members), leader);
}

#[test]
fn a_leader_that_is_cut_off_from_the_others_is_replaced_and_harms_nothing() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let members = three(&journal, &network);
    let leader = wait_for_leader(&members);
    network.isolate(leader);
    let former = members.iter().find(|m| m.origin == leader).unwrap();
    let other = members.iter().find(|m| m.origin != leader).unwrap();
    assert_eq!(other.add(3, 1).unwrap(), Ok(1));
    assert_eq!(former.values()[3], 1, "a confirmed read is not stale");
    network.heal();
    assert_eq!(former.add(3, 1).unwrap(), Ok(2));
    assert_eq!(other.add(3, 1).unwrap(), Ok(3));
}

/// A command that only gets a value makes no entry, so no append tells the former leader that it was replaced.
#[test]
fn a_leader_that_was_replaced_gets_no_value_from_its_old_state() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let members = three(&journal, &network);
    let leader = wait_for_leader(&members);
    let former = members.iter().find(|m| m.origin == leader).unwrap();
    let other = members.iter().find(|m| m.origin != leader).unwrap();
    for round in 0..20 {
        network.isolate(leader);
        let get = Command::Get { counter: 3 };
        let value = 2 * round + 1;
        assert_eq!(other.add(3, 1).unwrap(), Ok(value));
        assert_eq!(former.engine.submit_blocking(get).unwrap(), Ok(value));
        network.heal();
        assert_eq!(former.add(3, 1).unwrap(), Ok(value + 1));
        let address = format!("replica {leader}");
        toy::eventually(|| {
            // A member that does not lead yet ignores the request, so the request is repeated.
            for member in members.iter().filter(|m| m.origin != leader) {
                member.engine.replica().hand_over(leader, &address);
            }
            members.iter().all(|m| m.leadership().origin == leader)
        });
    }
}

#[test]
fn commands_are_refused_while_the_journal_is_away_and_taken_afterwards() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let member = Member::start(&journal, &network, 1);
    member.add(0, 1).unwrap().unwrap();
    // From now on every append and every read fails.
    for operation in [Operation::Append, Operation::Read] {
        member.faults.fail(operation, 0, u64::MAX, Fault::Io);
    }
    assert!(matches!(member.add(0, 1), Err(SubmitError::Unavailable(_))));
    member.faults.cancel_all();
    assert_eq!(member.add(0, 1).unwrap(), Ok(2));
}

#[test]
fn a_follower_that_cannot_read_the_store_applies_what_the_leader_sends() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let members = three(&journal, &network);
    members[0].add(0, 1).unwrap().unwrap();
    let leader = members.iter().find(|m| m.leadership().is_own).unwrap();
    let reaches = |member: &Member| {
        let end = leader.engine.durable_sequence();
        toy::eventually(|| member.engine.durable_sequence() == end);
        member.engine.read_now(|counters| counters.values()[0])
    };
    for member in followers(&members) {
        assert_eq!(reaches(member), 1);
        // From now on the follower cannot read the store.
        (member.faults).fail(Operation::Read, 0, u64::MAX, Fault::Io);
    }
    for value in 2..10 {
        assert_eq!(leader.add(0, 1).unwrap(), Ok(value));
    }
    for member in followers(&members) {
        assert_eq!(reaches(member), 9);
        // A follower that the store does not answer says so, although it follows.
        toy::eventually(|| member.engine.time_since_failed_append().is_some());
        leader.add(1, 1).unwrap().unwrap();
        let end = leader.engine.durable_sequence();
        toy::eventually(|| member.engine.durable_sequence() == end);
        assert!(member.engine.time_since_failed_append().is_some());
        member.faults.cancel_all();
        toy::eventually(|| member.engine.time_since_failed_append().is_none());
    }
}

#[test]
fn what_does_not_continue_the_journal_or_is_of_another_epoch_is_not_applied() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let members = three(&journal, &network);
    let leader = members.iter().find(|m| m.leadership().is_own).unwrap();
    let follower = followers(&members).next().unwrap();
    let epoch = leader.leadership().epoch;
    let mut appended = leader.engine.replica().appended().unwrap();
    leader.add(0, 1).unwrap().unwrap();
    let batch = block_on(appended.recv()).unwrap();
    let before = batch.link;
    toy::eventually(|| follower.engine.durable_sequence() == before.last);
    // The store cannot be read, so the follower applies nothing but what it takes from here.
    (follower.faults).fail(Operation::Read, 0, u64::MAX, Fault::Io);
    let forged = |previous: u32, payload: &[u8]| {
        let next = before.last + 1;
        AppendedBatch {
            link: Link {
                first: next,
                last: next,
                previous,
                checksum: batch::checksum(previous, next, next, payload),
            },
            payload: payload.to_vec(),
        }
    };
    let replica = follower.engine.replica();
    replica.take_appended(epoch - 1, forged(before.checksum, &batch.payload));
    replica.take_appended(epoch + 1, forged(before.checksum, &batch.payload));
    replica.take_appended(epoch, forged(before.checksum ^ 1, &batch.payload));
    replica.take_appended(epoch, forged(before.checksum, b"no records"));
    thread::sleep(Duration::from_millis(300));
    assert_eq!(follower.engine.durable_sequence(), before.last);
    // This batch is as the present leader would send it.
    replica.take_appended(epoch, forged(before.checksum, &batch.payload));
    toy::eventually(|| follower.engine.durable_sequence() == before.last + 1);
    // The journal does not have this batch, so the follower is ahead of the store. A confirmed read reports that.
    follower.faults.cancel_all();
    assert!(matches!(
        block_on(follower.engine.confirm()),
        Err(SubmitError::Unavailable(_))
    ));
}

/// An event while clients of all replicas add to counters.
#[derive(Debug, Clone)]
enum Event {
    Crash,
    Isolate,
    Heal,
    LoseReplies(u64),
    Fail(Fault),
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let fault = prop_oneof![
        Just(Fault::Io),
        Just(Fault::LostAnswer),
        Just(Fault::LostRequest)
    ];
    prop_oneof![
        2 => Just(Event::Crash),
        2 => Just(Event::Isolate),
        2 => Just(Event::Heal),
        1 => (0..4_u64).prop_map(Event::LoseReplies),
        3 => fault.prop_map(Event::Fail),
        3 => Just(Event::Restart),
    ]
}

/// The additions to one counter, each of 1, counted by their outcome.
#[derive(Default)]
struct Counted {
    accepted: AtomicU64,
    /// The additions with an unknown outcome.
    unknown: AtomicU64,
}

/// Replicas that start and crash, and what their clients were told.
struct World {
    journal: MemoryJournal,
    network: Network,
    members: RwLock<Vec<Member>>,
    counted: Vec<Counted>,
    is_over: AtomicBool,
}

impl World {
    fn new() -> Self {
        let (journal, network) = (MemoryJournal::new(), Network::default());
        Self {
            members: RwLock::new(three(&journal, &network)),
            journal,
            network,
            counted: (0..COUNTERS).map(|_| Counted::default()).collect(),
            is_over: AtomicBool::new(false),
        }
    }

    /// A client that adds 1 to the counters in turn, and sends each command to the next replica.
    fn add_until_over(&self, client: usize) {
        for turn in client.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let counter = turn % COUNTERS;
            let engine = {
                let members = self.members.read();
                members[turn % members.len()].engine.clone()
            };
            let counted = &self.counted[counter];
            match engine.submit_blocking(Command::Add { counter, amount: 1 }) {
                Ok(Ok(_)) => counted.accepted.fetch_add(1, Ordering::Relaxed),
                Ok(Err(Refusal::TooMuch { value })) => {
                    assert_eq!(value, LIMIT);
                    return;
                }
                Err(SubmitError::Unknown(_) | SubmitError::HandedOver) => {
                    counted.unknown.fetch_add(1, Ordering::Relaxed)
                }
                Err(SubmitError::Unavailable(_) | SubmitError::ShuttingDown) => continue,
                other => panic!("{other:?}"),
            };
        }
    }

    fn leader(&self) -> Option<usize> {
        self.members
            .read()
            .iter()
            .position(|m| m.leadership().is_own)
    }

    fn happen(&self, event: &Event, origin: u64) {
        match event {
            Event::Crash => {
                let leader = self.leader().unwrap_or(0);
                let mut members = self.members.write();
                if members.len() > 1 {
                    let crashed = members.remove(leader);
                    drop(members);
                    crashed.crash();
                }
            }
            Event::Isolate => {
                if let Some(leader) = self.leader() {
                    self.network.isolate(self.members.read()[leader].origin);
                }
            }
            Event::Heal => self.network.heal(),
            Event::LoseReplies(every) => self.network.lose_every(*every),
            Event::Fail(fault) => {
                for member in self.members.read().iter() {
                    // The next append of the replica fails.
                    member.faults.fail(Operation::Append, 0, 1, *fault);
                }
            }
            Event::Restart => {
                let options = Options {
                    ahead_commands_min: 2,
                    ..Options::default()
                };
                let member = Member::start_with(&self.journal, &self.network, origin, options);
                self.members.write().push(member);
            }
        }
    }

    /// Checks that every replica, and a recovery, has what clients were told, and nothing else.
    fn check(self) {
        let members = self.members.into_inner();
        members.iter().for_each(|member| member.faults.cancel_all());
        let values = members[0].values();
        for (counter, counted) in self.counted.iter().enumerate() {
            let accepted = counted.accepted.load(Ordering::Relaxed);
            let possible = accepted + counted.unknown.load(Ordering::Relaxed);
            assert!(
                (accepted..=possible).contains(&values[counter]),
                "counter {counter}: {} of {accepted} accepted, {possible} possible",
                values[counter]
            );
        }
        for member in &members {
            assert_eq!(member.values(), values, "replica {}", member.origin);
        }
        let mut journal = self.journal.try_clone().unwrap();
        let recovered = recover::<toy::Counters>(journal.as_mut(), &()).unwrap();
        assert_eq!(recovered.machine.values(), values);
    }
}

fn run(seed: u64, events: &[Event]) {
    const PAUSE: Duration = Duration::from_millis(3);
    let world = World::new();
    world.network.make_rough(seed);
    thread::scope(|scope| {
        for client in 0..4 {
            let world = &world;
            scope.spawn(move || world.add_until_over(client));
        }
        // Replicas 1 to 3 run already, so the next one that an event starts is replica 4 or later.
        for (event, origin) in events.iter().zip(4..) {
            thread::sleep(PAUSE);
            world.happen(event, origin);
        }
        thread::sleep(PAUSE);
        world.network.heal();
        world.network.lose_every(0);
        world.is_over.store(true, Ordering::Relaxed);
    });
    world.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_acknowledged_is_lost_and_nothing_happens_twice(
        seed in any::<u64>(),
        events in prop::collection::vec(event(), 1..12),
    ) {
        run(seed, &events);
    }
}
