//! Tables, numbers and names as they are shown.

use std::borrow::Cow;

use super::line::{Line, Style, width};

/// The most characters of a name in a table; the end of a longer name is left out.
const NAME_WIDTH_MAX: usize = 32;

/// A field of a table.
pub(super) struct Field {
    style: Style,
    text: String,
    is_right_aligned: bool,
}

impl Field {
    pub(super) fn left(style: Style, text: impl Into<String>) -> Self {
        Self {
            style,
            text: text.into(),
            is_right_aligned: false,
        }
    }

    pub(super) fn right(style: Style, text: impl Into<String>) -> Self {
        Self {
            style,
            text: text.into(),
            is_right_aligned: true,
        }
    }
}

/// A field of the head of a table.
pub(super) fn head(name: &str) -> Field {
    Field::left(Style::Head, name)
}

/// A table whose columns are as wide as their longest field.
#[derive(Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Vec<Field>>,
}

impl Table {
    pub(super) fn lines(&self) -> Vec<Line> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of = |column: usize| {
            let fields = self.rows.iter().filter_map(|row| row.get(column));
            fields.map(|field| width(&field.text)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width_of).collect();
        let lines = self.rows.iter().map(|row| {
            let mut line = Line::default();
            for (field, wide) in row.iter().zip(&widths) {
                let pad = " ".repeat(wide.saturating_sub(width(&field.text)));
                let text = match field.is_right_aligned {
                    true => format!("{pad}{}  ", field.text),
                    false => format!("{}{pad}  ", field.text),
                };
                line.add(field.style, text);
            }
            line
        });
        lines.collect()
    }
}

/// A name as [`shortened`], and a dash where there is none.
pub(super) fn or_dash(name: &str) -> Cow<'_, str> {
    match name {
        "" => "-".into(),
        name => shortened(name),
    }
}

/// A name that is not too long for a column.
pub(super) fn shortened(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(NAME_WIDTH_MAX) {
        None => name.into(),
        Some(_) => {
            let beginning: String = name.chars().take(NAME_WIDTH_MAX - 1).collect();
            (beginning + "…").into()
        }
    }
}

/// A whole number with commas between thousands.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate with one decimal.
pub(super) fn decimal(rate: f64) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is not negative"
    )]
    let tenths = (rate * 10.0).round() as u64;
    format!("{}.{}", number(tenths / 10), tenths % 10)
}

/// A share in per cent, four letters wide.
pub(super) fn per_cent(share: Option<f64>) -> String {
    share.map_or_else(
        || "   -".to_owned(),
        |share| format!("{:>3.0}%", share * 100.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        let numbers = [0, 999, 1000, 1_234_567].map(number);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(decimal(1234.56), "1,234.6");
        assert_eq!(per_cent(Some(0.456)), " 46%");
        assert_eq!(shortened(&"x".repeat(40)).chars().count(), NAME_WIDTH_MAX);
    }
}
