//! `placewright explain --destination`: prints why the scheduler selects the host that it does, and the ranks of the
//! hosts that `--host` names, or what excluded them.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Explain;

/// How many of the best hosts the server's ranking has. If the selected host is not among them, the ranking has it
/// after them.
const BEST_MAX: usize = 10;

/// The part of the response to `POST /v1/destinations` that is printed.
#[derive(Debug, Deserialize)]
struct Destinations {
    selections: Vec<Selection>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Selection {
    explanation: Option<Explanation>,
}

#[derive(Debug, Deserialize)]
struct Explanation {
    /// How many hosts were feasible, and were compared.
    compared: u64,
    ranking: Vec<ScoredHost>,
    #[serde(default)]
    hosts: Vec<AskedHost>,
}

/// A host with its score.
#[derive(Debug, Deserialize)]
struct ScoredHost {
    host: String,
    node: String,
    score: f64,
    selected: bool,
    #[serde(rename = "weights")]
    shares: Vec<Share>,
}

/// The part of a host's score that comes from one weigher.
#[derive(Debug, Deserialize)]
struct Share {
    weigher: String,
    share: f64,
}

/// A host that `--host` asks about: ranked, or excluded.
#[derive(Debug, Deserialize)]
struct AskedHost {
    /// The name or UUID that `--host` gives.
    asked: String,
    node: Option<String>,
    rank: Option<u64>,
    score: Option<f64>,
    #[serde(default, rename = "weights")]
    shares: Vec<Share>,
    excluded: Option<Exclusion>,
}

#[derive(Debug, Deserialize)]
struct Exclusion {
    reason: String,
    filter: Option<String>,
    constraint: Option<String>,
}

/// Asks the scheduler for a destination without a claim, and prints why it was selected.
///
/// # Errors
///
/// The request cannot be read, or the server does not answer, or refuses it.
pub(super) fn run(explain: &Explain, request: &Path) -> anyhow::Result<()> {
    let request = read(request)
        .with_context(|| format!("--destination {}: it cannot be read", request.display()))?;
    let body = json!({
        "request": request,
        // A UUID that no server has: the question is about a new server, and not about one that exists.
        "instances": [Uuid::from_u64_pair(0x7e57, u64::MAX)],
        "claim": false,
        "explain": true,
        "explain_hosts": explain.host,
    });
    let question = &explain.question;
    let response = question.post("/v1/destinations", &body)?;
    let not_readable = "the server's answer names no destinations";
    question.print(response, not_readable, Destinations::to_text)
}

/// A request spec, alone or in a whole body for `POST /v1/destinations`.
fn read(file: &Path) -> anyhow::Result<Value> {
    let text = match file.as_os_str() == "-" {
        true => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
        false => std::fs::read_to_string(file)?,
    };
    let mut value: Value = serde_json::from_str(&text)?;
    Ok(match value.get_mut("request") {
        Some(request) => request.take(),
        None => value,
    })
}

impl Destinations {
    fn to_text(&self) -> String {
        let mut out = String::new();
        for warning in &self.warnings {
            let _ = writeln!(out, "warning: {warning}");
        }
        let explanations = self
            .selections
            .iter()
            .filter_map(|selection| selection.explanation.as_ref());
        for explanation in explanations {
            explanation.write(&mut out);
        }
        out
    }
}

impl Explanation {
    fn write(&self, out: &mut String) {
        let compared = super::host_count(self.compared);
        let _ = writeln!(
            out,
            "The best of {compared} that passed all filters:\n\n  rank       score   host"
        );
        for (index, host) in self.ranking.iter().enumerate() {
            let selected = if host.selected { ", selected" } else { "" };
            let name = host_and_node(&host.host, Some(&host.node));
            let rank = if index < BEST_MAX {
                (index + 1).to_string()
            } else {
                "?".to_owned()
            };
            let _ = writeln!(out, "{rank:>6}{:>12.4}   {name}{selected}", host.score);
            let _ = writeln!(out, "{:>21}{}", "", shares_text(&host.shares));
        }
        if !self.hosts.is_empty() {
            out.push_str("\nAsked about:\n");
        }
        for host in &self.hosts {
            let _ = writeln!(out, "  {}", host.to_text());
        }
    }
}

impl AskedHost {
    fn to_text(&self) -> String {
        let name = host_and_node(&self.asked, self.node.as_deref());
        if let (Some(rank), Some(score)) = (self.rank, self.score) {
            let shares = shares_text(&self.shares);
            return format!("{name}: rank {rank}, score {score:.4} ({shares})");
        }
        let Some(excluded) = &self.excluded else {
            return format!("{name}: nothing is said of it");
        };
        let what = match (&*excluded.reason, &excluded.filter, &excluded.constraint) {
            ("filter", Some(filter), _) => format!("excluded by the filter {filter}"),
            ("placement", _, Some(constraint)) => {
                format!("excluded by placement: it fails {constraint}")
            }
            ("rule", ..) => "excluded by a hard rule of the group or the topology".to_owned(),
            ("search", ..) => "other instances of the request take it".to_owned(),
            ("unknown", ..) => "the scheduler has not heard of such a host".to_owned(),
            // A newer server may have other reasons.
            (other, ..) => format!("excluded: {other}"),
        };
        format!("{name}: {what}")
    }
}

/// The name of a host, with that of its node if they differ.
fn host_and_node(host: &str, node: Option<&str>) -> String {
    match node {
        Some(node) if node != host => format!("{host} (node {node})"),
        _ => host.to_owned(),
    }
}

/// The parts of a host's score, as text, without those that are 0.
fn shares_text(shares: &[Share]) -> String {
    // A host that is the only feasible one is not weighed.
    if shares.is_empty() {
        return "compared with no other".to_owned();
    }
    let effective = shares.iter().filter(|share| share.share != 0.0);
    let texts: Vec<String> = effective
        .map(|Share { weigher, share }| format!("{weigher} {share:.4}"))
        .collect();
    match texts.is_empty() {
        true => "no weigher prefers it".to_owned(),
        false => texts.join(", "),
    }
}
