//! Small plots (SVG): lines with marks over two axes, each linear or logarithmic.

use crate::svg::{Area, COLOURS, Drawing, round_step, ticks};

/// The width and the height of a plot. All lengths in this file are in pixels.
const SIZE: (f64, f64) = (640.0, 380.0);
const FONT_SIZE: f64 = 11.0;
/// The area of the lines, which leaves room for the legend at its right.
const AREA: Area = Area {
    left: 80.0,
    right: 430.0,
    top: 50.0,
    bottom: 320.0,
};
/// The most parts into which ticks divide a linear axis.
const LINEAR_PARTS_MAX: f64 = 6.0;
/// The maximum number of characters in a line of text of the legend.
const LEGEND_CHARACTERS: usize = 30;
const LEGEND_LINE_HEIGHT: f64 = 14.0;

/// How positions on an axis follow from values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// From zero.
    Linear,
    /// Powers of ten. Values that are not above zero are left out.
    Logarithmic,
}

#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) scale: Scale,
}

/// A line of a plot.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

#[derive(Debug, Clone)]
pub(super) struct Plot {
    /// The name of its file, without the ending.
    pub(super) file: &'static str,
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
}

impl Axis {
    pub(super) fn linear(label: &str) -> Self {
        Self {
            label: label.to_owned(),
            scale: Scale::Linear,
        }
    }

    pub(super) fn logarithmic(label: &str) -> Self {
        Self {
            label: label.to_owned(),
            scale: Scale::Logarithmic,
        }
    }
}

/// The part of an axis that is shown.
struct Range {
    scale: Scale,
    from: f64,
    to: f64,
}

impl Range {
    fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let shown: Vec<f64> = values.filter(|value| is_shown(scale, *value)).collect();
        let largest = shown.iter().copied().fold(f64::MIN, f64::max);
        let smallest = shown.iter().copied().fold(f64::MAX, f64::min);
        let (from, to) = match scale {
            _ if shown.is_empty() => (0.0, 1.0),
            Scale::Linear => {
                let largest = if largest > 0.0 { largest } else { 1.0 };
                let step = round_step(largest, LINEAR_PARTS_MAX);
                (0.0, (largest / step).ceil() * step)
            }
            Scale::Logarithmic => {
                let (from, to) = (smallest.log10().floor(), largest.log10().ceil());
                (from, to.max(from + 1.0))
            }
        };
        Self { scale, from, to }
    }

    /// The position of a value between the ends of the axis, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.log10(),
        };
        (value - self.from) / (self.to - self.from)
    }

    /// The values of the ticks, with their positions on the axis from 0 to 1.
    fn ticks(&self) -> impl Iterator<Item = (f64, f64)> {
        let values: Vec<f64> = match self.scale {
            Scale::Linear => ticks(self.to, LINEAR_PARTS_MAX).collect(),
            Scale::Logarithmic => {
                let mut ticks = Vec::new();
                let mut exponent = self.from;
                while exponent <= self.to {
                    ticks.push(10_f64.powf(exponent));
                    exponent += 1.0;
                }
                ticks
            }
        };
        let share = move |value| (value, self.share(value));
        values.into_iter().map(share)
    }
}

impl Plot {
    /// A plot of points, each with the name of its line. Lines are in the order in which their names come first.
    pub(super) fn of_points(
        file: &'static str,
        title: &str,
        (x, y): (Axis, Axis),
        points: impl IntoIterator<Item = (String, (f64, f64))>,
    ) -> Self {
        let mut lines: Vec<Line> = Vec::new();
        for (name, point) in points {
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(Line {
                    name,
                    points: vec![point],
                }),
            }
        }
        Self {
            file,
            title: title.to_owned(),
            x,
            y,
            lines,
        }
    }

    /// The plot as a document.
    pub(super) fn draw(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| line.points.iter());
        let x_range = Range::of(self.x.scale, points().map(|point| point.0));
        let y_range = Range::of(self.y.scale, points().map(|point| point.1));
        let mut drawing = Drawing::new(SIZE, FONT_SIZE, AREA.left, &self.title);
        drawing.x_axis(&AREA, x_range.ticks());
        drawing.y_axis(&AREA, y_range.ticks());
        let mut legend_y = AREA.top + 8.0;
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let shown = line
                .points
                .iter()
                .filter(|(x, y)| is_shown(x_range.scale, *x) && is_shown(y_range.scale, *y));
            let positions: Vec<(f64, f64)> = shown
                .map(|(x, y)| (AREA.x(x_range.share(*x)), AREA.y(y_range.share(*y))))
                .collect();
            drawing.line(&positions, colour);
            drawing.marks(&positions, colour);
            draw_legend(&mut drawing, &mut legend_y, &line.name, colour);
        }
        drawing.x_name(&AREA, AREA.bottom + 38.0, &self.x.label);
        drawing.y_name(&AREA, &self.y.label);
        drawing.finish()
    }
}

/// Writes the name of a line beside the plot, in as many lines of text as it needs.
fn draw_legend(drawing: &mut Drawing, y: &mut f64, name: &str, colour: &str) {
    let x = AREA.right + 14.0;
    drawing.legend_line(x, *y - 4.0, colour);
    for text in wrap(name) {
        drawing.text(x + 20.0, *y, &text);
        *y += LEGEND_LINE_HEIGHT;
    }
    *y += LEGEND_LINE_HEIGHT / 3.0;
}

fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > LEGEND_CHARACTERS {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// Whether a value has a position on an axis with this scale.
fn is_shown(scale: Scale, value: f64) -> bool {
    value.is_finite() && (scale == Scale::Linear || value > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_lines_ticks_and_names() {
        let plot = Plot {
            file: "gain",
            title: "Gain & cost".into(),
            x: Axis::logarithmic("hosts"),
            y: Axis::linear("times"),
            lines: vec![Line {
                name: "one <worker>".into(),
                points: vec![(0.0, 1.0), (100.0, 5.0), (1000.0, 10.0)],
            }],
        };
        let drawn = plot.draw();
        assert!(drawn.starts_with("<svg ") && drawn.trim_end().ends_with("</svg>"));
        assert!(drawn.contains("Gain &amp; cost") && drawn.contains("one &lt;worker&gt;"));
        // The point at zero cannot be on a logarithmic axis, so it has no mark.
        assert_eq!(drawn.matches("<circle").count(), 2);
        for tick in [">100<", ">1,000<", ">10<"] {
            assert!(drawn.contains(tick), "{tick}");
        }
    }
}
