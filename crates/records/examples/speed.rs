//! How long it takes to write and read the records of typical commands.
//!
//! `cargo run --release -p placewright-records --example speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use placewright_conductor::control::Change;
use placewright_conductor::super_conductor::{self, Mapping};
use placewright_conductor::{CellId, InstanceId};
use placewright_placement::change::AllocationFact;
use placewright_placement::{self as placement, ClassId, Timestamp};
use placewright_records::control::{decode, encode};
use uuid::Uuid;

const ROUNDS: u32 = 1_000;
const BATCHES: usize = 2_000;

/// What a claim of three resources on one host changes.
fn claim() -> Vec<Change> {
    let (consumer, provider) = (Uuid::from_u128(1 << 100), Uuid::from_u128(2 << 100));
    let at = Timestamp(1_700_000_000_000_000);
    let allocations = (0..3u16).map(|class| AllocationFact {
        provider,
        class: ClassId(class),
        amount: 4096 >> class,
    });
    let consumer = placement::ConsumerUuid::from_uuid(consumer);
    vec![
        Change::Placement(placement::Change::ConsumerSet {
            consumer,
            generation: 1,
            project: "8f6e7d6c5b4a39281706f5e4d3c2b1a0".into(),
            user: "0a1b2c3d4e5f60718293a4b5c6d7e8f9".into(),
            consumer_type: Some("INSTANCE".into()),
            at,
            allocations: allocations.collect(),
        }),
        Change::Placement(placement::Change::GenerationSet {
            provider,
            generation: 1234,
            at,
        }),
    ]
}

/// The same with the mapping of an instance.
fn build() -> Vec<Change> {
    let mapping = Mapping {
        cell: Some(CellId(Uuid::from_u128(3 << 100))),
        project: "8f6e7d6c5b4a39281706f5e4d3c2b1a0".into(),
        user: "0a1b2c3d4e5f60718293a4b5c6d7e8f9".into(),
        created_at: Timestamp(1_700_000_000_000_000),
        is_deleting: false,
        claim: 1,
        answer: None,
        turn: 0,
        migrations: Vec::new(),
    };
    let instance = InstanceId(Uuid::from_u128(1 << 100));
    let mapped = super_conductor::Change::Mapping(instance, Some(Box::new(mapping)));
    let mut changes = claim();
    changes.push(Change::Conductor(mapped));
    changes
}

/// The time of one round, in the best of many batches: others on the machine only add to it.
fn best(mut round: impl FnMut()) -> Duration {
    let batch = || {
        let begin = Instant::now();
        for _ in 0..ROUNDS {
            round();
        }
        begin.elapsed() / ROUNDS
    };
    let batches = std::iter::repeat_with(batch).take(BATCHES);
    batches.min().unwrap_or_default()
}

fn measure(name: &str, changes: &[Change]) {
    let mut record = Vec::new();
    let writing = best(|| {
        record.clear();
        encode(black_box(changes), &mut record);
    });
    let reading = best(|| {
        if let Ok(read) = decode(black_box(&record)) {
            black_box(read);
        }
    });
    let bytes = record.len();
    println!("{name}: {bytes} bytes, written in {writing:?}, read in {reading:?}");
}

fn main() {
    measure("claim", &claim());
    measure("build", &build());
}
