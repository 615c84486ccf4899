//! `placewright status`, `placewright hand-over` and `placewright append-lost`: the replicas of control.

use std::fmt::Write as _;

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use placewright_client::server_url;
use placewright_roles::output;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::Client;
use crate::top::printable;

/// The path at which a replica of control shows its status.
const STATUS_PATH: &str = "/placewright/v1/status";

/// Arguments of `placewright status`.
#[derive(Debug, Args)]
pub(crate) struct StatusCommand {
    /// The addresses of the replicas' Placement APIs, each by itself and not through a proxy; without any, only the
    /// one at --url is asked
    #[arg(value_name = "REPLICA", value_parser = server_url)]
    replicas: Vec<String>,

    /// Print the replicas' answers as they are, as a list
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    client: Client,
}

/// Arguments of `placewright hand-over`.
#[derive(Debug, Args)]
pub(crate) struct HandOverCommand {
    #[command(flatten)]
    client: Client,
}

/// Arguments of `placewright append-lost`.
#[derive(Debug, Args)]
pub(crate) struct AppendLostCommand {
    #[command(flatten)]
    client: Client,
}

/// The status that a replica shows.
#[derive(Debug, Deserialize)]
struct Status {
    release: String,
    /// The version of the records that the replica writes to its journal.
    record_version: u8,
    /// `alone`, `leads`, `follows` or `stopped`.
    role: String,
    /// The address at which other replicas reach this one; none if this process alone writes the journal.
    address: Option<String>,
    /// The replica that leads; none if this process alone writes the journal, or no leader is known.
    leader: Option<Leader>,
    /// The sequence number of the last entry that the replica has applied.
    applied: u64,
    /// How many entries the replica knows of and has not applied.
    lag: u64,
    /// How many commands this replica, while it followed, has handed over to the leader since its start.
    commands_handed_over: u64,
    /// How many handed-over commands have no result yet.
    commands_waiting: u64,
    /// The acknowledged entries that the store does not have any more, if there are any.
    lost: Option<Lost>,
    /// The kind of the store.
    store: Option<String>,
    /// Left out by earlier releases.
    #[serde(default)]
    followers: Vec<Follower>,
    /// Left out by earlier releases.
    #[serde(default)]
    cells: Vec<CellServices>,
}

/// The versions of the compute services of one cell.
#[derive(Debug, Deserialize)]
struct CellServices {
    cell: String,
    name: Option<String>,
    hosts: u64,
    /// The lowest version among the hosts' compute services.
    minimum: u32,
    /// The version of the compute service of the replica's release.
    newest: u32,
    /// How many hosts have a version before `newest`, and some of them.
    behind: u64,
    behind_hosts: Vec<HostVersion>,
}

#[derive(Debug, Deserialize)]
struct HostVersion {
    node: String,
    version: u32,
}

#[derive(Debug, Deserialize)]
struct Follower {
    address: String,
    release: String,
    applied: u64,
}

#[derive(Debug, Deserialize)]
struct Leader {
    address: String,
    /// The sequence number of the entry with which it began to lead.
    epoch: u64,
    /// When it began to lead, in milliseconds since 1970.
    since_ms: i64,
    /// Why it began to lead.
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Lost {
    first: u64,
    last: u64,
    /// Why this replica cannot append the entries again; none if it can.
    reason_against_appending: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Appended {
    first: u64,
    last: u64,
}

impl StatusCommand {
    /// Asks each replica and prints its answer. Returns whether all of them answer, and no store has lost entries.
    ///
    /// # Errors
    ///
    /// The output cannot be written; or the only replica that is asked does not answer.
    pub(crate) fn run(&self) -> anyhow::Result<bool> {
        if self.replicas.is_empty() {
            let answer = self.client.get(STATUS_PATH)?;
            return self.print(&[("this one".to_owned(), Ok(answer))]);
        }
        let answers = self.replicas.iter().map(|url| {
            let answer = self.client.get_from(url, STATUS_PATH);
            (url.clone(), answer)
        });
        self.print(&answers.collect::<Vec<_>>())
    }

    fn print(&self, answers: &[(String, anyhow::Result<Value>)]) -> anyhow::Result<bool> {
        let mut are_well = true;
        let mut text = String::new();
        let mut values = Vec::new();
        for (asked, answer) in answers {
            match answer {
                Ok(value) => {
                    let status = Status::deserialize(value).context("the answer is no status")?;
                    are_well &= status.lost.is_none();
                    describe(&mut text, asked, &status);
                    values.push(json!({"replica": asked, "status": value}));
                }
                Err(error) => {
                    are_well = false;
                    let _ = writeln!(text, "{asked}\n  does not answer: {error:#}");
                    values.push(json!({"replica": asked, "error": format!("{error:#}")}));
                }
            }
        }
        match self.json {
            true => output::print(&format!("{}\n", Value::Array(values)))?,
            false => output::print(&text)?,
        }
        Ok(are_well)
    }
}

/// Appends the status of a replica as lines for people. `asked` is the address that was asked.
fn describe(text: &mut String, asked: &str, status: &Status) {
    let role = match status.role.as_str() {
        "alone" => "alone: no other process writes its journal",
        "leads" => "leads",
        "follows" => "follows",
        "stopped" => "stopped: it takes no requests",
        other => other,
    };
    let address = status.address.as_deref().unwrap_or("none");
    let _ = writeln!(text, "{asked}\n  role      {role}");
    if status.address.is_some() {
        let _ = writeln!(text, "  address   {address}");
    }
    let _ = writeln!(
        text,
        "  release   {}, writes records of version {}",
        status.release, status.record_version
    );
    if let Some(store) = &status.store {
        let _ = writeln!(text, "  store     {store}");
    }
    let _ = writeln!(
        text,
        "  position  entry {}, {} behind what it knows of",
        status.applied, status.lag
    );
    if status.address.is_some() {
        let _ = writeln!(
            text,
            "  commands  {} handed over, {} waiting",
            status.commands_handed_over, status.commands_waiting
        );
    }
    if let Some(leader) = &status.leader {
        let since = Timestamp::from_millisecond(leader.since_ms)
            .map_or_else(|_| "an unknown time".to_owned(), |since| since.to_string());
        let _ = writeln!(
            text,
            "  leader    {} since {since} (entry {}): {}",
            leader.address, leader.epoch, leader.reason
        );
    }
    for follower in &status.followers {
        let _ = writeln!(
            text,
            "  followed  by {}, release {}, which has applied entry {}, {} behind",
            follower.address,
            follower.release,
            follower.applied,
            status.applied.saturating_sub(follower.applied)
        );
    }
    (status.cells.iter()).for_each(|cell| describe_cell(text, cell));
    if let Some(lost) = &status.lost {
        let Lost { first, last, .. } = lost;
        let _ = writeln!(
            text,
            "  LOST      the store does not have entries {first} to {last} any more, which were acknowledged"
        );
        let _ = match &lost.reason_against_appending {
            Some(reason) => writeln!(text, "            {reason}"),
            None => writeln!(
                text,
                "            this replica has them in memory: `placewright append-lost` appends them again; or start \
                 all replicas anew to give them up"
            ),
        };
    }
}

/// Appends the versions of a cell's compute services.
fn describe_cell(text: &mut String, services: &CellServices) {
    let name = printable(services.name.as_deref().unwrap_or(&services.cell));
    let hosts = match services.hosts {
        1 => "1 host".to_owned(),
        hosts => format!("{hosts} hosts"),
    };
    let minimum = services.minimum;
    let _ = writeln!(
        text,
        "  cell      {name}: {hosts}, compute services of version {minimum} at least"
    );
    if services.behind == 0 {
        return;
    }
    let named = services.behind_hosts.iter().map(|host| match host.version {
        // The agent is of a release that reports no version.
        0 => format!("{} (says none)", printable(&host.node)),
        version => format!("{} ({version})", printable(&host.node)),
    });
    let mut named: Vec<String> = named.collect();
    let unnamed = services.behind.saturating_sub(named.len() as u64);
    if unnamed > 0 {
        named.push(format!("and {unnamed} more"));
    }
    let _ = writeln!(
        text,
        "            what version {} brings waits for {}",
        services.newest,
        named.join(", ")
    );
}

impl HandOverCommand {
    /// Has another replica lead.
    ///
    /// # Errors
    ///
    /// The replica does not lead, or none takes over, or there is no answer.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let answer = self.client.post("/placewright/v1/hand-over")?;
        let leader = answer.pointer("/leader/address").and_then(Value::as_str);
        let leader = leader.context("the server's answer names no leader")?;
        output::print(&format!("{leader} leads now\n"))?;
        Ok(())
    }
}

impl AppendLostCommand {
    /// Has a replica append the entries that the store has lost.
    ///
    /// # Errors
    ///
    /// No entry is lost, or the replica cannot append the lost entries, or there is no answer.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let answer = self.client.post("/placewright/v1/lost-entries/append")?;
        let Appended { first, last } =
            serde_json::from_value(answer).context("the server's answer names no entries")?;
        output::print(&format!("entries {first} to {last} are appended again\n"))?;
        Ok(())
    }
}
