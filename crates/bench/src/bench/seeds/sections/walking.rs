//! The section about filtering where the data is.

use super::{ms, thousands};
use crate::bench::seeds::page::Section;
use crate::bench::seeds::plot::{Axis, Line, Plot};
use crate::bench::seeds::walking::{
    HttpShare, METHODS, Method, STRATEGIES, Strategy, WalkingFigures,
};
use crate::bench::targets::{TargetedFigure, at_least};

/// The number of hosts at which the gain is compared with the target.
const MANY_HOSTS: u32 = 10_000;

/// Writes the section, and compares the figures with the targets.
pub(in super::super) fn walking(
    figures: &[WalkingFigures],
    http_shares: &[HttpShare],
) -> (Section, Vec<TargetedFigure>) {
    let mut section = Section::new("Filtering where the data is");
    section.paragraph(
        "In 2016 the proposal was to let the database return the hosts that satisfy a request, instead of walking over all \
         hosts in the scheduler. No figures were published; the text says that the gain grows with the number of hosts, and that \
         the cost of HTTP was assumed to be minor. The harness of that time (placement-bench) had pack, spread and random placement, and \
         1 to 8 workers; so has this one. Four hosts of five are full, and the others each to another degree. Workers are threads that \
         decide on one state and claim in its one order; the journal is in memory, so that the decisions show.",
    );
    section.paragraph(
        "*Walking* looks each host up, tests its three amounts, and weighs those that fit, in compiled code and in the memory of the \
         process: the walks of that time were in Python, over rows from a database. *Filtered where the data is* asks the columns \
         of the state, 64 hosts at a time. The *index* is how Placewright decides. *Random* is a random order of \
         the hosts, which stays: Placewright makes no random choices.",
    );
    section.table(
        &[
            "hosts",
            "strategy",
            "workers",
            "walking: a decision, ms (claims a second, again)",
            "filtered in columns, all weighed",
            "with the index",
            "gain of a decision",
        ],
        &rows(figures),
    );
    section.plot(gain_plot(figures));
    section.plot(workers_plot(figures));
    section.paragraph(
        "The share of HTTP: the same request for one destination with its claim, as a call in the process, and through the \
         scheduler's API over one connection on loopback, with parsing, authentication and printing. In medians:",
    );
    section.table(
        &["hosts", "call, ms", "over HTTP, ms", "share of HTTP"],
        &http_shares.iter().map(http_row).collect::<Vec<_>>(),
    );
    (section, targets(figures))
}

fn find(
    figures: &[WalkingFigures],
    (hosts, strategy, workers): (u32, Strategy, usize),
    method: Method,
) -> Option<&WalkingFigures> {
    figures.iter().find(|one| {
        (one.hosts, one.strategy, one.workers, one.method) == (hosts, strategy, workers, method)
    })
}

/// How many times longer walking takes than deciding with the index; `None` if one of the two was not measured.
fn gain(figures: &[WalkingFigures], setup: (u32, Strategy, usize)) -> Option<f64> {
    let walking = find(figures, setup, Method::Walk)?;
    let index = find(figures, setup, Method::Index)?;
    // The median is zero if no decision was measured.
    if index.decision.p50_ms <= 0.0 {
        return None;
    }
    Some(walking.decision.p50_ms / index.decision.p50_ms)
}

fn rows(figures: &[WalkingFigures]) -> Vec<Vec<String>> {
    let walks = figures.iter().filter(|one| one.method == Method::Walk);
    let row = |walk: &WalkingFigures| {
        let setup = (walk.hosts, walk.strategy, walk.workers);
        let mut row = vec![
            thousands(walk.hosts),
            walk.strategy.name().to_owned(),
            walk.workers.to_string(),
        ];
        for method in METHODS {
            row.push(find(figures, setup, method).map_or("–".to_owned(), |one| {
                let rate = format!("{:.0}", one.claims_per_second);
                format!("{} ({rate}, {})", ms(one.decision.p50_ms), one.retries)
            }));
        }
        row.push(gain(figures, setup).map_or("–".to_owned(), |gain| format!("{gain:.1}")));
        row
    };
    walks.map(row).collect()
}

/// The gain by the number of hosts, with one worker.
fn gain_plot(figures: &[WalkingFigures]) -> Plot {
    let lines = STRATEGIES.map(|strategy| {
        let walks = figures
            .iter()
            .filter(|one| (one.strategy, one.workers, one.method) == (strategy, 1, Method::Walk));
        let point = |walk: &WalkingFigures| {
            let gain = gain(figures, (walk.hosts, strategy, 1))?;
            Some((f64::from(walk.hosts), gain))
        };
        Line {
            name: strategy.name().to_owned(),
            points: walks.filter_map(point).collect(),
        }
    });
    Plot {
        file: "walking-gain",
        title: "How many times longer walking takes, one worker".to_owned(),
        x: Axis::logarithmic("hosts"),
        y: Axis::logarithmic("times"),
        lines: lines.into(),
    }
}

/// The claims a second by the number of workers, on the largest fleet with spread placement.
#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn workers_plot(figures: &[WalkingFigures]) -> Plot {
    let hosts = figures.iter().map(|one| one.hosts).max().unwrap_or(0);
    let lines = METHODS.map(|method| {
        let same = figures.iter().filter(|one| {
            (one.hosts, one.strategy, one.method) == (hosts, Strategy::Spread, method)
        });
        Line {
            name: method.name().to_owned(),
            points: same
                .map(|one| (one.workers as f64, one.claims_per_second))
                .collect(),
        }
    });
    Plot {
        file: "walking-workers",
        title: format!("Claims a second on {} hosts, spread", thousands(hosts)),
        x: Axis::linear("workers"),
        y: Axis::logarithmic("claims a second"),
        lines: lines.into(),
    }
}

fn http_row(share: &HttpShare) -> Vec<String> {
    vec![
        thousands(share.hosts),
        ms(share.call.p50_ms),
        ms(share.http.p50_ms),
        format!("{:.0} %", share.percent()),
    ]
}

/// The targets, which follow from the published claim: the gain grows with the number of hosts.
fn targets(figures: &[WalkingFigures]) -> Vec<TargetedFigure> {
    let Some(few) = figures.iter().map(|one| one.hosts).min() else {
        return Vec::new();
    };
    let setup = |hosts| (hosts, Strategy::Spread, 1);
    let (small, large) = (gain(figures, setup(few)), gain(figures, setup(MANY_HOSTS)));
    match (small, large) {
        (Some(small), Some(large)) if few < MANY_HOSTS => vec![
            at_least(
                "the index on 10,000 hosts, times faster than walking",
                large,
                1.0,
            ),
            at_least(
                "… and over the gain on the fewest hosts",
                large / small,
                1.0,
            ),
        ],
        _ => Vec::new(),
    }
}
