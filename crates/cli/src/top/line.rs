//! Lines of styled text, printed with or without the control sequences of a terminal.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;

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
        let mut free_columns = width;
        for (style, text) in &self.0 {
            let _ = write!(out, "\x1b[0;{}m", style.parameters());
            for letter in text.chars() {
                let columns = columns(letter);
                if columns > free_columns {
                    free_columns = 0;
                    break;
                }
                free_columns -= columns;
                out.push(letter);
            }
        }
        out.push_str("\x1b[0m");
    }
}

/// The text with `?` in place of each letter that could control the terminal. The names of hosts and servers may have
/// such letters, because agents and tenants choose them.
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
        || matches!(
            letter,
            // The soft hyphen, the Arabic letter mark, and the Mongolian vowel separator.
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            // Tags, which repeat ASCII invisibly.
            | '\u{e0000}'..='\u{e007f}'
        )
}

/// How many columns a text takes once it is [`printable`].
pub(super) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// How many columns a letter takes: two if it is of the scripts of East Asia or an emoji, none if it combines with the
/// one before. A letter that [`printable`] replaces takes the one column of the `?`.
fn columns(letter: char) -> usize {
    if is_control(letter) {
        return 1;
    }
    letter.width().unwrap_or(1)
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

    #[test]
    fn letters_that_are_invisible_or_turn_the_text_are_replaced() {
        let letters = "\u{ad}\u{61c}\u{180e}\u{200b}\u{202e}\u{feff}\u{e0041}";
        assert_eq!(printable(letters), "???????");
        assert_eq!(width(letters), 7);
        assert_eq!(printable("é日\u{301}"), "é日\u{301}");
    }

    #[test]
    fn combining_marks_of_all_scripts_take_no_column() {
        for (text, expected) in [
            ("a\u{20d7}", 1),
            ("\u{5d0}\u{5b0}", 1),
            ("\u{e01}\u{e31}", 1),
            ("か\u{3099}", 2),
            ("\u{ff76}", 1),
            ("😀", 2),
        ] {
            assert_eq!(width(text), expected, "{text}");
        }
    }
}
