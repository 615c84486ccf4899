//! Lines of styled text, printed with or without the control sequences of a terminal.

use std::fmt::Write as _;

/// How a part of a line looks on a terminal. Nothing is told by colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Strong,
    Faint,
    Good,
    Warning,
    Bad,
    /// The head of a table.
    Head,
}

impl Style {
    /// The parameters of the control sequence that begins the style.
    fn parameters(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Good => "32",
            Self::Warning => "33",
            Self::Bad => "1;31",
            Self::Head => "7",
        }
    }
}

/// A line of styled text, without characters that a terminal takes for commands.
#[derive(Debug, Default)]
pub(super) struct Line(Vec<(Style, String)>);

impl Line {
    /// Appends a text; control characters in it are replaced.
    pub(super) fn add(&mut self, style: Style, text: impl AsRef<str>) -> &mut Self {
        self.0.push((style, printable(text.as_ref())));
        self
    }

    /// A line of one text.
    pub(super) fn of(style: Style, text: impl AsRef<str>) -> Self {
        let mut line = Self::default();
        line.add(style, text);
        line
    }

    /// The text without styles.
    pub(super) fn plain(&self) -> String {
        let text: String = self.0.iter().map(|(_, text)| text.as_str()).collect();
        text.trim_end().to_owned()
    }

    /// Appends the line with the control sequences of its styles, cut off after `width` columns.
    pub(super) fn write_to(&self, out: &mut String, width: usize) {
        let mut rest = width;
        for (style, text) in &self.0 {
            let _ = write!(out, "\x1b[0;{}m", style.parameters());
            for letter in text.chars() {
                let columns = columns(letter);
                if columns > rest {
                    rest = 0;
                    break;
                }
                rest -= columns;
                out.push(letter);
            }
        }
        out.push_str("\x1b[0m");
    }
}

/// The text with `?` in place of each letter that could control the terminal. Others chose the names of hosts and
/// servers, which may have such letters.
pub(crate) fn printable(text: &str) -> String {
    let letters = text.chars();
    letters
        .map(|letter| if is_control(letter) { '?' } else { letter })
        .collect()
}

/// Whether a letter could have another effect than being shown: control characters, and letters that are invisible or
/// change the direction of the text.
fn is_control(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// How many columns a text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// How many columns a letter takes: two if it is of the scripts of East Asia or an emoji, none if it combines with the
/// one before.
fn columns(letter: char) -> usize {
    match letter {
        '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_to_the_width_and_control_characters_are_replaced() {
        let mut line = Line::of(Style::Strong, "a\x1b[2Jb");
        line.add(Style::Plain, "日本語 ");
        assert_eq!(line.plain(), "a?[2Jb日本語");
        let mut out = String::new();
        line.write_to(&mut out, 9);
        assert_eq!(out, "\x1b[0;1ma?[2Jb\x1b[0;0m日\x1b[0m");
        assert_eq!(width("日本e\u{301}"), 5);
    }
}
