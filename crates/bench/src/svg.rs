//! The parts of plots and charts (SVG): the document, axes with ticks, lines, and numbers as texts.

use std::fmt::Write as _;

/// Colours that colour-blind people can distinguish.
pub(crate) const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];
const GRID_COLOUR: &str = "#e0e0e0";

/// The area of a document in which lines are drawn, with the axes at its left and at its bottom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

/// A document that is being written.
#[derive(Debug)]
pub(crate) struct Drawing {
    text: String,
    font_size: f64,
}

impl Area {
    /// The horizontal position of a value, whose share of the axis is from 0 to 1.
    pub(crate) fn x(&self, share: f64) -> f64 {
        self.left + share * (self.right - self.left)
    }

    /// The vertical position of a value, whose share of the axis is from 0 to 1.
    pub(crate) fn y(&self, share: f64) -> f64 {
        self.bottom - share * (self.bottom - self.top)
    }
}

// Writing to a string cannot fail.
impl Drawing {
    /// A document of a size, with a title that begins at `left`.
    pub(crate) fn new((width, height): (f64, f64), font_size: f64, left: f64, title: &str) -> Self {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"{font_size}\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
             <text x=\"{left}\" y=\"26\" font-size=\"{}\" font-weight=\"bold\">{}</text>",
            font_size + 3.0,
            escape(title)
        );
        Self { text, font_size }
    }

    /// Draws the horizontal axis: a line of the grid and a number for each tick, given as the value and its share of
    /// the axis.
    pub(crate) fn x_axis(&mut self, area: &Area, ticks: impl Iterator<Item = (f64, f64)>) {
        let Area { top, bottom, .. } = *area;
        for (value, share) in ticks {
            let _ = writeln!(
                self.text,
                "<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"{GRID_COLOUR}\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + self.font_size + 5.0,
                number(value),
                x = area.x(share)
            );
        }
    }

    /// Draws the vertical axis in the same way.
    pub(crate) fn y_axis(&mut self, area: &Area, ticks: impl Iterator<Item = (f64, f64)>) {
        let Area { left, right, .. } = *area;
        for (value, share) in ticks {
            let y = area.y(share);
            let _ = writeln!(
                self.text,
                "<path d=\"M{left} {y:.1}H{right}\" stroke=\"{GRID_COLOUR}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                y + 4.0,
                number(value)
            );
        }
    }

    /// Writes the name of the horizontal axis, centred below it, at this height.
    pub(crate) fn x_name(&mut self, area: &Area, y: f64, name: &str) {
        let _ = writeln!(
            self.text,
            "<text x=\"{}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
            area.left.midpoint(area.right),
            escape(name)
        );
    }

    /// Writes the name of the vertical axis beside it, from the bottom up.
    pub(crate) fn y_name(&mut self, area: &Area, name: &str) {
        let _ = writeln!(
            self.text,
            "<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            area.top.midpoint(area.bottom),
            escape(name)
        );
    }

    /// Draws a line through points.
    pub(crate) fn line(&mut self, points: &[(f64, f64)], colour: &str) {
        if points.is_empty() {
            return;
        }
        let points = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}"));
        let _ = writeln!(
            self.text,
            "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.collect::<Vec<_>>().join("L")
        );
    }

    /// Draws a mark at each point.
    pub(crate) fn marks(&mut self, points: &[(f64, f64)], colour: &str) {
        for (x, y) in points {
            let _ = writeln!(
                self.text,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
            );
        }
    }

    /// Draws the short piece of a line that stands for it in a legend.
    pub(crate) fn legend_line(&mut self, x: f64, y: f64, colour: &str) {
        let _ = writeln!(
            self.text,
            "<path d=\"M{x} {y:.1}h14\" stroke=\"{colour}\" stroke-width=\"3\"/>"
        );
    }

    /// Writes a text that begins at this point.
    pub(crate) fn text(&mut self, x: f64, y: f64, text: &str) {
        let _ = writeln!(
            self.text,
            "<text x=\"{x}\" y=\"{y:.1}\">{}</text>",
            escape(text)
        );
    }

    /// The document.
    pub(crate) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// A round step between ticks: 1, 2 or 5 times a power of ten. It divides the largest value into at most `parts_max`
/// parts.
pub(crate) fn round_step(largest: f64, parts_max: f64) -> f64 {
    let power = 10_f64.powf((largest / parts_max).log10().floor());
    let mut steps = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter();
    // The factor allows for errors of rounding.
    steps
        .find(|step| largest / step <= parts_max * 1.001)
        .unwrap_or(largest)
}

/// The multiples of a round step from 0 to at most `largest`. They divide an axis into at most `parts_max` parts.
pub(crate) fn ticks(largest: f64, parts_max: f64) -> impl Iterator<Item = f64> {
    let step = round_step(largest, parts_max);
    let ticks = (0..).map(move |part| step * f64::from(part));
    // The factor allows for errors of rounding.
    ticks.take_while(move |tick| *tick <= largest * 1.001)
}

/// A number with one to three significant digits behind the point, and commas between the thousands.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        value if value < 0.001 => 5,
        value if value < 0.01 => 3,
        value if value < 1.0 => 2,
        value if value < 10.0 && value.fract() != 0.0 => 1,
        _ => return thousands(&format!("{value:.0}")),
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Puts commas between the thousands of a whole number's digits.
pub(crate) fn thousands(digits: &str) -> String {
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
    fn steps_are_round() {
        assert_eq!(
            [1.0, 2.0, 8.0, 31.0, 100.0].map(|largest| round_step(largest, 6.0)),
            [0.2, 0.5, 2.0, 10.0, 20.0]
        );
    }

    #[test]
    fn axes_have_round_numbers() {
        let texts = |largest, parts| -> Vec<String> { ticks(largest, parts).map(number).collect() };
        assert_eq!(texts(100.0, 8.0), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(texts(8152.0, 4.0), ["0", "5,000"]);
        assert_eq!(texts(2.3, 8.0), ["0", "0.5", "1", "1.5", "2"]);
    }

    #[test]
    fn numbers_have_the_digits_that_matter() {
        let values = [0.0, 0.00001, 0.001, 0.05, 1.0, 2.5, 40.0, 1_523_000.0];
        let expected = [
            "0",
            "0.00001",
            "0.001",
            "0.05",
            "1",
            "2.5",
            "40",
            "1,523,000",
        ];
        assert_eq!(values.map(number), expected);
    }
}
