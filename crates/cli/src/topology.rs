//! `placewright topology`: loads the topology of hosts from a file into the scheduler and
//! placement.

mod apply;
mod edit;
mod levels;
mod merge;
mod placement;
mod table;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use placewright_client::server_url;

use crate::credentials::TokenArgs;
use crate::scheduler_api::SchedulerAddress;

/// Define the places of hosts
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
    /// Each place becomes an aggregate. Places of one name in different larger places are different, such as row "a"
    /// of room "north" and row "a" of room "south". Other aggregates of the hosts stay. A host with an empty field is
    /// in no place of that level. Hosts, levels, places and distances that the file does not name stay as they are;
    /// with --replace hosts are taken out of their places, and levels, places and distances are removed.
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
    /// Put racks into a row, or hosts into a rack: places of smaller levels, or hosts, into a place
    ///
    ///   placewright topology add --row 7 rack-12 rack-13
    ///   placewright topology add --rack rack-14 node-1 node-2
    ///
    /// The place is made if there is none of this name, and so is its level, above those of its
    /// members. Where a name is not unique, put the names of the larger places before it:
    /// north/7. A host that is in another place of the level is refused: move it.
    #[command(verbatim_doc_comment)]
    Add(Edit),
    /// As add, and take the hosts out of the places of this level in which they are
    Move(Edit),
    /// Take places of smaller levels, or hosts, out of a place; without any, remove the place itself
    ///
    ///   placewright topology remove --row 7 rack-13
    ///   placewright topology remove --row 7
    #[command(verbatim_doc_comment)]
    Remove(Edit),
    /// List the levels that you may name in topology rules, the smallest first, and their places as far as you may see
    /// them
    Levels(levels::Levels),
}

/// Load the places of hosts from a CSV file
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The CSV file with the place of each host
    file: PathBuf,

    /// A CSV file with your own distances between places of one level
    #[arg(long, value_name = "FILE")]
    distances: Option<PathBuf>,

    /// Take hosts that the file does not name out of all places, and forget other levels, places and distances
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    service_args: ServiceArgs,
}

/// Arguments that name a place, and its members that are added, moved or removed.
#[derive(Debug, Args)]
pub(crate) struct Edit {
    #[command(flatten)]
    service_args: ServiceArgs,

    /// The level with two hyphens, the place, and then places of smaller levels or hosts. Options come before
    #[arg(
        required = true,
        num_args = 2..,
        allow_hyphen_values = true,
        trailing_var_arg = true,
        value_name = "--LEVEL PLACE MEMBER"
    )]
    words: Vec<String>,
}

/// The arguments that the topology commands share which change something: the services, the token and `--dry-run`.
#[derive(Debug, Args)]
pub(crate) struct ServiceArgs {
    /// The address of the Placement API, where the places become aggregates
    #[arg(
        long,
        env = "PLACEWRIGHT_URL",
        default_value = "http://127.0.0.1:8778",
        value_parser = server_url
    )]
    url: String,

    #[command(flatten)]
    scheduler: SchedulerAddress,

    #[command(flatten)]
    token: TokenArgs,

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
            Self::Add(edit) => edit.run(edit::Kind::Add),
            Self::Move(edit) => edit.run(edit::Kind::Move),
            Self::Remove(edit) => edit.run(edit::Kind::Remove),
            Self::Levels(levels) => levels.run(),
        }
    }
}
