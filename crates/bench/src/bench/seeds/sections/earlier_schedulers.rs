//! The section about earlier schedulers, whose ways of working the page calls the old ways.

use super::{ms, per_round, thousands};
use crate::bench::seeds::earlier_schedulers::{EarlierFigures, WAYS};
use crate::bench::seeds::page::Section;
use crate::bench::seeds::plot::{Axis, Line, Plot};
use crate::bench::seeds::shared_state::{REQUESTS, SharedStateFigures};
use crate::bench::targets::{TargetedFigure, at_least, count};

/// The name of the last way: that of the product.
const OURS: &str =
    "(c) Placewright: claimed in one order by the decision, with further hosts named";
/// The number of hosts of the published experiment, for which the targets are.
const PUBLISHED_HOSTS: u32 = 3;

/// Writes the section, and compares the figures with the targets. `shared` has the figures of the product, if they were
/// measured.
pub(in super::super) fn earlier_schedulers(
    figures: &[EarlierFigures],
    shared: &[SharedStateFigures],
) -> (Section, Vec<TargetedFigure>) {
    let mut section = Section::new("The old ways, step by step");
    section.paragraph(
        "The same hosts and requests, scheduled as before 2016 and as the prototype did it. Each way differs from the one before it \
         in one thing, so that each gain has one cause. All of them rank with Placewright's filters and weighers. A host is the \
         authority on what is on it: it checks a claim when the request arrives there, writes its row to a table (SQLite with WAL, \
         synced before it answers), and sends the row to all schedulers. A refused request is scheduled again without \
         that host, three times at most, as Nova does.",
    );
    section.paragraph(
        "(a) is the filter scheduler: before each decision a scheduler reads the rows of all hosts, over one connection, so that the \
         time of reading has the wait for its earlier reads, too. Its own choices count \
         until a newer row of that host arrives, although that row may not contain them yet. In (b) hosts send \
         their rows instead. The prototype of 2016 counts a choice until the host has answered it. (c) is Placewright, with \
         the figures of the section above: there are no claims on hosts, because the decision claims, in one order for all schedulers. \
         A row of the table has a kilobyte and a half of facts besides its numbers, less than Nova's, and nothing is delayed by a network \
         or a message queue: this is the best that the old ways can do. So one scheduler has often decided all 31 requests \
         before the first host has answered, and no row that lacks its choices misleads it; in 2016, with slow reads and messages, \
         that cost 7 of 31 retries.",
    );
    let mut rows = Vec::new();
    for old in figures {
        rows.push(old_row(old));
        let is_last = Some(&old.way) == WAYS.last();
        let has_same_size = |ours: &&SharedStateFigures| {
            (ours.hosts, ours.schedulers) == (old.hosts, old.schedulers)
        };
        if is_last {
            rows.extend(shared.iter().filter(has_same_size).map(our_row));
        }
    }
    section.table(
        &[
            "hosts",
            "schedulers",
            "way",
            "read from the store, ms: median",
            "decision, ms: median (mean)",
            "claim answered, ms: median",
            "whole, ms: median (longest)",
            "visible retries of 31",
            "failed of 31",
        ],
        &rows,
    );
    for (file, hosts) in [("old-ways-3", 3), ("old-ways-1000", 1_000)] {
        if figures.iter().any(|one| one.hosts == hosts) {
            section.plot(retries_plot(file, hosts, figures, shared));
        }
    }
    section.plot(time_plot(figures, shared));
    (section, targets(figures))
}

fn old_row(old: &EarlierFigures) -> Vec<String> {
    vec![
        thousands(old.hosts),
        old.schedulers.to_string(),
        old.way.name.to_owned(),
        if old.way.reads_store {
            ms(old.reading.p50_ms)
        } else {
            "–".to_owned()
        },
        format!("{} ({})", ms(old.decision.p50_ms), ms(old.decision.mean_ms)),
        ms(old.claiming.p50_ms),
        format!("{} ({})", ms(old.whole.p50_ms), ms(old.whole.max_ms)),
        format!("{:.1}", per_round(old.visible_retries, old.rounds)),
        format!("{:.1}", per_round(old.failed, old.rounds)),
    ]
}

fn our_row(ours: &SharedStateFigures) -> Vec<String> {
    vec![
        thousands(ours.hosts),
        ours.schedulers.to_string(),
        format!("{OURS} ({})", ours.store),
        "–".to_owned(),
        format!(
            "{} ({})",
            ms(ours.decision.p50_ms),
            ms(ours.decision.mean_ms)
        ),
        ms(ours.answered.p50_ms),
        format!("{} ({})", ms(ours.whole.p50_ms), ms(ours.whole.max_ms)),
        format!("{:.1}", per_round(ours.visible_retries, ours.rounds)),
        // A visible retry of the product is a request that failed: the benchmark does not send it again.
        format!("{:.1}", per_round(ours.visible_retries, ours.rounds)),
    ]
}

/// The retries by the number of schedulers.
fn retries_plot(
    file: &'static str,
    hosts: u32,
    figures: &[EarlierFigures],
    shared: &[SharedStateFigures],
) -> Plot {
    let of_way = |name: &str| {
        let same = figures
            .iter()
            .filter(|one| one.hosts == hosts && one.way.name == name);
        let point = |one: &EarlierFigures| {
            (
                as_f64(one.schedulers),
                per_round(one.visible_retries, one.rounds),
            )
        };
        same.map(point).collect()
    };
    let mut lines: Vec<Line> = WAYS
        .iter()
        .map(|way| Line {
            name: way.name.to_owned(),
            points: of_way(way.name),
        })
        .collect();
    let ours = shared
        .iter()
        .filter(|one| one.hosts == hosts && one.store == "etcd");
    let point = |one: &SharedStateFigures| {
        (
            as_f64(one.schedulers),
            per_round(one.visible_retries, one.rounds),
        )
    };
    lines.push(Line {
        name: OURS.to_owned(),
        points: ours.map(point).collect(),
    });
    Plot {
        file,
        title: format!(
            "Retries that callers see, of {REQUESTS} requests on {} hosts",
            thousands(hosts)
        ),
        x: Axis::logarithmic("schedulers"),
        y: Axis::linear("retries"),
        lines,
    }
}

/// A plot of the time of one scheduler until it has decided, by the number of hosts.
fn time_plot(figures: &[EarlierFigures], shared: &[SharedStateFigures]) -> Plot {
    let mut lines: Vec<Line> = WAYS
        .iter()
        .map(|way| {
            let same = figures
                .iter()
                .filter(|one| one.schedulers == 1 && one.way == *way);
            let until_decided = |one: &EarlierFigures| one.reading.p50_ms + one.decision.p50_ms;
            Line {
                name: way.name.to_owned(),
                points: same
                    .map(|one| (f64::from(one.hosts), until_decided(one)))
                    .collect(),
            }
        })
        .collect();
    let ours = shared
        .iter()
        .filter(|one| one.schedulers == 1 && one.store == "SQLite");
    lines.push(Line {
        name: OURS.to_owned(),
        points: ours
            .map(|one| (f64::from(one.hosts), one.decision.p50_ms))
            .collect(),
    });
    Plot {
        file: "old-ways-time",
        title: "Reading and deciding, median, one scheduler".to_owned(),
        x: Axis::logarithmic("hosts"),
        y: Axis::logarithmic("ms"),
        lines,
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn as_f64(number: usize) -> f64 {
    number as f64
}

/// The targets, which follow from the published results: reading takes longer than deciding, hosts refuse claims, and
/// they refuse more of them the more schedulers there are.
fn targets(figures: &[EarlierFigures]) -> Vec<TargetedFigure> {
    let figures_of = |way: usize, schedulers: usize| {
        let mut same = figures.iter().filter(|one| {
            one.hosts == PUBLISHED_HOSTS && one.schedulers == schedulers && one.way == WAYS[way]
        });
        same.next()
    };
    let mut targets = Vec::new();
    if let (Some(one), Some(four)) = (figures_of(0, 1), figures_of(0, 4)) {
        let times = one.reading.p50_ms / one.decision.p50_ms.max(f64::MIN_POSITIVE);
        targets.push(at_least(
            "(a) on 3 hosts: reading over deciding",
            times,
            1.0,
        ));
        targets.push(at_least(
            "(a) on 3 hosts: retries, 4 schedulers",
            count(four.visible_retries),
            1.0,
        ));
        let more = count(four.visible_retries) / count(one.visible_retries.max(1));
        targets.push(at_least(
            "(a) on 3 hosts: retries of 4 schedulers over 1",
            more,
            1.0,
        ));
    }
    if let Some(four) = figures_of(1, 4) {
        targets.push(at_least(
            "(b) on 3 hosts: retries, 4 schedulers",
            count(four.visible_retries),
            1.0,
        ));
    }
    targets
}
