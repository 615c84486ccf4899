//! The section about builds that fail.

use super::thousands;
use crate::bench::seeds::builds::{BuildFigures, BuildSizes, Retry};
use crate::bench::seeds::page::Section;
use crate::bench::seeds::plot::{Axis, Plot};
use crate::bench::targets::{TargetedFigure, at_least};

/// Writes the section, and compares the figures with the targets.
pub(in super::super) fn builds(
    figures: &[BuildFigures],
    sizes: &BuildSizes,
) -> (Section, Vec<TargetedFigure>) {
    let mut section = Section::new("Builds that fail");
    section.paragraph(&format!(
        "Of the builds on simulated hosts some fail at random. *In the cell*: the scheduler names alternates, and the cell claims \
         the next one and builds there, without anything above it deciding again. *By the scheduler*: there are no alternates, and \
         each failed server is requested anew, after all of a batch are done, as a caller would. {} servers over the compute \
         API, {} hosts in {} cells, everything in one process with journals in memory. No figures were published; the claim of 2017 \
         was that retries in the cell need no new scheduling.",
        sizes.servers,
        thousands(sizes.hosts),
        sizes.cells
    ));
    let rows: Vec<Vec<String>> = figures.iter().map(row).collect();
    section.table(
        &[
            "builds that fail",
            "retries",
            "tried again",
            "active",
            "servers a second",
            "scheduled requests a server",
        ],
        &rows,
    );
    section.plot(plot(
        "builds-active",
        "Servers that get active, tried again in the cell",
        "%",
        figures,
        |one| one.retry == Retry::InCell,
        active_percent,
    ));
    section.plot(rate_plot(figures));
    (section, targets(figures))
}

#[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn number(count: usize) -> f64 {
    count as f64
}

fn active_percent(one: &BuildFigures) -> f64 {
    number(one.active) / number(one.servers.max(1)) * 100.0
}

fn rate(one: &BuildFigures) -> f64 {
    number(one.active) / one.seconds
}

fn retry_name(one: &BuildFigures) -> &'static str {
    match (one.retries, one.retry) {
        (0, _) => "not",
        (_, Retry::InCell) => "in the cell",
        (_, Retry::ByScheduler) => "by the scheduler",
    }
}

fn row(one: &BuildFigures) -> Vec<String> {
    vec![
        format!("{} %", one.fail_percent),
        one.retries.to_string(),
        retry_name(one).to_owned(),
        format!("{:.2} %", active_percent(one)),
        format!("{:.0}", rate(one)),
        format!("{:.2}", number(one.scheduled) / number(one.servers.max(1))),
    ]
}

fn plot(
    file: &'static str,
    title: &str,
    unit: &str,
    figures: &[BuildFigures],
    is_shown: fn(&BuildFigures) -> bool,
    value: fn(&BuildFigures) -> f64,
) -> Plot {
    let points = figures.iter().filter(|one| is_shown(one)).map(|one| {
        let name = format!("{} retries, {}", one.retries, retry_name(one));
        (name, (f64::from(one.fail_percent), value(one)))
    });
    let axes = (Axis::linear("builds that fail, %"), Axis::linear(unit));
    Plot::of_points(file, title, axes, points)
}

fn rate_plot(figures: &[BuildFigures]) -> Plot {
    let title = "Servers a second from request to ACTIVE";
    plot(
        "builds-rate",
        title,
        "servers a second",
        figures,
        |_| true,
        rate,
    )
}

/// The target, which follows from the published claim: with alternates more servers get active than without.
fn targets(figures: &[BuildFigures]) -> Vec<TargetedFigure> {
    let most_failures = figures.iter().map(|one| one.fail_percent).max();
    let figures_with = |retries: usize| {
        let mut same = figures.iter().filter(|one| {
            Some(one.fail_percent) == most_failures
                && one.retries == retries
                && one.retry == Retry::InCell
        });
        same.next()
    };
    let most_retries = figures.iter().map(|one| one.retries).max().unwrap_or(0);
    match (figures_with(0), figures_with(most_retries)) {
        (Some(without), Some(with)) if most_retries > 0 => vec![at_least(
            "servers active with the most alternates over without, at the most failures",
            active_percent(with) / active_percent(without).max(f64::MIN_POSITIVE),
            1.0,
        )],
        _ => Vec::new(),
    }
}
