//! Shows the progress of a run: a bar on a terminal, otherwise a line every few seconds.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::task_progress::Counts;

/// The interval of lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// The display; it writes to standard error.
#[derive(Debug)]
pub(crate) struct ProgressDisplay {
    /// `None` if standard error is not a terminal.
    bar: Option<ProgressBar>,
    /// The number of tasks of the run.
    tasks: usize,
    /// When the last line was written, without a terminal.
    last_line: Instant,
}

impl ProgressDisplay {
    pub(crate) fn new(tasks: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(tasks as u64);
            if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len}  {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self {
            bar,
            tasks,
            last_line: Instant::now(),
        }
    }

    /// Shows the present numbers, and the resource class with the highest allocated share, in percent.
    pub(crate) fn show(&mut self, counts: &Counts, fullest: Option<(&str, f64)>) {
        let mut text = format!(
            "{} placed, {} refused, {} being built",
            counts.active, counts.refused, counts.building
        );
        if let Some((class, share)) = fullest {
            text.push_str(&format!(", {class} {share:.0} %"));
        }
        match &self.bar {
            Some(bar) => {
                bar.set_position(counts.ended());
                bar.set_message(text);
            }
            None if self.last_line.elapsed() >= LINE_INTERVAL => {
                self.last_line = Instant::now();
                eprintln!("{}/{}: {text}", counts.ended(), self.tasks);
            }
            None => {}
        }
    }

    /// Removes the bar at the end of a run.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
