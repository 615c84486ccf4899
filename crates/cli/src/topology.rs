//! `placewright topology`: loads the topology of hosts from a file into the scheduler and
//! placement.

mod apply;
mod table;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use placewright_client::server_url;

/// Say where hosts stand
#[derive(Debug, Subcommand)]
pub(crate) enum TopologyCommand {
    /// Load the places of hosts from a CSV file
    ///
    /// The first line names the levels, the smallest first; each other line is a host, by the name
    /// or UUID of its resource provider, with its places:
    ///
    ///   host,rack,row,room
    ///   node-1,r1,a,north
    ///   node-2,r2,a,north
    ///
    /// Each place becomes an aggregate. Places of one name in different larger places are
    /// different, such as row "a" of room "north" and row "a" of room "south". Other aggregates of
    /// the hosts stay. A host with an empty field is in no place of that level. Hosts that the file
    /// does not name are taken out of all places.
    ///
    /// Soft rules "near" and "far" count hops: 2 between hosts of one rack, 4 of one row, and so on.
    /// Distances of your own go into a second file, where the names of all larger places stand
    /// before that of a place:
    ///
    ///   level,from,to,distance
    ///   room,north,south,40
    ///   rack,north/a/r1,north/a/r2,3
    #[command(verbatim_doc_comment)]
    Apply(Apply),
}

/// Load the places of hosts from a CSV file
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The CSV file with the place of each host
    file: PathBuf,

    /// A CSV file with your own distances between places of one level
    #[arg(long, value_name = "FILE")]
    distances: Option<PathBuf>,

    /// The address of the Placement API, where the places become aggregates
    #[arg(
        long,
        env = "PLACEWRIGHT_URL",
        default_value = "http://127.0.0.1:8778",
        value_parser = server_url
    )]
    url: String,

    /// The address of the scheduler API, where the places get names, levels and distances
    #[arg(
        long,
        env = "PLACEWRIGHT_SCHEDULER_URL",
        default_value = "http://127.0.0.1:8779",
        value_parser = server_url
    )]
    scheduler_url: String,

    /// The token to show; `noauth2` takes `admin`
    #[arg(
        long,
        env = "OS_TOKEN",
        default_value = "admin",
        hide_env_values = true
    )]
    token: String,

    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
}

impl TopologyCommand {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// The file is not valid, or a server does not answer as expected.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::Apply(apply) => apply.run(),
        }
    }
}
