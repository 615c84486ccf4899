//! The section about Nova's own scheduler.

use super::{ms, thousands};
use crate::bench::seeds::fleet::Filling;
use crate::bench::seeds::nova::{NovaFigures, NovaReport, OurFigures};
use crate::bench::seeds::page::Section;
use crate::bench::seeds::plot::{Axis, Line, Plot};
use crate::bench::targets::{TargetedFigure, at_least};

/// Writes the section, and compares the figures with the targets. `ours` has one for each of Nova's figures.
pub(in super::super) fn nova(
    report: &NovaReport,
    ours: &[OurFigures],
) -> (Section, Vec<TargetedFigure>) {
    let mut section = Section::new("Nova's own scheduler");
    section.paragraph(&format!(
        "The scheduler of Nova {} as it is on PyPI, with Python {}, measured on {} ({}): `tests/peers/nova/scheduler.py` makes its \
         `SchedulerManager` as Nova's command does, and calls `select_destinations`. What runs is Nova's own: the request filters, \
         placement's client, the reading of hosts with its database code and objects, the filters and weighers that are on \
         by default, the claim, the alternates. Its databases have Nova's schema, in SQLite files \
         that stay open. Hosts have two NUMA cells and two pools \
         of devices, as libvirt reports them, and have told the scheduler their instances, so it reads none.",
        report.nova, report.python, report.date, report.machine
    ));
    section.paragraph(
        "Two things are stand-ins, and the time in them is not counted: the HTTP connection to placement, which answers with all hosts \
         that have room and takes the claims, and the message queue. So Nova gets from elsewhere, and for nothing, what Placewright's \
         decision finds itself: the hosts with room; and its claim is made in no time, while Placewright's is synced to the disk \
         (SQLite). Nothing is logged, no network delays anything, and no host's row changes meanwhile. 31 requests come one after the \
         other, on both sides by one scheduler that does nothing else. Nova asks placement for 1,000 candidates at most; the \
         rows with more are measured with that option raised.",
    );
    section.paragraph(
        "Three empty hosts and the larger fleets that are nearly full are those of the sections above. *Rows* are the rows of services and \
         hosts, read as objects; of these Nova makes *states* of hosts for each decision anew. *Filtered and weighed* is its \
         `_get_sorted_hosts`, which is what Placewright's *decision* is compared with; the filters' part includes copies of placement's \
         answers, which are made meanwhile. The *whole* is from the request to the answer. In medians:",
    );
    let pairs = || report.figures.iter().zip(ours);
    section.table(
        &[
            "hosts",
            "fleet",
            "candidates",
            "Nova: rows, ms",
            "states, ms",
            "filtered and weighed, ms (filters, weighers)",
            "whole, ms",
            "Placewright: decision, ms (mean)",
            "whole, with the durable claim, ms",
            "filtered and weighed over decision",
            "whole over whole",
        ],
        &pairs()
            .map(|(nova, ours)| row(nova, ours))
            .collect::<Vec<_>>(),
    );
    section.paragraph(&format!(
        "Nova's figures are of {} decisions each. The rest of its whole are the request filters, one of which reads the database, the \
         query to placement and the reading of its answer ({} ms with the most candidates), the claim ({} ms) and the counting on the \
         chosen host ({} ms), and notifications that go nowhere.",
        numbers_of_decisions(&report.figures),
        ms(largest(&report.figures, |figures| figures.p50_ms.candidates)),
        ms(largest(&report.figures, |figures| figures.p50_ms.claim)),
        ms(largest(&report.figures, |figures| figures.p50_ms.consume)),
    ));
    section.plot(plot(report, ours));
    let least = pairs().map(|(nova, ours)| gain(nova, ours));
    let targets = match least.reduce(f64::min) {
        Some(least) => vec![at_least(
            "Nova's filters and weighers over a decision, least",
            least,
            1.0,
        )],
        None => Vec::new(),
    };
    (section, targets)
}

/// How many times longer Nova filters and weighs than a decision takes.
fn gain(nova: &NovaFigures, ours: &OurFigures) -> f64 {
    nova.p50_ms.sorted_hosts / ours.decision.p50_ms.max(f64::MIN_POSITIVE)
}

fn row(nova: &NovaFigures, ours: &OurFigures) -> Vec<String> {
    let times = &nova.p50_ms;
    let whole = times.whole / ours.whole.p50_ms.max(f64::MIN_POSITIVE);
    vec![
        thousands(nova.hosts),
        match nova.fleet {
            Filling::NearlyFull => "nearly full".to_owned(),
            Filling::Empty => "empty".to_owned(),
        },
        thousands(nova.candidates),
        ms(times.rows),
        ms(times.host_states),
        format!(
            "{} ({}, {})",
            ms(times.sorted_hosts),
            ms(times.filters),
            ms(times.weighers)
        ),
        ms(times.whole),
        format!(
            "{} ({})",
            ms(ours.decision.p50_ms),
            ms(ours.decision.mean_ms)
        ),
        ms(ours.whole.p50_ms),
        format!("{:.0}", gain(nova, ours)),
        format!("{whole:.0}"),
    ]
}

/// The least and the largest number of decisions.
fn numbers_of_decisions(figures: &[NovaFigures]) -> String {
    let decisions = || figures.iter().map(|one| one.decisions);
    let (least, most) = (decisions().min(), decisions().max());
    match (least.unwrap_or_default(), most.unwrap_or_default()) {
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}

fn largest(figures: &[NovaFigures], time: fn(&NovaFigures) -> f64) -> f64 {
    figures.iter().map(time).fold(0.0, f64::max)
}

/// The times by the number of hosts, of the fleets that are empty, with the most candidates.
fn plot(report: &NovaReport, ours: &[OurFigures]) -> Plot {
    let is_shown = |one: &NovaFigures| {
        let more = |other: &&NovaFigures| {
            (other.hosts, other.fleet) == (one.hosts, one.fleet)
                && other.candidates_limit > one.candidates_limit
        };
        one.fleet == Filling::Empty && !report.figures.iter().any(|other| more(&other))
    };
    let shown = || {
        let all = report.figures.iter().zip(ours);
        all.filter(|(nova, _)| is_shown(nova))
    };
    let line = |name: &str, value: fn(&NovaFigures, &OurFigures) -> f64| Line {
        name: name.to_owned(),
        points: shown()
            .map(|(nova, ours)| (f64::from(nova.hosts), value(nova, ours)))
            .collect(),
    };
    Plot {
        file: "nova",
        title: "One request on an empty fleet, median".to_owned(),
        x: Axis::logarithmic("hosts"),
        y: Axis::logarithmic("ms"),
        lines: vec![
            line("Nova: whole", |nova, _| nova.p50_ms.whole),
            line("Nova: filtered and weighed", |nova, _| {
                nova.p50_ms.sorted_hosts
            }),
            line("Placewright: whole", |_, ours| ours.whole.p50_ms),
            line("Placewright: decision", |_, ours| ours.decision.p50_ms),
        ],
    }
}
