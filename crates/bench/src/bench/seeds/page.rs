//! The page that the command writes: sections with tables and plots, and at its end a checksum, by which a test finds
//! out whether somebody has edited it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::plot::Plot;

/// The name of the page, and of the folder with its plots.
const NAME: &str = "experiments";
/// The beginning of the last line of the page.
const CHECKSUM_BEGINS: &str = "<!-- written by placewright-bench seeds; checksum ";

/// A part of the page.
#[derive(Debug, Default)]
pub(super) struct Section {
    pub(super) title: String,
    text: String,
    plots: Vec<Plot>,
}

impl Section {
    pub(super) fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}\n", text.trim());
    }

    /// Adds a table. All rows have as many cells as the heading.
    pub(super) fn table(&mut self, heading: &[&str], rows: &[Vec<String>]) {
        let _ = writeln!(self.text, "| {} |", heading.join(" | "));
        let _ = writeln!(self.text, "|{}", " --- |".repeat(heading.len()));
        for row in rows {
            let _ = writeln!(self.text, "| {} |", row.join(" | "));
        }
        self.text.push('\n');
    }

    /// Adds a plot, which gets a file of its own.
    pub(super) fn plot(&mut self, plot: Plot) {
        let _ = writeln!(self.text, "![{}]({NAME}/{}.svg)\n", plot.title, plot.file);
        self.plots.push(plot);
    }
}

/// Writes the page and its plots into a folder.
///
/// # Errors
///
/// A file cannot be written.
pub(super) fn write(folder: &Path, introduction: &str, sections: &[Section]) -> anyhow::Result<()> {
    let mut page = format!("{}\n", introduction.trim());
    let plots = folder.join(NAME);
    fs::create_dir_all(&plots).with_context(|| plots.display().to_string())?;
    for section in sections {
        let _ = writeln!(page, "\n## {}\n\n{}", section.title, section.text.trim());
        for plot in &section.plots {
            let path = plots.join(plot.file).with_extension("svg");
            fs::write(&path, plot.draw()).with_context(|| path.display().to_string())?;
        }
    }
    page.push('\n');
    let checksum = checksum(&page);
    let _ = writeln!(page, "{CHECKSUM_BEGINS}{checksum:016x} -->");
    let path = folder.join(NAME).with_extension("md");
    fs::write(&path, page).with_context(|| path.display().to_string())
}

/// Whether a page is as the command wrote it.
#[must_use]
pub fn is_as_written(page: &str) -> bool {
    let Some((text, rest)) = page.rsplit_once(CHECKSUM_BEGINS) else {
        return false;
    };
    rest.trim_end() == format!("{:016x} -->", checksum(text))
}

/// FNV-1a. It is to notice edits, not attacks.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
