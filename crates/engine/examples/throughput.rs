//! Measures how many durable commands an engine on SQLite, with fsync, carries out in a second.
//!
//! ```text
//! cargo run --release -p placewright-engine --example throughput -- [SUBMITTERS] [SECONDS] [DIRECTORY]
//! ```

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it prints its figure"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use placewright_engine::{Commit, Engine, Observer, Options};
use placewright_journal::{SqliteJournal, SqliteOptions};
use placewright_testing::counters::{COUNTERS, Command, Counters, LIMIT};

/// Sums over all appends.
#[derive(Default)]
struct Figures {
    batches: AtomicU64,
    entries: AtomicU64,
    append_us: AtomicU64,
    decide_us: AtomicU64,
}

/// Adds each append to the figures.
struct FiguresObserver {
    figures: Arc<Figures>,
}

impl Observer for FiguresObserver {
    fn committed(&self, commit: &Commit) {
        let add = |counter: &AtomicU64, value: u128| {
            counter.fetch_add(u64::try_from(value).unwrap_or(0), Ordering::Relaxed);
        };
        add(&self.figures.batches, 1);
        add(&self.figures.entries, commit.entries as u128);
        add(&self.figures.append_us, commit.append_time.as_micros());
        add(&self.figures.decide_us, commit.decide_time.as_micros());
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let submitters: usize = arguments.next().map_or(Ok(64), |a| a.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(5), |a| a.parse())?;
    let temporary = tempfile::tempdir()?;
    let directory = arguments
        .next()
        .map_or(temporary.path().join("store"), PathBuf::from);
    let figures = Arc::new(Figures::default());
    let journal = SqliteJournal::open(&directory, SqliteOptions::default())?;
    let observer = FiguresObserver {
        figures: Arc::clone(&figures),
    };
    let engine: Engine<Counters> = Engine::open(journal, Options::default(), observer)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()?;
    let (elapsed, mut latencies) = runtime.block_on(load(&engine, submitters, seconds))?;
    engine.shutdown();

    latencies.sort_unstable();
    let per_second = |count: u64| count as f64 / elapsed.as_secs_f64();
    let percentile = |p: usize| {
        let index = (latencies.len() * p / 100).min(latencies.len().saturating_sub(1));
        latencies
            .get(index)
            .copied()
            .unwrap_or_default()
            .as_secs_f64()
            * 1e3
    };
    let batches = figures.batches.load(Ordering::Relaxed).max(1);
    let entries = figures.entries.load(Ordering::Relaxed);
    println!(
        "{submitters} submitters: {:.0} durable commands/s, p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        per_second(latencies.len() as u64),
        percentile(50),
        percentile(99),
        percentile(100),
    );
    println!(
        "{:.0} appends/s of {:.1} entries, {:.0} us an append, {:.1} us decide a batch",
        per_second(batches),
        entries as f64 / batches as f64,
        figures.append_us.load(Ordering::Relaxed) as f64 / batches as f64,
        figures.decide_us.load(Ordering::Relaxed) as f64 / batches as f64,
    );
    Ok(())
}

/// Lets each submitter send its next command when its last one was answered. Returns the elapsed time and the
/// latency of each command.
async fn load(
    engine: &Engine<Counters>,
    submitters: usize,
    seconds: u64,
) -> Result<(Duration, Vec<Duration>), Box<dyn std::error::Error>> {
    let started = Instant::now();
    let until = started + Duration::from_secs(seconds);
    for counter in 0..COUNTERS {
        // Half full, so that moves of 1 in both directions stay within the bounds.
        let amount = LIMIT / 2;
        let filled = engine.submit(Command::Add { counter, amount }).await?;
        filled.map_err(|_| "the store is not empty")?;
    }
    let mut tasks = Vec::new();
    for submitter in 0..submitters {
        let engine = engine.clone();
        tasks.push(tokio::spawn(async move {
            let mut latencies = Vec::new();
            // Each command moves an amount between two counters of a pair, in alternating directions, so that
            // no command is refused and each makes a change.
            let (mut from, mut to) = (submitter % COUNTERS, (submitter % COUNTERS) ^ 1);
            while Instant::now() < until {
                let sent = Instant::now();
                let amount = 1;
                let answer = engine.submit(Command::Move { from, to, amount }).await?;
                answer
                    .map_err(|_| "refused")
                    .expect("the counters stay in bounds");
                latencies.push(sent.elapsed());
                std::mem::swap(&mut from, &mut to);
            }
            Ok::<_, placewright_engine::SubmitError>(latencies)
        }));
    }
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    Ok((started.elapsed(), latencies))
}
