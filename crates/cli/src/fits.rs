//! `placewright fits`: how many more of a flavor fit, where, and what stops the next one.

use std::fmt::Write as _;

use anyhow::Context as _;
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use placewright_client::{Capacity, LimitingFactor};
use serde_json::{Map, Value, json};

use crate::compute_api::ComputeAddress;
use crate::journal::BadArgument;
use crate::scheduler_api::Question;

/// The most places that each table lists. Up to two rows follow them: the sum over the places that are not listed, and
/// the instances that are in no place.
const PLACES_MAX: usize = 20;

/// How many flavors are asked for at a time: the largest page that the compute API gives unless it is configured.
const FLAVORS_OF_PAGE: usize = 1000;

/// Arguments of `placewright fits`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    placewright fits small --cloud placewright\n  \
    placewright fits --resource VCPU=4 --resource MEMORY_MB=8192 --trait HW_CPU_X86_AVX2\n  \
    placewright fits small --zone north --json | jq .by_level")]
pub(crate) struct Fits {
    /// The flavor, by its name or ID in the compute API
    #[arg(required_unless_present = "resources")]
    flavor: Option<String>,

    /// In place of a flavor: an amount of a resource class; may be given several times
    #[arg(long = "resource", value_name = "CLASS=AMOUNT", value_parser = amount, conflicts_with = "flavor")]
    resources: Vec<(String, u64)>,

    /// A trait that the hosts must have, or with `!` before it must not have; may be given several times
    #[arg(long = "trait", value_name = "NAME")]
    traits: Vec<String>,

    /// Count in this availability zone only
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,

    /// Simulate the decisions one after another, and stop at this number
    #[arg(long, value_name = "NUMBER")]
    limit: Option<usize>,

    #[command(flatten)]
    compute: ComputeAddress,

    #[command(flatten)]
    // The scheduler's address, the caller's credentials, and the format of the output.
    question: Question,
}

/// An amount of a resource class, as `VCPU=4`.
fn amount(text: &str) -> Result<(String, u64), String> {
    let (class, amount) = text.split_once('=').ok_or("write it as CLASS=AMOUNT")?;
    let amount = amount
        .parse()
        .map_err(|_| format!("{amount:?} is no amount"))?;
    Ok((class.to_owned(), amount))
}

impl Fits {
    /// Asks the scheduler how many instances fit, and prints the answer.
    ///
    /// # Errors
    ///
    /// There is no such flavor, or a server does not answer, or refuses the request.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut body = json!({"request": self.request()?});
        if let Some(limit) = self.limit {
            body["limit"] = json!(limit);
        }
        let response = self.question.post("/v1/capacity", &body)?;
        let not_readable = "the server's answer is no count";
        (self.question).print(response, not_readable, |capacity| self.to_text(capacity))
    }

    /// The request spec of the counted instances.
    fn request(&self) -> anyhow::Result<Value> {
        let mut request = Map::new();
        if let Some(flavor) = &self.flavor {
            request.insert("flavor".to_owned(), self.find_flavor(flavor)?);
        }
        let (forbidden, required): (Vec<&str>, Vec<&str>) =
            (self.traits.iter().map(String::as_str)).partition(|name| name.starts_with('!'));
        let forbidden: Vec<&str> = forbidden.iter().map(|name| &name[1..]).collect();
        let resources = self.resources.iter();
        let resources: Map<String, Value> = resources
            .map(|(class, amount)| (class.clone(), json!(amount)))
            .collect();
        if !resources.is_empty() || !self.traits.is_empty() {
            let group = json!({
                "resources": resources,
                "required_traits": required,
                "forbidden_traits": forbidden,
            });
            request.insert("requested_resources".to_owned(), json!([group]));
        }
        if let Some(zone) = &self.zone {
            request.insert("availability_zone".to_owned(), json!(zone));
        }
        Ok(Value::Object(request))
    }

    /// A flavor of the compute API as the scheduler takes it.
    fn find_flavor(&self, name_or_id: &str) -> anyhow::Result<Value> {
        let base = format!("{}/v2.1", self.compute.compute_url.trim_end_matches('/'));
        let flavor = self.search_flavors(&base, name_or_id)?;
        let id = flavor["id"].as_str().unwrap_or_default();
        let specs = self
            .question
            .client
            .get_from(&base, &format!("/flavors/{id}/os-extra_specs"))?;
        // For a flavor without swap, older versions of the API answer with an empty text in place of a number.
        let swap_mb = flavor["swap"].as_u64().unwrap_or(0);
        Ok(json!({
            "name": flavor["name"],
            "vcpus": flavor["vcpus"],
            "memory_mb": flavor["ram"],
            "root_gb": flavor["disk"],
            "ephemeral_gb": flavor["OS-FLV-EXT-DATA:ephemeral"],
            "swap_mb": swap_mb,
            "extra_specs": specs["extra_specs"],
        }))
    }

    /// The flavor with this ID, or else one with this name, from all pages of the list.
    fn search_flavors(&self, base: &str, name_or_id: &str) -> anyhow::Result<Value> {
        let mut with_name = None;
        let mut marker = String::new();
        loop {
            let path = format!("/flavors/detail?is_public=None&limit={FLAVORS_OF_PAGE}{marker}");
            let listing = self.question.client.get_from(base, &path)?;
            let flavors = listing.get("flavors").and_then(Value::as_array);
            let flavors = flavors.context("the server's answer lists no flavors")?;
            let find = |key: &str| flavors.iter().find(|flavor| flavor[key] == *name_or_id);
            if let Some(flavor) = find("id") {
                return Ok(flavor.clone());
            }
            with_name = with_name.or_else(|| find("name").cloned());
            let last = flavors.last().and_then(|flavor| flavor["id"].as_str());
            match last {
                Some(id) if flavors.len() >= FLAVORS_OF_PAGE => {
                    let id = utf8_percent_encode(id, NON_ALPHANUMERIC);
                    marker = format!("&marker={id}");
                }
                _ => break,
            }
        }
        with_name.ok_or_else(|| BadArgument(format!("there is no flavor {name_or_id:?}")).into())
    }

    fn to_text(&self, capacity: &Capacity) -> String {
        let requested = self.flavor.as_deref().unwrap_or("this request");
        let mut text = match (capacity.count, capacity.more) {
            (0, _) => format!("No further instance of {requested} fits.\n"),
            (count, true) => format!("At least {count} more of {requested} fit, and more.\n"),
            (count, false) => format!(
                "{count} more of {requested} fit, on {}.\n",
                host_count(capacity.hosts)
            ),
        };
        let by_cell = capacity.by_cell.iter();
        let by_cell = by_cell.map(|(cell, count)| (*count, cell.to_string()));
        add_table(&mut text, "by cell", by_cell.collect(), 0);
        let by_zone = capacity.by_zone.iter();
        let by_zone = by_zone.map(|(zone, count)| (*count, zone.clone()));
        add_table(&mut text, "by zone", by_zone.collect(), 0);
        for level in &capacity.by_level {
            let places = level.places.iter();
            let places = places.map(|place| (place.count, place.name.clone()));
            let title = format!("by {}", level.level);
            add_table(&mut text, &title, places.collect(), level.elsewhere);
        }
        if !capacity.limiting_factors.is_empty() {
            text += "\nWhat stops the next one, by number of hosts\n";
            for factor in &capacity.limiting_factors {
                let _ = writeln!(
                    text,
                    "{:>10}  {}",
                    factor.hosts,
                    limiting_factor_text(factor)
                );
            }
        }
        text
    }
}

/// Adds a table of counts, the largest first. `elsewhere` is the number of instances that are in none of the rows'
/// places.
fn add_table(text: &mut String, title: &str, mut rows: Vec<(u64, String)>, elsewhere: u64) {
    if rows.is_empty() {
        return;
    }
    rows.sort_by(|(a, a_name), (b, b_name)| b.cmp(a).then_with(|| a_name.cmp(b_name)));
    let _ = writeln!(text, "\n{title}");
    for (count, name) in rows.iter().take(PLACES_MAX) {
        let _ = writeln!(text, "{count:>10}  {name}");
    }
    if let Some(rest @ [_, ..]) = rows.get(PLACES_MAX..) {
        let sum: u64 = rest.iter().map(|(count, _)| count).sum();
        let _ = writeln!(text, "{sum:>10}  in {} others", rest.len());
    }
    if elsewhere > 0 {
        let _ = writeln!(text, "{elsewhere:>10}  elsewhere");
    }
}

fn limiting_factor_text(factor: &LimitingFactor) -> String {
    let name = factor.name.as_deref().unwrap_or_default();
    match factor.reason.as_str() {
        "resource_class" => format!("too little {name}"),
        "filter" => format!("excluded by {name}"),
        "constraint" => format!("fails {name}"),
        "rule" => "a rule of the group or of the topology".to_owned(),
        "claim" => "the parts of the request compete for the same resources".to_owned(),
        // A newer server may send other reasons.
        other => format!("{other} {name}"),
    }
}

fn host_count(number: usize) -> String {
    match number {
        1 => "1 host".to_owned(),
        number => format!("{number} hosts"),
    }
}
