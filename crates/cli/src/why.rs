//! `placewright why`: why a server is where it is, as it was decided, and what was tried.

mod text;

use anyhow::Context as _;
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use placewright_client::Decisions;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::compute_api::ComputeAddress;
use crate::journal::BadArgument;
use crate::scheduler_api::Question;

/// How many servers of one name are listed, so that one of them can be chosen.
const NAMESAKES_MAX: usize = 20;
/// How many of the latest actions are read.
const ACTIONS_MAX: usize = 10;

/// Arguments of `placewright why`.
#[derive(Debug, Args)]
#[command(after_help = "\
What is said of the ranking was kept when the host was claimed. It says how many hosts there were, which were the best, \
what each weigher gave them, and who was faster. It cannot say why a host that is not listed was not among the best; \
`placewright explain --destination FILE --host HOST` says that as of now.

Examples:\n  \
    placewright why web-1 --cloud placewright\n  \
    placewright why 5f0c7e5e-3b77-4d0c-9a3f-0f6f6d0c8a11 --json | jq .decisions[0].search.ranking")]
pub(crate) struct Why {
    /// The server, by its name or UUID
    server: String,

    #[command(flatten)]
    compute: ComputeAddress,

    #[command(flatten)]
    question: Question,
}

/// All that is printed of a server.
#[derive(Debug, Deserialize)]
struct Answer {
    /// The name and status, if the compute API answered.
    server: Option<Server>,
    #[serde(flatten)]
    decisions: Decisions,
    /// What was done with the server, the latest first.
    #[serde(default)]
    actions: Vec<Action>,
    /// Why actions could not be read.
    #[serde(default)]
    actions_missing: Option<String>,
}

/// A server of the compute API.
#[derive(Debug, Deserialize)]
struct Server {
    name: String,
    status: String,
}

/// An action with its events.
#[derive(Debug, Deserialize)]
struct Action {
    action: String,
    #[serde(default)]
    events: Vec<Event>,
}

/// A step of an action: the search for a host, or an attempt on one.
#[derive(Debug, Deserialize)]
struct Event {
    event: String,
    start_time: String,
    result: Option<String>,
    #[serde(default)]
    host: Option<String>,
    #[serde(default)]
    details: Option<String>,
}

impl Why {
    /// Asks for the decisions and the actions of the server, and prints them.
    ///
    /// # Errors
    ///
    /// There is no such server, or the scheduler API does not answer, or refuses the request.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let (instance, server) = match Uuid::parse_str(&self.server) {
            // Without the compute API the decisions are still known.
            Ok(uuid) => (uuid, self.find_by_uuid(uuid).ok()),
            Err(_) => self.find_by_name()?,
        };
        let mut answer = self.question.get(&format!("/v1/decisions/{instance}"))?;
        match self.actions(instance) {
            Ok(actions) => answer["actions"] = actions,
            Err(error) => answer["actions_missing"] = json!(format!("{error:#}")),
        }
        answer["server"] = server.unwrap_or(Value::Null);
        let not_readable = "the server's answer is no decision";
        self.question.print(answer, not_readable, Answer::to_text)
    }

    fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.question
            .client
            .get_from_compute(&self.compute.compute_url, path)
    }

    fn find_by_uuid(&self, uuid: Uuid) -> anyhow::Result<Value> {
        let found = self.get(&format!("/servers/{uuid}"))?;
        Ok(found["server"].clone())
    }

    /// The only server with this name.
    fn find_by_name(&self) -> anyhow::Result<(Uuid, Option<Value>)> {
        let pattern = format!("^{}$", escaped(&self.server));
        let pattern = utf8_percent_encode(&pattern, NON_ALPHANUMERIC);
        let limit = NAMESAKES_MAX;
        let path = format!("/servers/detail?all_tenants=1&limit={limit}&name={pattern}");
        let listing = self.get(&path)?;
        let servers = listing.get("servers").and_then(Value::as_array);
        let servers = servers.context("the server's answer lists no servers")?;
        let name = &self.server;
        match servers.as_slice() {
            [] => Err(BadArgument(format!("there is no server {name:?}")).into()),
            [server] => {
                let id = server["id"].as_str().unwrap_or_default();
                let uuid = Uuid::parse_str(id).context("the server's answer has no id")?;
                Ok((uuid, Some(server.clone())))
            }
            several => {
                let ids = several.iter().filter_map(|server| server["id"].as_str());
                let ids: Vec<&str> = ids.collect();
                let text = format!(
                    "several servers are named {name:?}; say which: {}",
                    ids.join(", ")
                );
                Err(BadArgument(text).into())
            }
        }
    }

    /// The latest actions with their events.
    fn actions(&self, instance: Uuid) -> anyhow::Result<Value> {
        let path = format!("/servers/{instance}/os-instance-actions");
        let listing = self.get(&path)?;
        let listed = listing["instanceActions"].as_array();
        let listed = listed.context("the server's answer lists no actions")?;
        let mut actions = Vec::new();
        for action in listed.iter().take(ACTIONS_MAX) {
            let request = action["request_id"].as_str().unwrap_or_default();
            let request = utf8_percent_encode(request, NON_ALPHANUMERIC);
            let details = self.get(&format!("{path}/{request}"))?;
            actions.push(details["instanceAction"].clone());
        }
        Ok(Value::Array(actions))
    }
}

/// A name as a regular expression that matches nothing else.
fn escaped(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for character in name.chars() {
        if character.is_ascii_punctuation() && character != '-' && character != '_' {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}
