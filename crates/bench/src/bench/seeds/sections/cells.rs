//! The section about cells, some of which are down.

use super::{ms, thousands};
use crate::bench::seeds::cells::{CellFigures, CellSizes};
use crate::bench::seeds::page::Section;
use crate::bench::seeds::plot::{Axis, Plot};
use crate::bench::targets::{TargetedFigure, at_most};

/// Target: no page takes longer than this, in milliseconds.
const PAGE_MS: f64 = 1_000.0;

/// Writes the section, and compares the figures with the targets.
pub(in super::super) fn cells(
    figures: &[CellFigures],
    sizes: &CellSizes,
) -> (Section, Vec<TargetedFigure>) {
    let mut section = Section::new("Cells, and cells that are down");
    section.paragraph(&format!(
        "{} hosts in 1 to 30 cells, with {} servers at first. A cell is down when control does not reach it any more. \
         Each measurement lists the servers with their details through the compute API, in pages of 100, one page \
         after the other. Then it creates {} more servers with one request each, and waits until all are ACTIVE. \
         Everything is in one process, with journals in memory. In Nova a list of servers asks the databases of all \
         cells, and waits up to 60 s for a cell that is down.",
        thousands(sizes.hosts),
        sizes.servers,
        sizes.boots
    ));
    let row = |one: &CellFigures| {
        vec![
            one.cells.to_string(),
            one.down.to_string(),
            format!(
                "{} ({}, {})",
                ms(one.page.p50_ms),
                ms(one.page.p99_ms),
                ms(one.page.max_ms)
            ),
            format!("{} of {}", one.unknown, one.listed),
            format!("{:.0}", one.boots_per_second),
        ]
    };
    section.table(
        &[
            "cells",
            "of them down",
            "a page, ms: median (p99, longest)",
            "listed as UNKNOWN",
            "servers a second",
        ],
        &figures.iter().map(row).collect::<Vec<_>>(),
    );
    section.plot(plot(
        "cells-page",
        "A page of 100 servers, median",
        "ms",
        figures,
        |one| one.page.p50_ms,
    ));
    section.plot(plot(
        "cells-rate",
        "Servers a second from request to ACTIVE",
        "servers a second",
        figures,
        |one| one.boots_per_second,
    ));
    let longest_ms = figures
        .iter()
        .map(|one| one.page.max_ms)
        .fold(0.0, f64::max);
    let target = at_most("a page with cells down, longest in ms", longest_ms, PAGE_MS);
    (section, vec![target])
}

fn plot(
    file: &'static str,
    title: &str,
    unit: &str,
    figures: &[CellFigures],
    value: fn(&CellFigures) -> f64,
) -> Plot {
    let points = figures.iter().map(|one| {
        let name = match one.down {
            0 => "all cells up".to_owned(),
            down => format!("{down} down"),
        };
        (name, (f64::from(one.cells), value(one)))
    });
    let axes = (Axis::linear("cells"), Axis::linear(unit));
    Plot::of_points(file, title, axes, points)
}
