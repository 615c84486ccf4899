//! `placewright explain`: explains which hosts a query for candidates finds, or why the scheduler selects a host.

mod destination;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use crate::scheduler_api::Question;

/// Arguments of `placewright explain`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    placewright explain 'resources=VCPU:8,MEMORY_MB:16384&required=HW_CPU_X86_AVX2'\n  \
    placewright explain --json 'resources=VCPU:8' | jq .near_misses\n  \
    echo '{\"flavor\": {\"vcpus\": 2, \"memory_mb\": 4096}}' |\n    \
    placewright explain --destination - --host host-17 --host host-18")]
pub(crate) struct Explain {
    /// The query of `GET /allocation_candidates`: what comes after the question mark
    #[arg(required_unless_present = "destination")]
    query: Option<String>,

    /// Say why the scheduler selects the host that it does: a file with a request spec, as `request` of
    /// `POST /v1/destinations` has it; `-` is standard input. Nothing is claimed
    #[arg(long, value_name = "FILE", conflicts_with = "query")]
    destination: Option<PathBuf>,

    /// With --destination: explain also the rank or the exclusion of this host, given by the name of its compute
    /// service or the UUID of its node; may be given up to ten times
    #[arg(
        long,
        value_name = "HOST",
        requires = "destination",
        conflicts_with = "query"
    )]
    host: Vec<String>,

    #[command(flatten)]
    question: Question,
}

/// The JSON body of the server's response.
#[derive(Debug, Deserialize)]
struct Explanation {
    /// How many root providers there are.
    roots: u64,
    /// How many of them satisfy all constraints.
    left: u64,
    /// Whether the server completed its search within its limit of work. Otherwise the numbers are lower bounds, and
    /// near misses or the smallest impossible set may be missing.
    exact: bool,
    constraints: Vec<ConstraintRemoval>,
    smallest_impossible_set: Option<Vec<String>>,
    near_misses: Vec<NearMiss>,
}

/// How many root providers one constraint removes, in the response.
#[derive(Debug, Deserialize)]
struct ConstraintRemoval {
    constraint: String,
    /// The number of root providers that it removes, of those that satisfy all constraints before this one.
    removed: u64,
    /// The number of all root providers that the constraint removes when it is the only one.
    removed_alone: u64,
}

/// Root providers that lack the same things, in the response.
#[derive(Debug, Deserialize)]
struct NearMiss {
    roots: u64,
    example: Option<Provider>,
    lacks: Vec<Lack>,
}

#[derive(Debug, Deserialize)]
struct Provider {
    uuid: String,
    name: String,
}

/// A constraint that root providers do not satisfy, in the response.
#[derive(Debug, Deserialize)]
struct Lack {
    constraint: Option<String>,
    reason: String,
    /// How much is missing, if the reason is an amount.
    missing: Option<i64>,
}

impl Explain {
    /// Requests an explanation and prints it.
    ///
    /// # Errors
    ///
    /// The server does not answer, or refuses the query.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if let Some(request) = &self.destination {
            return destination::run(self, request);
        }
        let query = self.query.as_deref().unwrap_or_default();
        let query = query.strip_prefix('?').unwrap_or(query);
        let path = format!("/placewright/v1/explain?{query}");
        let response = self.question.client.get(&path)?;
        let not_readable = "the server's answer is no explanation";
        self.question
            .print(response, not_readable, Explanation::to_text)
    }
}

impl Explanation {
    fn to_text(&self) -> String {
        let mut out = String::new();
        let _ = match (self.roots, self.left) {
            (0, _) => writeln!(out, "There are no hosts at all."),
            (roots, 0) => writeln!(out, "Nothing fits: none of {} is left.", host_count(roots)),
            (roots, left) => writeln!(
                out,
                "{left} of {} can serve this request.",
                host_count(roots)
            ),
        };
        if !self.exact {
            out.push_str(
                "The search was ended early: the numbers are lower bounds, and what follows may be incomplete.\n",
            );
        }
        out.push_str("\n   removed     alone   constraint, in the order applied\n");
        for ConstraintRemoval {
            constraint,
            removed,
            removed_alone,
        } in &self.constraints
        {
            let _ = writeln!(out, "{removed:>10}{removed_alone:>10}   {constraint}");
        }
        match self.smallest_impossible_set.as_deref() {
            None | Some([]) => {}
            Some([constraint]) => {
                let _ = writeln!(out, "\nThis alone leaves nothing: {constraint}");
            }
            Some(constraints) => {
                let _ = writeln!(out, "\nThese together leave nothing:");
                for constraint in constraints {
                    let _ = writeln!(out, "  {constraint}");
                }
            }
        }
        if !self.near_misses.is_empty() {
            out.push_str("\nNearest misses:\n");
            for miss in &self.near_misses {
                let _ = writeln!(out, "  {}", miss.to_text());
            }
        }
        out
    }
}

impl NearMiss {
    fn to_text(&self) -> String {
        let lacks: Vec<String> = self.lacks.iter().map(Lack::to_text).collect();
        let example = match &self.example {
            Some(Provider { uuid, name }) if self.roots == 1 => format!(": {name} ({uuid})"),
            Some(Provider { uuid, name }) => format!(", as {name} ({uuid})"),
            None => String::new(),
        };
        format!("{}{example}: {}", host_count(self.roots), lacks.join("; "))
    }
}

impl Lack {
    fn to_text(&self) -> String {
        let constraint = self.constraint.as_deref().unwrap_or("a constraint");
        match (self.reason.as_str(), self.missing) {
            ("amount", Some(missing)) => format!("{missing} too few free for {constraint}"),
            ("inventory", _) => format!("has no inventory for {constraint}"),
            ("units", _) => format!("its units do not allow {constraint}"),
            // A newer server may send other reasons; with any of them the constraint fails.
            _ => format!("fails {constraint}"),
        }
    }
}

/// A number of root providers, called hosts for operators.
fn host_count(number: u64) -> String {
    match number {
        1 => "1 host".to_owned(),
        number => format!("{number} hosts"),
    }
}
