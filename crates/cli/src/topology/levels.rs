//! `placewright topology levels`: what the caller sees of the topology, from the compute API.

use std::fmt::Write as _;

use anyhow::Context as _;
use clap::Args;
use placewright_roles::output;
use serde::Deserialize;

use crate::client::Client;
use crate::compute_api::ComputeAddress;

/// Arguments of `placewright topology levels`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    placewright topology levels --cloud demo\n  \
    placewright topology levels --json | jq -r '.topology.levels[].name'")]
pub(crate) struct Levels {
    #[command(flatten)]
    compute: ComputeAddress,

    #[command(flatten)]
    client: Client,

    /// Print the server's answer as it is
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Answer {
    topology: Topology,
}

#[derive(Deserialize)]
struct Topology {
    levels: Vec<Level>,
}

#[derive(Deserialize)]
struct Level {
    name: String,
    /// The names of the level's places, if the caller sees them.
    places: Option<Vec<String>>,
}

impl Levels {
    /// Asks the compute API, and prints the levels.
    ///
    /// # Errors
    ///
    /// The server does not answer, or refuses the request.
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let answer =
            (self.client).get_from_compute(&self.compute.compute_url, "/placewright/topology")?;
        if self.json {
            return output::print(&format!("{answer}\n"));
        }
        let answer: Answer =
            serde_json::from_value(answer).context("the server's answer is no topology")?;
        output::print(&to_text(&answer.topology.levels))
    }
}

fn to_text(levels: &[Level]) -> String {
    if levels.is_empty() {
        return "You see no level of the topology. Rules may name single hosts: level=host.\n"
            .to_owned();
    }
    let mut text = String::new();
    for level in levels {
        let _ = writeln!(text, "{}", level.name);
        for place in level.places.iter().flatten() {
            let _ = writeln!(text, "  {place}");
        }
    }
    text
}
