//! What is shown: the figures as lines.

use std::cmp::Ordering;

use jiff::Timestamp;

use super::Sort;
use super::figures::{Builds, COUNTED_MAX, Readings, Server, Shared};
use super::fleet::{CONDITIONS, Fleet, Host, Total, share};
use super::line::{Line, Style};
use super::table::{Field, Table, decimal, head, number, or_dash, per_cent, shortened};

/// The share of a capacity above which it is nearly full.
const NEARLY_FULL: f64 = 0.9;
/// The most resource classes of which the sums are shown.
const TOTALS_MAX: usize = 6;
/// The most columns of resource classes in the table of hosts.
const CLASS_COLUMNS_MAX: usize = 5;

/// What the user has chosen to see.
#[derive(Debug)]
pub(super) struct View {
    pub(super) address: String,
    pub(super) sort: Sort,
    pub(super) is_reversed: bool,
    /// The cell whose hosts are shown; `None` for all.
    pub(super) cell: Option<String>,
    /// How many hosts at the top of the list are passed over.
    pub(super) first_host: usize,
}

impl View {
    /// All lines, with this many hosts at most, whatever the height of the terminal.
    pub(super) fn lines(&self, figures: &Shared, hosts: usize) -> Vec<Line> {
        let fleet = figures.fleet.borrow();
        let mut lines = self.head(figures, &fleet);
        lines.extend(self.hosts(&fleet, hosts));
        lines
    }

    /// As many lines as a terminal with this many rows shows. The last one explains the keys.
    pub(super) fn screen(&self, figures: &Shared, rows: usize) -> Vec<Line> {
        let fleet = figures.fleet.borrow();
        let mut lines = self.head(figures, &fleet);
        // Three lines are for the title and the head of the table, and for the keys.
        let hosts = rows.saturating_sub(lines.len() + 3);
        lines.extend(self.hosts(&fleet, hosts));
        lines.truncate(rows.saturating_sub(1));
        let blank_lines = rows.saturating_sub(lines.len() + 1);
        lines.extend((0..blank_lines).map(|_| Line::default()));
        let keys = "q quit  s sort  r reverse  c cell  C all cells  + - interval  arrows move";
        lines.push(Line::of(Style::Faint, keys));
        lines
    }

    /// Everything above the hosts.
    fn head(&self, figures: &Shared, fleet: &Fleet) -> Vec<Line> {
        let readings = figures.readings.borrow();
        let mut lines = vec![self.title(figures, &readings)];
        if let Some(trouble) = figures.trouble() {
            let text = format!("Not up to date: {trouble}. Trying again.");
            lines.push(Line::of(Style::Bad, text));
        }
        if let Some(lost) = &readings.status.lost {
            let text =
                format!("LOST: the store has lost entries, `placewright status` says more: {lost}");
            lines.push(Line::of(Style::Bad, text));
        }
        lines.push(rates(&readings));
        lines.push(builds(readings.builds.as_ref(), &readings));
        lines.push(self.hosts_summary(fleet));
        let totals = fleet.totals(fleet.hosts(self.cell.as_deref()));
        lines.extend(totals.iter().take(TOTALS_MAX).map(total));
        let newest = readings.builds.iter().flat_map(|builds| &builds.newest);
        let newest: Vec<&Server> = newest.collect();
        if !newest.is_empty() {
            lines.push(Line::default());
            lines.extend(servers(&newest));
        }
        lines.push(Line::default());
        lines
    }

    fn title(&self, figures: &Shared, readings: &Readings) -> Line {
        let mut line = Line::default();
        let status = &readings.status;
        let interval = figures.interval.get().as_secs_f64();
        line.add(Style::Strong, format!("placewright top  {}", self.address));
        let now = Timestamp::now().strftime("%H:%M:%S UTC");
        let role = match status.role.as_str() {
            "leads" | "follows" | "stopped" => status.role.as_str(),
            _ => "alone",
        };
        line.add(
            Style::Plain,
            format!(
                "  {role}, entry {}, {} behind  every {interval} s  {now}",
                number(status.applied),
                number(status.lag)
            ),
        );
        line
    }

    fn hosts_summary(&self, fleet: &Fleet) -> Line {
        let cell = self.cell.as_deref();
        let (mut counts, mut instances) = ([0_usize; CONDITIONS.len()], 0_i64);
        for host in fleet.hosts(cell) {
            if let Some(count) = counts.get_mut(host.condition) {
                *count += 1;
            }
            instances += host.instances;
        }
        let host_count: usize = counts.iter().sum();
        let mut line = Line::default();
        line.add(Style::Strong, "hosts      ");
        line.add(Style::Plain, format!("{}:", number(host_count as u64)));
        for (condition, count) in counts.iter().enumerate() {
            if *count > 0 || condition == 0 {
                let style = condition_style(condition);
                let comma = if condition == 0 { "" } else { "," };
                let name = CONDITIONS[condition];
                line.add(style, format!("{comma} {} {name}", number(*count as u64)));
            }
        }
        let instances = number(instances.unsigned_abs());
        line.add(Style::Plain, format!("; {instances} instances"));
        if let Some(cell) = cell {
            line.add(Style::Warning, format!("; of cell {cell}"));
        }
        line
    }

    /// The hosts in the chosen order, as a table with a title.
    fn hosts(&self, fleet: &Fleet, count: usize) -> Vec<Line> {
        let sorted = self.sorted_hosts(fleet);
        let first = self.first_host.min(sorted.len().saturating_sub(1));
        let shown = sorted.get(first..).unwrap_or_default();
        let shown = &shown[..count.min(shown.len())];
        let totals = fleet.totals(sorted.iter().copied());
        let classes: Vec<&str> = totals.iter().map(|total| total.class.as_str()).collect();
        let classes = &classes[..classes.len().min(CLASS_COLUMNS_MAX)];
        let order = match self.is_reversed {
            true => ", the other way around",
            false => "",
        };
        let title = format!(
            "hosts {} to {} of {}, by {}{order}",
            number((first + usize::from(!shown.is_empty())) as u64),
            number((first + shown.len()) as u64),
            number(sorted.len() as u64),
            self.sort.name()
        );
        let mut table = Table::default();
        table.rows.push(host_head(classes));
        let rows = shown.iter().map(|host| host_row(fleet, host, classes));
        table.rows.extend(rows);
        let mut lines = vec![Line::of(Style::Strong, title)];
        lines.extend(table.lines());
        lines
    }

    fn sorted_hosts<'a>(&'a self, fleet: &'a Fleet) -> Vec<&'a Host> {
        let mut keyed: Vec<(f64, &Host)> = fleet
            .hosts(self.cell.as_deref())
            .map(|host| (self.sort_key(fleet, host), host))
            .collect();
        keyed.sort_by(|(a, a_host), (b, b_host)| {
            // The largest comes first, and equal ones by name.
            let order = b.partial_cmp(a).unwrap_or(Ordering::Equal);
            let order = order.then_with(|| natural(&a_host.name, &b_host.name));
            match self.is_reversed {
                true => order.reverse(),
                false => order,
            }
        });
        keyed.into_iter().map(|(_, host)| host).collect()
    }

    #[allow(clippy::cast_precision_loss, reason = "it is only compared")]
    fn sort_key(&self, fleet: &Fleet, host: &Host) -> f64 {
        // A host without the class comes after all that have it.
        let share = |class: &str| fleet.share(host, class).unwrap_or(-1.0);
        match self.sort {
            Sort::Load => fleet.load(host),
            Sort::Vcpu => share("VCPU"),
            Sort::Memory => share("MEMORY_MB"),
            Sort::Disk => share("DISK_GB"),
            Sort::Instances => host.instances as f64,
            Sort::State => host.condition as f64,
            // All keys are equal, so that the name decides.
            Sort::Name => 0.0,
        }
    }
}

/// Compares names so that `host-9` comes before `host-10`.
fn natural(a: &str, b: &str) -> Ordering {
    let parts = |text: &str| -> (String, Option<u64>) {
        let stem = text.trim_end_matches(|letter: char| letter.is_ascii_digit());
        (stem.to_owned(), text[stem.len()..].parse().ok())
    };
    parts(a).cmp(&parts(b)).then_with(|| a.cmp(b))
}

fn condition_style(condition: usize) -> Style {
    // The index in `CONDITIONS`: up; disabled and unreported; down and forced down.
    match condition {
        0 => Style::Good,
        1 | 4 => Style::Warning,
        _ => Style::Bad,
    }
}

fn rates(readings: &Readings) -> Line {
    let mut line = Line::default();
    line.add(Style::Strong, "claims     ");
    let Some(rates) = &readings.rates else {
        line.add(Style::Faint, "known after a second reading");
        return line;
    };
    let claims = rates.api_claims + rates.placements;
    line.add(Style::Plain, format!("{} a second; ", decimal(claims)));
    let style = |rate: f64| match rate > 0.0 {
        true => Style::Warning,
        false => Style::Plain,
    };
    line.add(
        style(rates.conflicts),
        format!("{} conflicts", decimal(rates.conflicts)),
    );
    line.add(
        style(rates.refusals),
        format!(", {} refused", decimal(rates.refusals)),
    );
    line.add(
        Style::Plain,
        format!(", {} commands a second", decimal(rates.commands)),
    );
    line
}

fn builds(builds: Option<&Builds>, readings: &Readings) -> Line {
    let mut line = Line::default();
    line.add(Style::Strong, "builds     ");
    let Some(builds) = builds else {
        line.add(
            Style::Faint,
            "not shown: no compute API, or not for this user",
        );
        return line;
    };
    let count = |count: usize| match count < COUNTED_MAX {
        true => number(count as u64),
        false => format!("{} or more", number(count as u64)),
    };
    line.add(
        Style::Plain,
        format!("{} under way, ", count(builds.under_way)),
    );
    let in_error = match builds.in_error {
        0 => Style::Plain,
        _ => Style::Bad,
    };
    line.add(in_error, format!("{} in error", count(builds.in_error)));
    if let Some(rates) = &readings.rates {
        let placed = decimal(rates.placements);
        line.add(Style::Plain, format!("; {placed} placed a second, "));
        let style = match rates.no_host > 0.0 {
            true => Style::Bad,
            false => Style::Plain,
        };
        line.add(style, format!("{} without a host", decimal(rates.no_host)));
    }
    if readings.findings > 0.0 {
        let text = format!("; {} findings of the audit", readings.findings);
        line.add(Style::Bad, text);
    }
    line
}

/// The use of a resource class, as a bar and in figures.
fn total(total: &Total) -> Line {
    const BAR_WIDTH: usize = 20;
    let share = share(total.used, total.capacity);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a bar of a few letters"
    )]
    let filled = (share.unwrap_or(0.0).clamp(0.0, 1.0) * BAR_WIDTH as f64).round() as usize;
    let mut line = Line::default();
    line.add(Style::Strong, format!("{:<10} ", total.class));
    let empty = BAR_WIDTH - filled;
    let bar = format!("[{}{}]", "#".repeat(filled), ".".repeat(empty));
    line.add(share_style(share), format!("{bar} {}", per_cent(share)));
    let physical = match total.physical == total.capacity {
        true => String::new(),
        false => format!(" ({} physical)", number(total.physical.unsigned_abs())),
    };
    let used = number(total.used.unsigned_abs());
    let capacity = number(total.capacity.unsigned_abs());
    line.add(Style::Plain, format!("  {used} of {capacity}{physical}"));
    line
}

fn share_style(share: Option<f64>) -> Style {
    match share {
        Some(share) if share > NEARLY_FULL => Style::Warning,
        _ => Style::Plain,
    }
}

/// The newest servers that are not ready.
fn servers(newest: &[&Server]) -> Vec<Line> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut table = Table::default();
    table.rows.push(
        ["SERVER", "STATUS", "HOST", "SINCE", "TASK OR REASON"]
            .map(head)
            .into(),
    );
    for server in newest {
        let style = match server.status.as_deref() {
            Some("ERROR") => Style::Bad,
            _ => Style::Plain,
        };
        let reason = server.fault.as_ref().map(|fault| fault.message.clone());
        let reason = reason.or_else(|| server.task.clone());
        table.rows.push(vec![
            Field::left(
                Style::Plain,
                shortened(server.name.as_deref().unwrap_or_default()),
            ),
            Field::left(style, text(&server.status)),
            Field::left(
                Style::Plain,
                shortened(server.host.as_deref().unwrap_or_default()),
            ),
            Field::left(Style::Plain, text(&server.created)),
            Field::left(style, text(&reason).replace('\n', " ")),
        ]);
    }
    table.lines()
}

/// The head of the table of hosts.
fn host_head(classes: &[&str]) -> Vec<Field> {
    let names = ["HOST", "CELL", "ZONE", "STATE"].map(head);
    let numbers = ["LOAD", "INSTANCES"]
        .into_iter()
        .chain(classes.iter().copied());
    let numbers = numbers.map(|name| Field::right(Style::Head, name));
    names.into_iter().chain(numbers).collect()
}

/// The row of a host.
fn host_row(fleet: &Fleet, host: &Host, classes: &[&str]) -> Vec<Field> {
    let load = Some(fleet.load(host));
    let condition = CONDITIONS.get(host.condition).copied().unwrap_or("unknown");
    let mut row = vec![
        Field::left(Style::Plain, shortened(&host.name)),
        Field::left(Style::Plain, or_dash(fleet.cell(host))),
        Field::left(Style::Plain, or_dash(fleet.zone(host))),
        Field::left(condition_style(host.condition), condition),
        Field::right(share_style(load), per_cent(load).trim_start()),
        Field::right(Style::Plain, host.instances.to_string()),
    ];
    for class in classes {
        let amount = fleet.amounts(host).find(|((name, ..), _)| name == class);
        let (style, text) = match amount {
            Some(((_, capacity, ..), used)) => {
                let style = share_style(share(used, *capacity));
                (style, format!("{used}/{capacity}"))
            }
            None => (Style::Faint, "-".to_owned()),
        };
        row.push(Field::right(style, text));
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_numbers_are_in_their_order() {
        let mut names = ["host-10", "host-9", "a", "host-9a"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "host-9", "host-10", "host-9a"]);
    }
}
