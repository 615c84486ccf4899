//! The results of a replay, as JSON and as a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::replay_run::ServerPlan;
use super::retries::BuildRetries;
use super::task_progress::{TaskEnd, TaskState};
use super::usage::{Amounts, Sample, percent};

/// The results of a replay.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) tasks: usize,
    pub(crate) hosts: usize,
    /// The time from the start of the run until the last build was seen to end.
    pub(crate) seconds: f64,
    pub(crate) placed: u64,
    pub(crate) refused: u64,
    /// Tasks that ended neither active nor refused with a reason, and those that were never
    /// requested.
    pub(crate) unsettled: u64,
    pub(crate) deleted: u64,
    /// The number of refusals by reason, without the parts that differ between requests.
    pub(crate) refused_by_reason: BTreeMap<String, u64>,
    pub(crate) allocated: Vec<Allocated>,
    /// Tasks that were placed or refused per second.
    pub(crate) decisions_per_second: f64,
    /// Servers that became active per second.
    pub(crate) boots_per_second: f64,
    /// The median time from the request to ACTIVE, in milliseconds.
    pub(crate) latency_p50_ms: f64,
    pub(crate) latency_p99_ms: f64,
    pub(crate) latency_max_ms: f64,
    /// `None` if the installation did not say which builds were tried again.
    pub(crate) retries: Option<BuildRetries>,
    /// Whether the user stopped the run.
    pub(crate) stopped: bool,
    /// The names of the unsettled tasks, each with a description of its end.
    #[serde(skip)]
    pub(crate) unsettled_tasks: Vec<String>,
}

/// The usage of a resource.
#[derive(Debug, Serialize)]
pub(crate) struct Allocated {
    pub(crate) class: String,
    pub(crate) total: u64,
    /// The allocated amount at the end.
    pub(crate) used: u64,
    /// The largest amount in a sample.
    pub(crate) used_max: u64,
}

/// The data of a run that has ended.
pub(crate) struct FinishedRun<'a> {
    pub(crate) plans: &'a [ServerPlan],
    pub(crate) task_states: &'a [TaskState],
    pub(crate) samples: &'a [Sample],
    pub(crate) totals: &'a Amounts,
    pub(crate) hosts: usize,
    /// The time from the start of the run until the last build was seen to end.
    pub(crate) time: Duration,
    pub(crate) is_stopped: bool,
    pub(crate) retries: Option<BuildRetries>,
}

/// The maximum number of unsettled tasks that are shown.
const UNSETTLED_SHOWN_MAX: usize = 20;
/// The maximum number of reasons that are shown.
const REASONS_SHOWN_MAX: usize = 12;
/// The longest reason that is shown, in characters.
const REASON_LENGTH_MAX: usize = 100;

impl Report {
    pub(crate) fn new(run: FinishedRun<'_>) -> Self {
        let mut refused_by_reason: BTreeMap<String, u64> = BTreeMap::new();
        let mut unsettled_tasks = Vec::new();
        let mut latencies = Vec::new();
        let (mut placed, mut refused, mut deleted) = (0, 0, 0);
        for (plan, task_state) in run.plans.iter().zip(run.task_states) {
            deleted += u64::from(task_state.is_deleted);
            match &task_state.end {
                Some(TaskEnd::Active) => {
                    placed += 1;
                    latencies.push(task_state.latency);
                }
                Some(TaskEnd::Refused(reason)) => {
                    refused += 1;
                    *refused_by_reason
                        .entry(normalized_reason(reason))
                        .or_default() += 1;
                }
                Some(TaskEnd::Lost(reason)) => unsettled_tasks.push(match task_state.server {
                    Some(server) => format!("{} (server {server}): {reason}", plan.name),
                    None => format!("{}: {reason}", plan.name),
                }),
                None => unsettled_tasks.push(format!("{}: not asked for", plan.name)),
            }
        }
        latencies.sort_unstable();
        let seconds = run.time.as_secs_f64();
        let rate = |count: u64| {
            #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
            let count = count as f64;
            if seconds > 0.0 { count / seconds } else { 0.0 }
        };
        Self {
            tasks: run.plans.len(),
            hosts: run.hosts,
            seconds,
            placed,
            refused,
            unsettled: unsettled_tasks.len() as u64,
            deleted,
            refused_by_reason,
            allocated: allocated_resources(run.totals, run.samples),
            decisions_per_second: rate(placed + refused),
            boots_per_second: rate(placed),
            latency_p50_ms: percentile_ms(&latencies, 50),
            latency_p99_ms: percentile_ms(&latencies, 99),
            latency_max_ms: percentile_ms(&latencies, 100),
            retries: run.retries,
            stopped: run.is_stopped,
            unsettled_tasks,
        }
    }

    /// Whether every task ended active or was refused with a reason.
    pub(crate) fn is_settled(&self) -> bool {
        self.unsettled_tasks.is_empty()
    }

    /// The results as a text with tables.
    pub(crate) fn to_text(&self) -> String {
        let mut output = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            output,
            "{} tasks on {} hosts in {:.1} s{}\n",
            self.tasks,
            self.hosts,
            self.seconds,
            if self.stopped { ", stopped early" } else { "" }
        );
        let tasks = self.tasks as u64;
        let mut row = |name: &str, count: u64| {
            let share = percent(count, tasks);
            let _ = writeln!(output, "{name:<22}{count:>9}   {share:>5.1} %");
        };
        row("placed", self.placed);
        row("refused", self.refused);
        if self.unsettled > 0 {
            row("NEITHER", self.unsettled);
        }
        if self.deleted > 0 {
            row("deleted later", self.deleted);
        }
        self.write_reasons(&mut output);
        self.write_allocated(&mut output);
        let _ = writeln!(
            output,
            "\ndecisions a second    {:>9.0}\nboots a second        {:>9.0}\n\
             request to ACTIVE     {:>9.0} ms p50, {:.0} ms p99, {:.0} ms at most",
            self.decisions_per_second,
            self.boots_per_second,
            self.latency_p50_ms,
            self.latency_p99_ms,
            self.latency_max_ms,
        );
        if let Some(retries) = &self.retries {
            let _ = writeln!(
                output,
                "builds tried again    {:>9}   of {} servers",
                retries.builds, retries.servers
            );
        }
        if !self.unsettled_tasks.is_empty() {
            let _ = writeln!(output, "\nNeither active nor refused with a reason:");
            for task in self.unsettled_tasks.iter().take(UNSETTLED_SHOWN_MAX) {
                let _ = writeln!(output, "  {task}");
            }
            if let Some(more @ 1..) = self.unsettled_tasks.len().checked_sub(UNSETTLED_SHOWN_MAX) {
                let _ = writeln!(output, "  and {more} more");
            }
        }
        output
    }

    /// The most frequent reasons of refusals, shortened, each with the number of tasks; and how many tasks were refused
    /// for other reasons.
    pub(crate) fn frequent_reasons(&self) -> (Vec<(String, u64)>, u64) {
        let mut reasons: Vec<_> = self.refused_by_reason.iter().collect();
        reasons.sort_by(|left, right| right.1.cmp(left.1).then(left.0.cmp(right.0)));
        let other_reasons = reasons.iter().skip(REASONS_SHOWN_MAX);
        let other_count = other_reasons.map(|(_, count)| **count).sum();
        let shortened = reasons
            .into_iter()
            .take(REASONS_SHOWN_MAX)
            .map(|(reason, count)| (reason.chars().take(REASON_LENGTH_MAX).collect(), *count));
        (shortened.collect(), other_count)
    }

    fn write_reasons(&self, output: &mut String) {
        if self.refused == 0 {
            return;
        }
        let (reasons, other_count) = self.frequent_reasons();
        let _ = writeln!(output, "\nrefused because");
        for (reason, count) in reasons {
            let _ = writeln!(output, "{count:>9}   {reason}");
        }
        if other_count > 0 {
            let _ = writeln!(output, "{other_count:>9}   other reasons");
        }
    }

    fn write_allocated(&self, output: &mut String) {
        if self.allocated.is_empty() {
            return;
        }
        let _ = writeln!(
            output,
            "\n{:<22}{:>14}{:>14}{:>9}{:>9}",
            "allocated", "used", "of", "share", "highest"
        );
        for resource in &self.allocated {
            let _ = writeln!(
                output,
                "{:<22}{:>14}{:>14}{:>7.1} %{:>7.1} %",
                resource.class,
                resource.used,
                resource.total,
                percent(resource.used, resource.total),
                percent(resource.used_max, resource.total),
            );
        }
    }
}

fn allocated_resources(totals: &Amounts, samples: &[Sample]) -> Vec<Allocated> {
    let Some(last_sample) = samples.last() else {
        return Vec::new();
    };
    let used_amount = |sample: &Sample, class| sample.used.get(class).copied().unwrap_or(0);
    totals
        .iter()
        .map(|(class, total)| Allocated {
            class: class.clone(),
            total: *total,
            used: used_amount(last_sample, class),
            used_max: samples
                .iter()
                .map(|sample| used_amount(sample, class))
                .max()
                .unwrap_or(0),
        })
        .collect()
}

/// A reason without the parts that differ between requests: numbers, UUIDs, amounts of resources.
fn normalized_reason(reason: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in reason.split_whitespace().map(normalized_word) {
        // "GPU with GPU with GPU" comes from several groups with the same resource; it becomes "GPU". So a word after
        // "with" is left out, together with the "with", if it is the same as the word before the "with".
        let follows_with = words.len() >= 2 && words[words.len() - 1] == "with";
        if follows_with && words[words.len() - 2] == word.trim_end_matches('.') {
            words.pop();
        } else {
            words.push(word);
        }
    }
    words.join(" ")
}

/// A word of a reason. Numbers and UUIDs in it are replaced by placeholders.
fn normalized_word(word: &str) -> String {
    let trimmed_word = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
    let is_hex = |letter: char| letter.is_ascii_hexdigit() || letter == '-';
    let is_digit = |letter: char| letter.is_ascii_digit() || ".,".contains(letter);
    let is_number = |text: &str| {
        text.starts_with(|letter: char| letter.is_ascii_digit()) && text.chars().all(is_digit)
    };
    if trimmed_word.len() == 36 && trimmed_word.chars().all(is_hex) {
        return word.replace(trimmed_word, "…");
    }
    if is_number(trimmed_word) {
        return word.replace(trimmed_word, "N");
    }
    // `resources_GPU1=CUSTOM_GPU_MILLI:500` becomes its resource class.
    match trimmed_word
        .split_once('=')
        .and_then(|(_, class_and_amount)| class_and_amount.split_once(':'))
    {
        Some((class, amount)) if trimmed_word.starts_with("resources") && is_number(amount) => {
            word.replace(trimmed_word, class)
        }
        _ => word.to_owned(),
    }
}

/// A percentile of sorted times, in milliseconds; the 100th is the longest time.
fn percentile_ms(sorted: &[Duration], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    let time = sorted.get(rank.saturating_sub(1)).copied();
    time.unwrap_or_default().as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalized_reasons_have_no_numbers() {
        assert_eq!(
            normalized_reason(
                "12 of 1,523 hosts lack 500 CUSTOM_GPU_MILLI, nearest 4f9a1c52-3d2e-4b1a-9f0e-1c7a5d3b2e10."
            ),
            "N of N hosts lack N CUSTOM_GPU_MILLI, nearest …."
        );
        assert_eq!(normalized_reason("cell 2: no T4"), "cell N: no T4");
        assert_eq!(
            normalized_reason(
                "0 of 9 hosts have room, nobody has resources=MEMORY_MB:512 with \
                 resources_GPU1=CUSTOM_GPU:1 with resources_GPU2=CUSTOM_GPU:1."
            ),
            "N of N hosts have room, nobody has MEMORY_MB with CUSTOM_GPU"
        );
    }

    #[test]
    fn percentiles_are_measured_times() {
        let times: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile_ms(&times, 50), 100.0);
        assert_eq!(percentile_ms(&times, 99), 198.0);
        assert_eq!(percentile_ms(&times, 100), 200.0);
        assert_eq!(percentile_ms(&[], 50), 0.0);
    }
}
