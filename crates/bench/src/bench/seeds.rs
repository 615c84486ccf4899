//! `placewright bench seeds`: repeats published experiments about earlier schedulers, which are the seeds from which
//! this one grew. Each experiment measures this product and the earlier schedulers on the same hosts, requests and
//! machine. The results are written to `docs/experiments.md`, with plots; that page calls the ways in which the earlier
//! schedulers worked the old ways.
//!
//! The schedulers are the product's: its placer, its engine and its journals in this process, with parts of the roles
//! that make replicas of them. Only the earlier schedulers ([`earlier_schedulers`]) have code of their own.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::targets::{TargetedFigure, print_report};

mod builds;
mod cell_switch;
mod cells;
mod earlier_schedulers;
mod etcd_process;
mod fleet;
mod installation;
mod machine;
mod nova;
mod page;
mod placing_request;
mod plan;
mod plot;
mod replicas;
mod sections;
mod shared_state;
mod times;
mod walking;

pub(crate) use nova::NovaFileError;
use nova::NovaReport;
use page::Section;
pub use page::is_as_written;
use plan::Plan;

/// Arguments of `placewright bench seeds`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    placewright bench seeds                    # from the root of the sources: writes docs/experiments.md\n  \
    tests/peers/nova/scheduler.py > nova.json; placewright bench seeds --nova nova.json\n  \
    placewright bench seeds --only shared-state --output /tmp/page")]
pub(crate) struct SeedsBench {
    /// The folder for the page and for the folder with its plots
    #[arg(long, value_name = "DIRECTORY", default_value = "docs")]
    output: PathBuf,

    /// Where temporary stores are made: a real disk, since much of the time is fsync
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    directory: PathBuf,

    /// Only these experiments; the page then has no others
    #[arg(long, value_enum, value_name = "EXPERIMENT", value_delimiter = ',')]
    only: Vec<Experiment>,

    /// What tests/peers/nova/scheduler.py printed: Nova's own scheduler, to be compared on the same fleets
    #[arg(long, value_name = "FILE")]
    nova: Option<PathBuf>,

    /// Also with 100,000 hosts, which takes some minutes more
    #[arg(long, conflicts_with = "short")]
    large: bool,

    /// A few requests on a few hosts, to see that the command works; missed bars are then no failure
    #[arg(long)]
    short: bool,
}

/// An experiment, with a section of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// Requests at once, decided by several schedulers that share their state
    SharedState,
    /// The old ways on the same hosts, step by step
    #[value(name = "old-ways")]
    EarlierSchedulers,
    /// Nova's own scheduler on the same hosts, with --nova
    Nova,
    /// Filtering where the data is, against walking over the hosts
    Walking,
    /// Builds that fail, tried again in the cell or by the scheduler
    Builds,
    /// Cells, some of which are down
    Cells,
}

/// All experiments, in the order of the page.
const ALL: [Experiment; 6] = [
    Experiment::SharedState,
    Experiment::EarlierSchedulers,
    Experiment::Nova,
    Experiment::Walking,
    Experiment::Builds,
    Experiment::Cells,
];

/// The results of the experiments so far.
#[derive(Debug, Default)]
struct Results {
    sections: Vec<Section>,
    targets: Vec<TargetedFigure>,
}

impl SeedsBench {
    /// Runs the experiments and writes the page; returns whether all targets were met.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let machine = machine::describe();
        let plan = match (self.short, self.large) {
            (true, _) => Plan::short(),
            (false, is_large) => Plan::full(is_large),
        };
        let nova = self.nova.as_deref().map(NovaReport::read).transpose()?;
        if nova.is_none() && self.only.contains(&Experiment::Nova) {
            return Err(NovaFileError::Missing.into());
        }
        let is_chosen = |one: &Experiment| {
            let is_possible = *one != Experiment::Nova || nova.is_some();
            is_possible && (self.only.is_empty() || self.only.contains(one))
        };
        let mut results = Results::default();
        let has_all = self.only.is_empty();
        // The figures of the schedulers that share their state are compared with the earlier schedulers, too.
        let mut shared = None;
        for experiment in ALL.into_iter().filter(is_chosen) {
            match experiment {
                Experiment::SharedState => {
                    let figures = plan.shared_state(&self.directory)?;
                    results.add(sections::shared_state(&figures));
                    shared = Some(figures);
                }
                Experiment::EarlierSchedulers => {
                    let figures = plan.earlier_schedulers(&self.directory)?;
                    let shared = shared.as_deref().unwrap_or_default();
                    results.add(sections::earlier_schedulers(&figures, shared));
                }
                Experiment::Nova => {
                    if let Some(report) = &nova {
                        let ours = Plan::nova(&self.directory, report)?;
                        results.add(sections::nova(report, &ours));
                    }
                }
                Experiment::Walking => {
                    let (figures, http_shares) = plan.walking()?;
                    results.add(sections::walking(&figures, &http_shares));
                }
                Experiment::Builds => {
                    results.add(sections::builds(&plan.builds()?, &plan.build_sizes));
                }
                Experiment::Cells => {
                    results.add(sections::cells(&plan.cells()?, &plan.cell_sizes));
                }
            }
        }
        let introduction = self.introduction(&machine, has_all);
        page::write(&self.output, &introduction, &results.sections)?;
        outln!("written: {}/experiments.md", self.output.display());
        print_report(&results.targets, None::<&()>)?;
        Ok(self.short || results.targets.iter().all(|target| target.is_met))
    }

    fn introduction(&self, machine: &str, has_all: bool) -> String {
        let mut arguments = String::new();
        let given = [
            (self.nova.is_some(), " --nova FILE"),
            (self.large, " --large"),
            (self.short, " --short"),
        ];
        for (is_set, argument) in given {
            arguments += if is_set { argument } else { "" };
        }
        let mut warnings = String::new();
        if machine::is_debug_build() {
            warnings += "\n\n**This is a debug build: the figures mean nothing.**";
        }
        if self.short || !has_all {
            warnings += "\n\n**This is a part of the experiments, to see that they work.**";
        }
        format!(
            "# The experiments that started it all\n\n\
             Placement and this scheduler began with a few experiments: schedulers that share their state instead of reading \
             it from a database (2016), filtering where the data is instead of walking over the hosts (2016), alternates \
             instead of going back to the scheduler (2017), and cells that may be down. Here they are made again: with \
             Placewright, and with the old ways beside it on the same hosts, requests and machine.\n\n\
             This page was written by `placewright-bench seeds{arguments}`; do not edit it.{warnings}\n\n\
             - Date: {}\n- Commit: {}\n- Machine: {machine}\n\n\
             The published figures are from other and older machines: they say which way something goes, not how fast it is.",
            machine::date(),
            machine::commit(),
        )
    }
}

impl Results {
    fn add(&mut self, (section, targets): (Section, Vec<TargetedFigure>)) {
        self.sections.push(section);
        self.targets.extend(targets);
    }
}
