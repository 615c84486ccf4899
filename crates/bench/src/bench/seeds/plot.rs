//! Small plots (SVG): lines with marks over two axes, each linear or logarithmic.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 430.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 320.0;
/// Colours that colour-blind people can distinguish.
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];
/// The most parts into which ticks divide a linear axis.
const LINEAR_PARTS_MAX: f64 = 6.0;
/// The characters of a line of the legend.
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

/// An axis.
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

/// A plot.
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
                let step = round_step(largest);
                (0.0, (largest / step).ceil() * step)
            }
            Scale::Logarithmic => {
                let (from, to) = (smallest.log10().floor(), largest.log10().ceil());
                (from, to.max(from + 1.0))
            }
        };
        Self { scale, from, to }
    }

    /// The place of a value between the ends, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.log10(),
        };
        (value - self.from) / (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = round_step(self.to);
                let parts = (0..).map(|part| step * f64::from(part));
                // Half a step more, because sums of steps are not exact.
                parts
                    .take_while(|tick| *tick < self.to + step / 2.0)
                    .collect()
            }
            Scale::Logarithmic => {
                let mut ticks = Vec::new();
                let mut exponent = self.from;
                while exponent <= self.to {
                    ticks.push(10_f64.powf(exponent));
                    exponent += 1.0;
                }
                ticks
            }
        }
    }
}

/// A step between ticks that people can add up: 1, 2 or 5 times a power of ten.
fn round_step(largest: f64) -> f64 {
    let power = 10_f64.powf((largest / LINEAR_PARTS_MAX).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let mut steps = steps.into_iter();
    steps
        .find(|step| largest / step <= LINEAR_PARTS_MAX)
        .unwrap_or(largest)
}

impl Plot {
    /// The plot as a document.
    pub(super) fn draw(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| line.points.iter());
        let x_range = Range::of(self.x.scale, points().map(|point| point.0));
        let y_range = Range::of(self.y.scale, points().map(|point| point.1));
        let x_of = |value: f64| LEFT + x_range.share(value) * (RIGHT - LEFT);
        let y_of = |value: f64| BOTTOM - y_range.share(value) * (BOTTOM - TOP);
        let mut output = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            output,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
             <text x=\"{LEFT}\" y=\"26\" font-size=\"14\" font-weight=\"bold\">{}</text>",
            escape(&self.title)
        );
        for tick in x_range.ticks() {
            let (x, text) = (x_of(tick), number(tick));
            let _ = writeln!(
                output,
                "<path d=\"M{x:.1} {TOP}V{BOTTOM}\" stroke=\"#e0e0e0\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
                BOTTOM + 16.0
            );
        }
        for tick in y_range.ticks() {
            let (y, text) = (y_of(tick), number(tick));
            let _ = writeln!(
                output,
                "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#e0e0e0\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
        let mut legend_y = TOP + 8.0;
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let shown = line
                .points
                .iter()
                .filter(|(x, y)| is_shown(x_range.scale, *x) && is_shown(y_range.scale, *y));
            let places: Vec<String> = shown
                .map(|(x, y)| format!("{:.1} {:.1}", x_of(*x), y_of(*y)))
                .collect();
            draw_line(&mut output, &places, colour);
            draw_legend(&mut output, &mut legend_y, &line.name, colour);
        }
        let _ = writeln!(
            output,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n</svg>",
            LEFT.midpoint(RIGHT),
            BOTTOM + 38.0,
            escape(&self.x.label),
            TOP.midpoint(BOTTOM),
            escape(&self.y.label)
        );
        output
    }
}

fn draw_line(output: &mut String, places: &[String], colour: &str) {
    if places.is_empty() {
        return;
    }
    let _ = writeln!(
        output,
        "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
        places.join("L")
    );
    for place in places {
        if let Some((x, y)) = place.split_once(' ') {
            let _ = writeln!(
                output,
                "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>"
            );
        }
    }
}

/// Writes the name of a line beside the plot, in as many lines of text as it needs.
fn draw_legend(output: &mut String, y: &mut f64, name: &str, colour: &str) {
    let x = RIGHT + 14.0;
    let _ = writeln!(
        output,
        "<path d=\"M{x} {:.1}h14\" stroke=\"{colour}\" stroke-width=\"3\"/>",
        *y - 4.0
    );
    for text in wrap(name) {
        let _ = writeln!(
            output,
            "<text x=\"{}\" y=\"{:.1}\">{}</text>",
            x + 20.0,
            *y,
            escape(&text)
        );
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

fn is_shown(scale: Scale, value: f64) -> bool {
    value.is_finite() && (scale == Scale::Linear || value > 0.0)
}

/// A number with as many digits as an axis needs.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        value if value < 0.001 => 5,
        value if value < 0.01 => 3,
        value if value < 1.0 => 2,
        value if value < 10.0 && value.fract() != 0.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
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
        // The point at zero has no place on a logarithmic axis.
        assert_eq!(drawn.matches("<circle").count(), 2);
        for tick in [">100<", ">1000<", ">10<"] {
            assert!(drawn.contains(tick), "{tick}");
        }
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(
            [1.0, 2.0, 8.0, 31.0, 100.0].map(round_step),
            [0.2, 0.5, 2.0, 10.0, 20.0]
        );
    }

    #[test]
    fn numbers_have_the_digits_that_matter() {
        let texts = [0.0, 0.00001, 0.001, 0.05, 1.0, 2.5, 40.0, 100_000.0].map(number);
        let expected = ["0", "0.00001", "0.001", "0.05", "1", "2.5", "40", "100000"];
        assert_eq!(texts, expected);
    }
}
