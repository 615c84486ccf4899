//! Measures appends with one request in flight, and reading them back.
//!
//! ```sh
//! cargo run --release -p placewright-journal-postgresql --example load [URL]
//! ```
//!
//! Without an address it starts a primary with one synchronous standby on this machine, whose disk and processors they
//! share.

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use placewright_journal::Journal;
use placewright_journal_postgresql::{PostgresqlJournal, PostgresqlOptions};
use placewright_journal_testing::PostgresqlCluster;

/// The size of a record in bytes, which is that of a usual claim.
const RECORD_BYTES: usize = 150;
/// The numbers of records in an append.
const BATCHES: [usize; 4] = [1, 64, 400, 2000];
/// How long appends of each size are made.
const TIME: Duration = Duration::from_secs(8);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut cluster = None;
    let url = match std::env::args().nth(1) {
        Some(url) => url,
        None => {
            let started = cluster.insert(PostgresqlCluster::start(1)?);
            format!("postgresql://{}/placewright", started.address())
        }
    };
    let mut journal = PostgresqlJournal::open(&PostgresqlOptions::parse(&url)?)?;
    for notice in journal.notices() {
        eprintln!("{notice}");
    }
    let first = journal.end()? + 1;
    println!("records  appends/s  records/s    p50 ms    p99 ms    max ms");
    for records in BATCHES {
        measure(&mut journal, records)?;
    }
    let started = Instant::now();
    let end = journal.read(first, &mut |_, _| ControlFlow::Continue(()))?;
    let seconds = started.elapsed().as_secs_f64();
    let count = end - first;
    println!("read {count} records in {seconds:.2} s");
    Ok(())
}

fn measure(
    journal: &mut PostgresqlJournal,
    records: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let record = [7; RECORD_BYTES];
    let batch = vec![&record[..]; records];
    let mut next = journal.end()? + 1;
    let mut times = Vec::new();
    let started = Instant::now();
    while started.elapsed() < TIME {
        let append_started = Instant::now();
        journal.append(next, &batch)?;
        times.push(append_started.elapsed());
        journal.finish_deferred();
        next += records as u64;
    }
    let rate = times.len() as f64 / started.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |share: f64| {
        let index = ((times.len() - 1) as f64 * share) as usize;
        times[index].as_secs_f64() * 1e3
    };
    println!(
        "{records:7}  {rate:9.0}  {:9.0}  {:8.2}  {:8.2}  {:8.2}",
        rate * records as f64,
        at(0.5),
        at(0.99),
        at(1.0),
    );
    Ok(())
}
