//! `placewright audit`: prints inconsistencies between allocations, instances, cells and hosts.

use std::fmt::Write as _;

use anyhow::Context as _;
use clap::Args;
use placewright_roles::output;
use serde::Deserialize;

use crate::client::Client;

/// Arguments of `placewright audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditCommand {
    /// Repair what can be repaired safely
    #[arg(long)]
    repair: bool,

    /// With --repair: have hosts destroy the guests that no cell knows
    #[arg(long, requires = "repair")]
    destroy_unknown_guests: bool,

    /// Print the server's answer as it is
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    client: Client,
}

/// The JSON body of the server's response.
#[derive(Debug, Deserialize)]
struct AuditReport {
    findings: Vec<Finding>,
    repaired: usize,
}

#[derive(Debug, Deserialize)]
struct Finding {
    kind: String,
    id: String,
    cell: Option<String>,
    host: Option<String>,
    /// The inconsistency, as a sentence.
    what: String,
    /// What the repair does; absent if there is no repair.
    repair: Option<String>,
    /// `done`, or why the finding was not repaired; absent if no repair was asked for.
    outcome: Option<String>,
}

impl AuditCommand {
    /// Requests an audit and prints the findings. Returns whether there are none.
    ///
    /// # Errors
    ///
    /// The server does not answer, or refuses.
    pub(crate) fn run(&self) -> anyhow::Result<bool> {
        let response = if self.repair {
            let path = "/placewright/v1/audit/repair";
            match self.destroy_unknown_guests {
                true => self
                    .client
                    .post(&format!("{path}?destroy_unknown_guests=true"))?,
                false => self.client.post(path)?,
            }
        } else {
            self.client.get("/placewright/v1/audit")?
        };
        let text = format!("{response}\n");
        let report: AuditReport =
            serde_json::from_value(response).context("the server's answer is no audit")?;
        let text = if self.json {
            text
        } else {
            self.describe(&report)
        };
        output::print(&text)?;
        Ok(report.findings.is_empty())
    }

    fn describe(&self, report: &AuditReport) -> String {
        if report.findings.is_empty() {
            return "everything adds up\n".to_owned();
        }
        let mut text = String::new();
        for finding in &report.findings {
            let _ = write!(text, "{:<19} {}", finding.kind, finding.id);
            for (name, value) in [("cell", &finding.cell), ("host", &finding.host)] {
                if let Some(value) = value {
                    let _ = write!(text, "  {name} {value}");
                }
            }
            let _ = write!(text, "\n    {}", finding.what);
            match (&finding.outcome, &finding.repair) {
                (Some(outcome), Some(repair)) if outcome == "done" => {
                    let _ = write!(text, " Repaired: {repair}.");
                }
                (Some(outcome), _) => {
                    let _ = write!(text, " Not repaired: {outcome}.");
                }
                (None, Some(repair)) => {
                    let _ = write!(text, " --repair {repair}.");
                }
                (None, None) => {}
            }
            text.push('\n');
        }
        let count = report.findings.len();
        text.push_str(&match (count, self.repair) {
            (1, false) => "1 finding\n".to_owned(),
            (_, false) => format!("{count} findings\n"),
            (_, true) => format!("{} of {count} findings repaired\n", report.repaired),
        });
        text
    }
}
