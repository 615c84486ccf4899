//! A follower that applies nothing for so long that the leader's batches do not fit into its memory any more.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use crate::toy::{SubmitBlocking as _, block_on, eventually};
use placewright_engine::{
    AppendedBatch, DecodeError, Engine, LoadError, Machine, Observer, Options, StoreError,
};
use placewright_journal::{Fault, Faults, Faulty, Journal as _, MemoryJournal, Operation};
use placewright_testing::counters::{Change, Command, Counters, Refusal};

/// How many bytes longer each record is than one of the counters alone.
const PADDING: usize = 512 << 10;
/// As many records as make 24 MiB: more than the 16 MiB that a follower keeps until it applies them.
const RECORDS: u64 = 48;
/// As many of these records as a follower keeps for certain.
const FIT: u64 = 30;

/// Counters with large records.
struct Padded(Counters);

impl Machine for Padded {
    type Command = Command;
    type Change = Change;
    type Outcome = u64;
    type Refusal = Refusal;
    type Undo = Change;

    fn empty() -> Self {
        Self(Counters::empty())
    }

    fn decide(&self, command: &Command, changes: &mut Vec<Change>) -> Result<u64, Refusal> {
        self.0.decide(command, changes)
    }

    fn apply(&mut self, change: &Change) -> Change {
        self.0.apply(change)
    }

    fn undo(&mut self, undo: Change) {
        self.0.undo(undo);
    }

    fn encode(changes: &[Change], out: &mut Vec<u8>) {
        out.resize(out.len() + PADDING, 0);
        Counters::encode(changes, out);
    }

    fn decode(record: &[u8]) -> Result<Vec<Change>, DecodeError> {
        Counters::decode(&record[PADDING..])
    }

    fn save(&self, out: &mut dyn Write) -> std::io::Result<()> {
        self.0.save(out)
    }

    fn load(input: &mut dyn Read) -> Result<Self, LoadError> {
        Counters::load(input).map(Self)
    }

    fn digest(&self) -> u128 {
        self.0.digest()
    }
}

type Network = placewright_testing::replicas::Network<Padded>;

/// Counts how often a replica could not read its journal.
#[derive(Clone, Default)]
struct FailedReads(Arc<AtomicU64>);

impl Observer for FailedReads {
    fn following_failed(&self, _: &StoreError) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn start(
    journal: &MemoryJournal,
    network: &Network,
    origin: u64,
) -> (Engine<Padded>, Faults, FailedReads) {
    let (faults, failed_reads) = (Faults::new(), FailedReads::default());
    let faulty = Faulty::new(journal.try_clone().unwrap(), faults.clone());
    let options = network.options(origin);
    let engine =
        Engine::open_replica(faulty, Options::default(), failed_reads.clone(), options).unwrap();
    network.join(origin, engine.replica());
    (engine, faults, failed_reads)
}

fn add(engine: &Engine<Padded>) -> u64 {
    let command = Command::Add {
        counter: 0,
        amount: 1,
    };
    engine.submit_blocking(command).unwrap().unwrap()
}

/// The value of the counter, after everything that was acknowledged.
fn value(engine: &Engine<Padded>) -> u64 {
    block_on(engine.confirm()).unwrap();
    block_on(engine.read(|padded| padded.0.values()[0]))
}

#[test]
fn a_follower_keeps_what_fits_and_reads_the_rest_from_the_store() {
    let (journal, network) = (MemoryJournal::new(), Network::default());
    let (leader, _, _) = start(&journal, &network, 1);
    assert_eq!(add(&leader), 1);
    let leadership = leader.replica().leadership().unwrap().borrow().clone();
    assert!(leadership.is_own);
    let (follower, faults, failed_reads) = start(&journal, &network, 2);
    assert_eq!(value(&follower), 1);
    let before = follower.durable_sequence();

    // While its state is read, the follower applies nothing. The leader does not wait for it.
    let mut appended = leader.replica().appended().unwrap();
    thread::scope(|scope| {
        let (is_held, until_held) = mpsc::channel();
        let (release, until_released) = mpsc::channel::<()>();
        let follower = &follower;
        scope.spawn(move || {
            follower.read_now(|_| {
                is_held.send(()).unwrap();
                // If the test fails meanwhile, the sender is gone.
                let _ = until_released.recv();
            });
        });
        until_held.recv().unwrap();
        // From now on the follower cannot read the store.
        faults.fail(Operation::Read, 0, u64::MAX, Fault::Io);
        for number in 1..=RECORDS {
            assert_eq!(add(&leader), 1 + number);
            let batch = block_on(appended.recv()).unwrap();
            let batch = AppendedBatch::clone(&batch);
            (follower.replica()).take_appended(leadership.epoch, batch);
        }
        assert_eq!(follower.durable_sequence(), before);
        release.send(()).unwrap();
    });

    // The follower applies the batches that it has kept, and then lacks an entry that only the store has.
    eventually(|| {
        let (reached, failed) = (
            follower.durable_sequence(),
            failed_reads.0.load(Ordering::SeqCst),
        );
        assert!(reached < before + RECORDS, "all batches were kept");
        let tried_again = || failed_reads.0.load(Ordering::SeqCst) > failed + 1;
        reached >= before + FIT && {
            eventually(tried_again);
            follower.durable_sequence() == reached
        }
    });
    faults.cancel_all();
    assert_eq!(value(&follower), 1 + RECORDS);
    // From now on the follower takes the leader's batches again.
    assert_eq!(add(&follower), 2 + RECORDS);
    assert_eq!(value(&leader), 2 + RECORDS);
    assert_eq!(value(&follower), 2 + RECORDS);
}
