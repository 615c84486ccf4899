//! Measures how long it takes to write and read the records of typical commands.
//!
//! `cargo run --release -p placewright-records --example speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use placewright_conductor::control::Change;
use placewright_conductor::super_conductor::{self, Mapping};
use placewright_conductor::{CellId, InstanceId};
use placewright_placement::change::NewAllocation;
use placewright_placement::{self as placement, ClassId, Timestamp};
use placewright_records::control::{decode, encode};
use uuid::Uuid;

const CALLS_PER_BATCH: u32 = 1_000;
const BATCHES: usize = 2_000;

/// The changes of a claim of three resources on one host.
fn claim() -> Vec<Change> {
    let (consumer, provider) = (Uuid::from_u128(1 << 100), Uuid::from_u128(2 << 100));
    let at = Timestamp(1_700_000_000_000_000);
    let allocations = (0..3u16).map(|class| NewAllocation {
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

/// The changes of a build: a claim, and the mapping of its instance.
fn build() -> Vec<Change> {
    let mapping = Mapping {
        cell: Some(CellId(Uuid::from_u128(3 << 100))),
        project: "8f6e7d6c5b4a39281706f5e4d3c2b1a0".into(),
        user: "0a1b2c3d4e5f60718293a4b5c6d7e8f9".into(),
        created_at: Timestamp(1_700_000_000_000_000),
        is_deleting: false,
        claim_number: 1,
        claim_response: None,
        move_number: 0,
        migrations: Vec::new(),
        decisions: Vec::new(),
        reschedule: Default::default(),
    };
    let instance = InstanceId(Uuid::from_u128(1 << 100));
    let mapping_change = super_conductor::Change::Mapping(instance, Some(Box::new(mapping)));
    let mut changes = claim();
    changes.push(Change::Conductor(mapping_change));
    changes
}

/// The time of one call in the fastest of many batches. Other work on the machine can only add to it.
fn best_time(mut operation: impl FnMut()) -> Duration {
    let batch = || {
        let begin = Instant::now();
        for _ in 0..CALLS_PER_BATCH {
            operation();
        }
        begin.elapsed() / CALLS_PER_BATCH
    };
    let batches = std::iter::repeat_with(batch).take(BATCHES);
    batches.min().unwrap_or_default()
}

fn measure(name: &str, changes: &[Change]) {
    let mut record = Vec::new();
    let writing = best_time(|| {
        record.clear();
        encode(black_box(changes), &mut record);
    });
    let reading = best_time(|| {
        if let Ok(changes) = decode(black_box(&record)) {
            black_box(changes);
        }
    });
    let bytes = record.len();
    println!("{name}: {bytes} bytes, written in {writing:?}, read in {reading:?}");
}

fn main() {
    measure("claim", &claim());
    measure("build", &build());
}
