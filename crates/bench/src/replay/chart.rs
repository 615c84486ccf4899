//! A chart (SVG) of usage over time: how much of each resource is allocated, and how the tasks
//! ended.

use std::fmt::Write as _;

use super::task_progress::Counts;
use super::usage::{Amounts, Sample, percent};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 620.0;
/// The left and right ends of both panels.
const LEFT: f64 = 70.0;
const RIGHT: f64 = WIDTH - 30.0;
/// The top and bottom of the panel with the usage.
const USAGE_PANEL_Y: (f64, f64) = (90.0, 370.0);
/// The top and bottom of the panel with the tasks.
const TASKS_PANEL_Y: (f64, f64) = (430.0, 570.0);
/// Colours that colour-blind people can distinguish.
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];
/// The maximum number of points of a line; more would not look smoother.
const POINTS_MAX: usize = 600;
/// The maximum number of parts into which ticks divide an axis.
const AXIS_PARTS_MAX: f64 = 8.0;
/// The maximum number of parts of the vertical axis of a low panel.
const LOW_AXIS_PARTS_MAX: f64 = 4.0;
/// A panel that is not higher than this is low.
const LOW_PANEL_HEIGHT: f64 = 200.0;

/// A line of a panel.
struct Line {
    name: String,
    colour: &'static str,
    /// The points, as a time in seconds and a value.
    points: Vec<(f64, f64)>,
}

/// A panel with the ranges of its axes.
struct Panel {
    top: f64,
    bottom: f64,
    x_max: f64,
    y_max: f64,
}

impl Panel {
    fn x_position(&self, value: f64) -> f64 {
        LEFT + value / self.x_max * (RIGHT - LEFT)
    }

    fn y_position(&self, value: f64) -> f64 {
        self.bottom - value / self.y_max * (self.bottom - self.top)
    }
}

/// Draws the samples of a run with this title.
pub(crate) fn draw(title: &str, tasks: usize, totals: &Amounts, samples: &[Sample]) -> String {
    let samples = thin_out(samples);
    let x_max = samples.last().map_or(1.0, |sample| sample.at_s.max(0.001));
    let mut output = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        output,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"30\" font-size=\"17\" font-weight=\"bold\">{}</text>",
        escape(title)
    );
    let (top, bottom) = USAGE_PANEL_Y;
    let y_max = 100.0;
    let usage_panel = Panel {
        top,
        bottom,
        x_max,
        y_max,
    };
    draw_panel(
        &mut output,
        &usage_panel,
        "allocated, %",
        &share_lines(totals, &samples),
    );
    let (top, bottom) = TASKS_PANEL_Y;
    #[expect(clippy::cast_precision_loss, reason = "a chart needs no 53 bits")]
    let y_max = (tasks as f64).max(1.0);
    let tasks_panel = Panel {
        top,
        bottom,
        x_max,
        y_max,
    };
    draw_panel(&mut output, &tasks_panel, "tasks", &task_lines(&samples));
    let _ = writeln!(
        output,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">seconds since the start</text>\n</svg>",
        (LEFT + RIGHT) / 2.0,
        HEIGHT - 12.0
    );
    output
}

/// Selects about [`POINTS_MAX`] samples at most, always including the last one.
fn thin_out(samples: &[Sample]) -> Vec<&Sample> {
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
                #[expect(clippy::cast_precision_loss, reason = "a chart needs no 53 bits")]
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

fn draw_panel(output: &mut String, panel: &Panel, axis_title: &str, lines: &[Line]) {
    let Panel {
        top,
        bottom,
        x_max,
        y_max,
    } = *panel;
    let middle = (top + bottom) / 2.0;
    let _ = writeln!(
        output,
        "<text x=\"18\" y=\"{middle}\" text-anchor=\"middle\" \
         transform=\"rotate(-90 18 {middle})\">{axis_title}</text>"
    );
    let y_parts_max = if bottom - top > LOW_PANEL_HEIGHT {
        AXIS_PARTS_MAX
    } else {
        LOW_AXIS_PARTS_MAX
    };
    for value in ticks(y_max, y_parts_max) {
        let y_position = panel.y_position(value);
        let _ = writeln!(
            output,
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y_position:.1}\" y2=\"{y_position:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y_position + 4.5,
            format_number(value)
        );
    }
    for value in ticks(x_max, AXIS_PARTS_MAX) {
        let x_position = panel.x_position(value);
        let _ = writeln!(
            output,
            "<line x1=\"{x_position:.1}\" x2=\"{x_position:.1}\" y1=\"{bottom}\" y2=\"{}\" stroke=\"#333333\"/>\
             <text x=\"{x_position:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 5.0,
            bottom + 19.0,
            format_number(value)
        );
    }
    let _ = writeln!(
        output,
        "<path d=\"M{LEFT} {top}V{bottom}H{RIGHT}\" fill=\"none\" stroke=\"#333333\"/>"
    );
    // The lines, and the legend above them.
    let mut x_position = LEFT;
    for line in lines {
        draw_line(output, panel, line);
        let y_position = top - 16.0;
        let _ = writeln!(
            output,
            "<rect x=\"{x_position}\" y=\"{}\" width=\"18\" height=\"4\" fill=\"{}\"/>\
             <text x=\"{}\" y=\"{y_position}\">{}</text>",
            y_position - 6.0,
            line.colour,
            x_position + 24.0,
            escape(&line.name)
        );
        #[expect(clippy::cast_precision_loss, reason = "names are short")]
        let width = line.name.chars().count() as f64 * 9.0;
        x_position += 48.0 + width;
    }
}

fn draw_line(output: &mut String, panel: &Panel, line: &Line) {
    let points: Vec<String> = line
        .points
        .iter()
        .map(|(seconds, value)| {
            format!(
                "{:.1},{:.1}",
                panel.x_position(*seconds),
                panel.y_position(*value)
            )
        })
        .collect();
    let _ = writeln!(
        output,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>",
        points.join(" "),
        line.colour
    );
}

/// Round values from 0 up to a maximum, which divide it into at most `parts_max` parts. The factors 0.999 and 1.001
/// allow for errors of rounding.
fn ticks(maximum: f64, parts_max: f64) -> Vec<f64> {
    let rough_step = maximum / parts_max;
    let power = 10_f64.powf(rough_step.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough_step * 0.999)
        .unwrap_or(rough_step);
    let mut values = Vec::new();
    let mut value = 0.0;
    while value <= maximum * 1.001 {
        values.push(value);
        value += step;
    }
    values
}

/// Formats a number with separated thousands, and only the digits that a tick needs.
fn format_number(value: f64) -> String {
    if value < 10.0 && value.fract() > 1e-6 {
        let text = format!("{value:.3}");
        return text.trim_end_matches('0').to_owned();
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        let texts = |maximum, parts| -> Vec<String> {
            ticks(maximum, parts)
                .into_iter()
                .map(format_number)
                .collect()
        };
        assert_eq!(texts(100.0, 8.0), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(texts(8152.0, 4.0), ["0", "5,000"]);
        assert_eq!(texts(2.3, 8.0), ["0", "0.5", "1", "1.5", "2"]);
        assert_eq!(format_number(1_523_000.0), "1,523,000");
    }

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
        assert_eq!(chart.matches("<polyline").count(), 5);
        assert!(chart.contains(">CUSTOM_GPU_MILLI<"));
        let right = format!("{RIGHT:.1},");
        assert_eq!(chart.matches(&right).count(), 5, "the last sample is there");
    }
}
