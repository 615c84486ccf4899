//! `placewright top`: builds, claims a second, conflicts, and hosts by load, live on a terminal.

mod counters;
mod figures;
mod fleet;
mod keys;
mod line;
mod live;
mod source;
mod table;
mod terminal;
mod view;

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::{Args, ValueEnum};
use placewright_client::server_url;
use placewright_roles::output;

use crate::credentials::Credentials;
use crate::journal::BadArgument;
pub(crate) use line::printable;
use source::Source;
use view::View;

/// The shortest interval at which figures are read, in seconds. It limits the load on the service.
const INTERVAL_MIN_S: f64 = 0.5;
/// The longest interval at which figures are read, in seconds.
const INTERVAL_MAX_S: f64 = 3600.0;
/// How many hosts are printed where there is no terminal whose height says how many fit.
const PRINTED_HOSTS: usize = 20;

/// Arguments of `placewright top`.
#[derive(Debug, Args)]
#[command(
    before_help = "\
Example, for an installation that `placewright up` started:

  export OS_CLIENT_CONFIG_FILE=state/clouds.yaml OS_CLOUD=placewright
  placewright top
  placewright top --once --sort instances --cell cell1 | head -30",
    after_help = "\
Keys: s and S choose what hosts are sorted by, r turns the order around, c shows the next cell and C all of them, + and - \
change the interval, arrows, page up, page down and home move through the hosts, q and Ctrl-C end it.

Claims, conflicts and builds placed are those of the process that answers; of several replicas each has its own. A \
conflict is a host that another claim took first, or a consumer that another client changed first. The load of a host is \
the largest used share of its resource classes."
)]
pub(crate) struct Top {
    /// The address of control's page (`ui.listen`), from which all figures come
    #[arg(
        long,
        env = "PLACEWRIGHT_UI_URL",
        default_value = "http://127.0.0.1:8770",
        value_parser = server_url
    )]
    ui_url: String,

    /// How often figures are read
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval)]
    interval: Duration,

    /// The order of the hosts
    #[arg(long, value_enum, default_value_t = Sort::Load)]
    sort: Sort,

    /// Show the hosts of this cell only, given by its name or UUID
    #[arg(long, value_name = "CELL")]
    cell: Option<String>,

    /// Print the figures once, after one interval, and exit. This is the default if standard output is not a terminal
    #[arg(long)]
    once: bool,

    /// How many hosts are printed with --once
    #[arg(long, value_name = "NUMBER", default_value_t = PRINTED_HOSTS)]
    hosts: usize,

    #[command(flatten)]
    credentials: Credentials,
}

/// The order of the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// The largest used share of a resource class first
    Load,
    /// The largest used share of VCPU first
    Vcpu,
    /// The largest used share of MEMORY_MB first
    Memory,
    /// The largest used share of DISK_GB first
    Disk,
    /// Most instances first
    Instances,
    /// Hosts that take no instances first
    State,
    /// By name
    Name,
}

impl Sort {
    /// All of them, in the order in which a key steps through them.
    const ALL: [Self; 7] = [
        Self::Load,
        Self::Vcpu,
        Self::Memory,
        Self::Disk,
        Self::Instances,
        Self::State,
        Self::Name,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Vcpu => "vcpu",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Instances => "instances",
            Self::State => "state",
            Self::Name => "name",
        }
    }
}

/// An interval in seconds.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "write it in seconds".to_owned())?;
    match (INTERVAL_MIN_S..=INTERVAL_MAX_S).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(format!("from {INTERVAL_MIN_S} to {INTERVAL_MAX_S} seconds")),
    }
}

impl Top {
    /// Shows the figures until the user has seen enough.
    ///
    /// # Errors
    ///
    /// The service does not answer at the start, or refuses to show the figures to this caller; there is no such cell;
    /// or the output cannot be written.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.show())
    }

    async fn show(self) -> anyhow::Result<()> {
        let source = Source::new(&self.ui_url, self.credentials)?;
        let figures = figures::Shared::new(self.interval);
        // Errors of the arguments or the service are reported before the terminal is taken over.
        figures.read_figures(&source).await?;
        figures.read_all_hosts(&source).await?;
        if let Some(cell) = &self.cell {
            let fleet = figures.fleet.borrow();
            if fleet.hosts(Some(cell)).next().is_none() {
                let names = fleet.cell_names().join(", ");
                let text = format!("--cell: no host is in a cell {cell:?}; there are: {names}");
                return Err(BadArgument(text).into());
            }
        }
        let view = View {
            address: self.ui_url,
            sort: self.sort,
            is_reversed: false,
            cell: self.cell,
            first_host: 0,
        };
        if self.once || !std::io::stdout().is_terminal() {
            return print_once(&source, &figures, &view, self.hosts).await;
        }
        live::run(&source, &figures, view).await
    }
}

/// Prints the figures after one interval, because rates are computed from two readings of the counters.
async fn print_once(
    source: &Source,
    figures: &figures::Shared,
    view: &View,
    hosts: usize,
) -> anyhow::Result<()> {
    {
        let interval_ended = tokio::time::sleep(figures.interval.get());
        tokio::select! {
            // While this waits, the stream keeps the hosts up to date.
            never = figures.follow_hosts(source) => match never {},
            () = interval_ended => {}
        }
    }
    figures.read_figures(source).await?;
    let lines = view.lines(figures, hosts);
    let text: String = lines.iter().map(|line| line.plain() + "\n").collect();
    output::print(&text)
}
