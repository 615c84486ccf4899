//! `placewright bench races`: the cost of conflicts between concurrent schedulers. Many schedulers
//! in one process, each on a copy of the state that is some decisions old, compete for the best
//! hosts of a fleet that is 95 % full.
//!
//! The engine is that of a server, but with a journal in memory: fsync would slow decisions down and so
//! make conflicts rarer. Each scheduler updates its copy from the engine's stream of changes, as a
//! replica does, but only from time to time. After each claim another instance is ended, so that the fleet
//! stays as full as it is. At the end an audit compares the state with the sums over all allocations.

use std::sync::atomic::AtomicU64;
use std::time::Instant;

use anyhow::Context as _;
use clap::Args;
use placewright_control::ControlMachine;
use placewright_engine::{Engine, Options};
use placewright_journal::MemoryJournal;
use serde::Serialize;

use super::server_process::cpu_s_of;
use super::targets::{TargetedFigure, at_least, at_most, print_report};

mod audit;
mod fleet;
mod racer;

use audit::Audit;
use racer::{RaceResults, RacingScheduler};

/// Arguments of `placewright bench races`.
#[derive(Debug, Args)]
pub(crate) struct RacesBench {
    /// Hosts for which the schedulers compete
    #[arg(long, default_value_t = 10_000)]
    hosts: u32,

    /// How full the hosts' memory is, in percent
    #[arg(long, default_value_t = 95, value_parser = clap::value_parser!(u32).range(50..=98))]
    full: u32,

    /// Schedulers that run at the same time; the same work is also done by one and by four
    #[arg(long, default_value_t = 32)]
    schedulers: usize,

    /// After so many decisions of its own a scheduler updates its copy of the state
    #[arg(long, default_value_t = 8)]
    stale: u32,

    /// Decisions of each round
    #[arg(long, default_value_t = 20_000)]
    decisions: u64,

    /// Print one JSON object with all figures
    #[arg(long)]
    json: bool,
}

/// Target: repeated decisions, in percent of all decisions.
const REPEATED_DECISIONS_PERCENT: f64 = 0.1;

/// The speed of four schedulers has a target only with this many cores: with fewer, four schedulers cannot run
/// beside the engine's own threads.
const CORES_MIN: usize = 4;

/// The results of a number of schedulers.
#[derive(Debug, Serialize)]
struct Round {
    schedulers: usize,
    seconds: f64,
    /// The processor time of all threads, including the engine's.
    cpu_s: f64,
    decisions_per_second: f64,
    /// The results of all schedulers together.
    tally: RaceResults,
}

#[derive(Debug, Serialize)]
struct Report {
    rounds: Vec<Round>,
    audit: Audit,
    #[serde(rename = "bars")]
    targets: Vec<TargetedFigure>,
}

impl RacesBench {
    /// Runs the benchmark; returns whether the targets were met.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let engine: Engine<ControlMachine> =
            Engine::open(MemoryJournal::new(), Options::default(), ())?;
        let racks = fleet::build(&engine, self.hosts, self.full)?;
        let audit_before = engine.read_now(|machine| Audit::of(machine.placement()));
        let mut rounds = Vec::new();
        for schedulers in [1, 4, self.schedulers] {
            rounds.push(self.round(&engine, schedulers)?);
        }
        let audit = engine.read_now(|machine| Audit::of(machine.placement()));
        engine.shutdown();
        let full_report = compare_with_targets(rounds, &audit_before, audit);
        if !self.json {
            outln!(
                "{} hosts in {racks} racks, {} instances, {} % of the memory taken; copies up to \
                 {} own decisions old",
                self.hosts,
                full_report.audit.consumers,
                full_report.audit.memory_percent,
                self.stale
            );
            full_report.rounds.iter().for_each(Round::print);
            if cores() < CORES_MIN {
                full_report.print_cost_of_four();
            }
        }
        print_report(&full_report.targets, self.json.then_some(&full_report))?;
        Ok(full_report.targets.iter().all(|target| target.is_met))
    }

    /// Runs a number of schedulers concurrently.
    fn round(&self, engine: &Engine<ControlMachine>, schedulers: usize) -> anyhow::Result<Round> {
        let schedulers_with_copies: Vec<RacingScheduler> = (0..schedulers)
            .map(|number| RacingScheduler::new(engine, number, schedulers, self.stale))
            .collect::<anyhow::Result<_>>()?;
        let decisions_left = AtomicU64::new(self.decisions);
        let cpu_before_s = cpu_s_of(std::process::id())?;
        let start = Instant::now();
        let results: Vec<anyhow::Result<RaceResults>> = std::thread::scope(|scope| {
            let threads: Vec<_> = schedulers_with_copies
                .into_iter()
                .map(|scheduler| scope.spawn(|| scheduler.race(&decisions_left)))
                .collect();
            let joined = threads.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(anyhow::anyhow!("a scheduler panicked")))
            });
            joined.collect()
        });
        let seconds = start.elapsed().as_secs_f64();
        let cpu_s = cpu_s_of(std::process::id())? - cpu_before_s;
        let mut tally = RaceResults::default();
        for result in results {
            tally.add(&result.context("a scheduler failed")?);
        }
        Ok(Round {
            schedulers,
            seconds,
            cpu_s,
            decisions_per_second: count(tally.decisions) / seconds,
            tally,
        })
    }
}

/// Compares the results with the targets. The first two rounds are those with one and with four schedulers.
fn compare_with_targets(rounds: Vec<Round>, audit_before: &Audit, audit: Audit) -> Report {
    let total = |field: fn(&RaceResults) -> u64| {
        count(rounds.iter().map(|round| field(&round.tally)).sum())
    };
    let (speed_of_one, speed_of_four) = (
        rounds[0].decisions_per_second,
        rounds[1].decisions_per_second,
    );
    let last_tally = &rounds[rounds.len() - 1].tally;
    let repeated_percent = 100.0 * count(last_tally.repeated) / count(last_tally.decisions.max(1));
    let mut targets = vec![
        at_most("double bookings", count(audit.double_bookings), 0.0),
        at_most("broken rules of groups", count(audit.broken_rules), 0.0),
        at_most(
            "claims that the state does not have",
            (count(audit_before.instances) + total(|tally| tally.claimed)
                - total(|tally| tally.ended)
                - count(audit.instances))
            .abs(),
            0.0,
        ),
        at_most(
            "retries that callers saw",
            total(|tally| tally.failed_with_room),
            0.0,
        ),
        at_most(
            "repeated decisions in percent",
            repeated_percent,
            REPEATED_DECISIONS_PERCENT,
        ),
    ];
    if cores() >= CORES_MIN {
        let speedup = speed_of_four / speed_of_one;
        targets.push(at_least("speed of 4 schedulers over 1", speedup, 1.0));
    }
    Report {
        rounds,
        audit,
        targets,
    }
}

impl Report {
    /// Prints the cost of a decision for four schedulers and for one, in place of the target if there are too few
    /// cores for it.
    fn print_cost_of_four(&self) {
        let [one, four, ..] = &self.rounds[..] else {
            return;
        };
        outln!(
            "{} cores: 4 schedulers make {:.2} times the decisions of one. A decision takes {:.0} µs \
             of processor time with four and {:.0} µs with one: where others are faster, a claim \
             names more hosts ({:.1}, not {:.1}), and each copy repeats what all schedulers did. Four \
             keep {:.2} cores busy, one {:.2}; the rest is waiting for the one writer that decides \
             all claims in order.",
            cores(),
            four.decisions_per_second / one.decisions_per_second,
            four.per_decision(four.cpu_s * 1e6),
            one.per_decision(one.cpu_s * 1e6),
            four.per_decision(count(four.tally.named)),
            one.per_decision(count(one.tally.named)),
            four.cpu_s / four.seconds,
            one.cpu_s / one.seconds,
        );
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl Round {
    fn per_decision(&self, total: f64) -> f64 {
        total / count(self.tally.decisions.max(1))
    }

    fn print(&self) {
        let tally = &self.tally;
        outln!(
            "{:>3} schedulers {:>8.0} decisions/s   claimed {}, the best host {}, another {}, \
             repeated decisions {}, no room {}",
            self.schedulers,
            self.decisions_per_second,
            tally.claimed,
            tally.claimed - tally.displaced,
            tally.displaced,
            tally.repeated,
            tally.no_room,
        );
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn count(number: u64) -> f64 {
    number as f64
}
