//! The section about schedulers that share their state.

use super::{ms, per_round, thousands};
use crate::bench::seeds::etcd_process::EtcdProcess;
use crate::bench::seeds::fleet::INSTANCES_PER_HOST;
use crate::bench::seeds::page::Section;
use crate::bench::seeds::plot::{Axis, Plot};
use crate::bench::seeds::shared_state::{REQUESTS, SharedStateFigures};
use crate::bench::targets::{TargetedFigure, at_most, count};

/// Target: the median of the time that a decision takes, in microseconds.
const DECISION_US: f64 = 50.0;
/// Target: the mean of the time that a request is blocked by the store, in milliseconds.
const BLOCKED_MS: f64 = 5.0;
/// The number of hosts of the published experiment, for which the targets are.
const PUBLISHED_HOSTS: u32 = 3;

/// The published results for 31 requests on 3 hosts: the name of the measurement, the time of a decision, the time
/// blocked by the database, and the retries.
const PUBLISHED: [[&str; 4]; 4] = [
    ["filter scheduler, 1 scheduler", "3", "355", "7 of 31"],
    [
        "filter scheduler, 4 schedulers on machines of their own",
        "3",
        "697",
        "16 of 31",
    ],
    [
        "shared-state prototype, 1 scheduler",
        "about 3",
        "none",
        "0 of 31",
    ],
    [
        "shared-state prototype, 4 schedulers",
        "about 3",
        "none",
        "2 of 31",
    ],
];

/// Writes the section, and compares the figures with the targets.
pub(in super::super) fn shared_state(
    figures: &[SharedStateFigures],
) -> (Section, Vec<TargetedFigure>) {
    let mut section = Section::new("Shared state");
    section.paragraph(&format!(
        "{REQUESTS} requests for one instance each come at once, spread over the schedulers. A scheduler is a replica of control: \
         it has its own copy of the state, ranks hosts on it, and claims the best ones with one command, which names several hosts. \
         The replicas run in one process and reach each other in memory; what they tell each other, and the journal that \
         they share, are as between machines. The journal is SQLite on the disk (one scheduler) or one member of etcd on the same \
         machine; every claim is synced to the disk before it is answered. Three hosts are empty and have room for {INSTANCES_PER_HOST} \
         instances each. Of a larger fleet one host in ten has room for one more instance, and the others are full, so all schedulers \
         want the same hosts first. The first round, in which caches are filled, does not count."
    ));
    section.paragraph(
        "A *decision* is the ranking of the hosts. *Blocked by the store* is the time from handing a claim to the engine until it is \
         durable: the handing over to the replica that leads, the wait for other claims' append, and the append itself. *Answered* is \
         until the scheduler that claimed knows that, for which it reads and applies the entries of all others before its own: here all \
         schedulers do that on the same cores. The *whole* is from the request to the answer; what the decision and the answer leave \
         of it is waiting for a core. A *visible retry* is a request \
         that its caller would have to repeat. *Inner* are hosts that a claim named and passed over because other claims had \
         filled them, and rankings that were made again; callers see neither.",
    );
    if EtcdProcess::version().is_none() {
        section.paragraph(
            "etcd is not installed on this machine, so the rows with several schedulers are left out.",
        );
    }
    section.table(
        &[
            "published in 2016: 31 requests, 3 hosts",
            "decision, ms",
            "blocked by the database, ms",
            "retries",
        ],
        &PUBLISHED.map(|row| row.map(str::to_owned).to_vec()),
    );
    section.table(
        &[
            "hosts",
            "schedulers",
            "journal",
            "decision, ms: median (mean, p99)",
            "blocked by the store, ms: mean (median, longest); an append",
            "answered, ms: mean (longest)",
            "whole, ms: median (longest)",
            "visible retries",
            "inner: passed over, ranked again",
        ],
        &figures.iter().map(row).collect::<Vec<_>>(),
    );
    section.plot(plot(
        "shared-state-decision",
        "A decision, median",
        "ms",
        figures,
        |figures| figures.decision.p50_ms,
    ));
    section.plot(plot(
        "shared-state-blocked",
        "Blocked by the store, mean",
        "ms",
        figures,
        |figures| figures.blocked.mean_ms,
    ));
    (section, targets(figures))
}

fn row(figures: &SharedStateFigures) -> Vec<String> {
    let (decision, blocked) = (&figures.decision, &figures.blocked);
    vec![
        thousands(figures.hosts),
        figures.schedulers.to_string(),
        figures.store.to_owned(),
        format!(
            "{} ({}, {})",
            ms(decision.p50_ms),
            ms(decision.mean_ms),
            ms(decision.p99_ms)
        ),
        format!(
            "{} ({}, {}); {}",
            ms(blocked.mean_ms),
            ms(blocked.p50_ms),
            ms(blocked.max_ms),
            ms(figures.append.p50_ms)
        ),
        format!(
            "{} ({})",
            ms(figures.answered.mean_ms),
            ms(figures.answered.max_ms)
        ),
        format!(
            "{} ({})",
            ms(figures.whole.p50_ms),
            ms(figures.whole.max_ms)
        ),
        format!("{} of {}", figures.visible_retries, figures.requests()),
        format!(
            "{:.1}, {:.1} of {REQUESTS}",
            per_round(figures.passed_over, figures.rounds),
            per_round(figures.ranked_again, figures.rounds)
        ),
    ]
}

fn plot(
    file: &'static str,
    title: &str,
    unit: &str,
    figures: &[SharedStateFigures],
    value: fn(&SharedStateFigures) -> f64,
) -> Plot {
    let points = figures.iter().map(|one| {
        let name = format!("{} schedulers, {}", one.schedulers, one.store);
        (name, (f64::from(one.hosts), value(one)))
    });
    let axes = (Axis::logarithmic("hosts"), Axis::logarithmic(unit));
    Plot::of_points(file, title, axes, points)
}

fn targets(figures: &[SharedStateFigures]) -> Vec<TargetedFigure> {
    let published = || figures.iter().filter(|one| one.hosts == PUBLISHED_HOSTS);
    let blocked_on = |store: &str| {
        let means = published().filter(|one| one.store == store);
        means.map(|one| one.blocked.mean_ms).fold(0.0, f64::max)
    };
    let retries = published().map(|one| one.visible_retries).sum();
    let decision_ms = published()
        .map(|one| one.decision.p50_ms)
        .fold(0.0, f64::max);
    let mut targets = vec![
        at_most(
            "visible retries, 31 requests on 3 hosts",
            count(retries),
            0.0,
        ),
        at_most(
            "a decision on 3 hosts, median in µs",
            decision_ms * 1000.0,
            DECISION_US,
        ),
        at_most(
            "blocked by the store, mean in ms: SQLite",
            blocked_on("SQLite"),
            BLOCKED_MS,
        ),
    ];
    if published().any(|one| one.store == "etcd") {
        let name = "blocked by the store, mean in ms: etcd";
        targets.push(at_most(name, blocked_on("etcd"), BLOCKED_MS));
    }
    targets
}
