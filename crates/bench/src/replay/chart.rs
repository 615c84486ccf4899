//! A chart (SVG) of usage over time: how much of each resource is allocated, and how the tasks
//! ended.

use super::task_progress::Counts;
use super::usage::{Amounts, Sample, percent};
use crate::svg::{Area, COLOURS, Drawing, ticks};

/// The width and the height of the chart. All lengths in this file are in pixels.
const SIZE: (f64, f64) = (960.0, 620.0);
const FONT_SIZE: f64 = 13.0;
/// The panel with the usage.
const USAGE_PANEL: Area = Area {
    left: 70.0,
    right: 930.0,
    top: 90.0,
    bottom: 370.0,
};
/// The panel with the tasks, below it.
const TASKS_PANEL: Area = Area {
    top: 430.0,
    bottom: 570.0,
    ..USAGE_PANEL
};
/// The maximum number of points of a line; more would not look smoother.
const POINTS_MAX: usize = 600;
/// The maximum number of parts into which ticks divide an axis.
const AXIS_PARTS_MAX: f64 = 8.0;
/// The maximum number of parts of the vertical axis of a low panel.
const LOW_AXIS_PARTS_MAX: f64 = 4.0;
/// A panel that is not higher than this is low.
const LOW_PANEL_HEIGHT: f64 = 200.0;
/// The approximate width of a character of the legend.
const CHARACTER_WIDTH: f64 = 9.0;
/// The width in the legend of the short line before a name, with all spaces around the line and the name.
const LEGEND_LINE_WIDTH: f64 = 48.0;

/// A line of a panel.
struct Line {
    name: String,
    colour: &'static str,
    /// The points, as a time in seconds and a value.
    points: Vec<(f64, f64)>,
}

/// A panel with the ranges of its axes.
struct Panel {
    area: Area,
    x_max: f64,
    y_max: f64,
}

/// Draws the samples of a run with this title.
pub(crate) fn draw(title: &str, tasks: usize, totals: &Amounts, samples: &[Sample]) -> String {
    let samples = thin_out(samples);
    let x_max = samples.last().map_or(1.0, |sample| sample.at_s.max(0.001));
    let mut drawing = Drawing::new(SIZE, FONT_SIZE, USAGE_PANEL.left, title);
    let usage_panel = Panel {
        area: USAGE_PANEL,
        x_max,
        y_max: 100.0,
    };
    let usage_lines = share_lines(totals, &samples);
    draw_panel(&mut drawing, &usage_panel, "allocated, %", &usage_lines);
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    let y_max = (tasks as f64).max(1.0);
    let tasks_panel = Panel {
        area: TASKS_PANEL,
        x_max,
        y_max,
    };
    draw_panel(&mut drawing, &tasks_panel, "tasks", &task_lines(&samples));
    drawing.x_name(&TASKS_PANEL, SIZE.1 - 12.0, "seconds since the start");
    drawing.finish()
}

/// Selects at most one sample more than [`POINTS_MAX`], always including the last one.
pub(crate) fn thin_out(samples: &[Sample]) -> Vec<&Sample> {
    let step = samples.len().div_ceil(POINTS_MAX).max(1);
    let mut selected: Vec<_> = samples.iter().step_by(step).collect();
    if !samples.is_empty() && !(samples.len() - 1).is_multiple_of(step) {
        selected.extend(samples.last());
    }
    selected
}

fn share_lines(totals: &Amounts, samples: &[&Sample]) -> Vec<Line> {
    let lines = totals.iter().zip(COLOURS.iter().cycle());
    lines
        .map(|((class, total), colour)| {
            let share = |sample: &&Sample| {
                let used = sample.used.get(class).copied().unwrap_or(0);
                (sample.at_s, percent(used, *total).min(100.0))
            };
            Line {
                name: class.clone(),
                colour,
                points: samples.iter().map(share).collect(),
            }
        })
        .collect()
}

fn task_lines(samples: &[&Sample]) -> Vec<Line> {
    let line = |name: &str, colour, count: fn(&Counts) -> u64| Line {
        name: name.to_owned(),
        colour,
        points: samples
            .iter()
            .map(|sample| {
                #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
                let count = count(&sample.counts) as f64;
                (sample.at_s, count)
            })
            .collect(),
    };
    vec![
        line("placed", COLOURS[2], |counts| counts.active),
        line("refused", COLOURS[1], |counts| counts.refused),
        line("being built", COLOURS[4], |counts| counts.building),
        line("deleted", COLOURS[3], |counts| counts.deleted),
    ]
}

fn draw_panel(drawing: &mut Drawing, panel: &Panel, axis_name: &str, lines: &[Line]) {
    let Panel { area, x_max, y_max } = *panel;
    let y_parts_max = if area.bottom - area.top > LOW_PANEL_HEIGHT {
        AXIS_PARTS_MAX
    } else {
        LOW_AXIS_PARTS_MAX
    };
    let share_of = |largest: f64| move |value: f64| (value, value / largest);
    drawing.y_name(&area, axis_name);
    drawing.y_axis(&area, ticks(y_max, y_parts_max).map(share_of(y_max)));
    drawing.x_axis(&area, ticks(x_max, AXIS_PARTS_MAX).map(share_of(x_max)));
    // The lines, and the legend above them.
    let (mut x, y) = (area.left, area.top - 16.0);
    for line in lines {
        let points = line.points.iter();
        let points = points.map(|(time, value)| (area.x(time / x_max), area.y(value / y_max)));
        drawing.line(&points.collect::<Vec<_>>(), line.colour);
        drawing.legend_line(x, y - 4.0, line.colour);
        drawing.text(x + 20.0, y, &line.name);
        #[expect(clippy::cast_precision_loss, reason = "names are short")]
        let characters = line.name.chars().count() as f64;
        x += LEGEND_LINE_WIDTH + characters * CHARACTER_WIDTH;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_a_line_for_each_resource_up_to_the_last_sample() {
        let sample = |at_s, used| Sample {
            at_s,
            counts: Counts::default(),
            used: [("CUSTOM_GPU_MILLI".to_owned(), used)].into(),
        };
        let totals = [("CUSTOM_GPU_MILLI".to_owned(), 1000)].into();
        let samples: Vec<_> = (0..=1400)
            .map(|second| sample(f64::from(second), 500))
            .collect();
        let chart = draw("a < b", 400, &totals, &samples);
        assert!(chart.contains("a &lt; b"));
        // One line for the resource, and four for the tasks.
        assert_eq!(chart.matches("stroke-width=\"2\"").count(), 5);
        assert!(chart.contains(">CUSTOM_GPU_MILLI<"));
        let right = format!("L{:.1} ", USAGE_PANEL.right);
        assert_eq!(chart.matches(&right).count(), 5, "the last sample is there");
    }
}
