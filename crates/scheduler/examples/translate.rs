//! Translates requests, one JSON object a line, and writes what placement would be asked.
//!
//! `echo '{"spec": {"flavor": {"vcpus": 1, "memory_mb": 512}}}' | cargo run --example translate`
//!
//! A line holds `spec` (see `placewright_scheduler::request`), and for what is around it
//! `aggregates`, `compute_nodes`, `segments`, `compute_version_min`, `prefilters` and `nova`, which
//! says whether translation follows Nova's defaults. The answer holds `query` and `fallback` as
//! Nova writes them, or `refused` with the step, the field and the message.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use placewright_scheduler::prefilter::{self, Environment, PrefilterOptions};
use placewright_scheduler::request::{self, RequestSpec};
use placewright_scheduler::translate::numa::GuestTopology;
use placewright_scheduler::translate::pci::PciAliases;
use placewright_scheduler::translate::target::{self, ComputeNode, Target};
use placewright_scheduler::translate::{TranslateOptions, translate};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    spec: RequestSpec,
    #[serde(default)]
    aggregates: BTreeMap<Uuid, BTreeMap<String, String>>,
    #[serde(default)]
    compute_nodes: Vec<Node>,
    #[serde(default)]
    segments: BTreeMap<Uuid, Vec<Uuid>>,
    #[serde(default)]
    compute_version_min: u32,
    #[serde(default)]
    prefilters: Option<PrefilterOptions>,
    #[serde(default)]
    pci_in_placement: bool,
    #[serde(default)]
    pci_aliases: PciAliases,
    #[serde(default)]
    numa_in_placement: bool,
}

#[derive(Deserialize)]
struct Node {
    uuid: Uuid,
    host: String,
    node: String,
}

impl Environment for Line {
    fn each_aggregate(&self, visit: &mut dyn FnMut(Uuid, &BTreeMap<String, String>)) {
        for (uuid, metadata) in &self.aggregates {
            visit(*uuid, metadata);
        }
    }

    fn segment_aggregates(&self, segment: Uuid) -> Option<Vec<Uuid>> {
        self.segments.get(&segment).cloned()
    }

    fn compute_version_min(&self) -> u32 {
        self.compute_version_min
    }

    fn compute_nodes(&self, target: Target<'_>) -> Vec<ComputeNode> {
        let matches = |wanted: Option<&str>, name: &str| wanted.is_none_or(|text| text == name);
        let nodes = self
            .compute_nodes
            .iter()
            .filter(|node| matches(target.host, &node.host) && matches(target.node, &node.node));
        nodes
            .map(|node| ComputeNode {
                uuid: node.uuid,
                host: node.host.clone(),
                node: node.node.clone(),
            })
            .collect()
    }
}

#[derive(Default, Serialize)]
struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Refused>,
    #[serde(skip_serializing_if = "Option::is_none")]
    numa: Option<serde_json::Value>,
    warnings: Vec<String>,
    rules: Vec<String>,
    applied: Vec<String>,
}

#[derive(Serialize)]
struct Refused {
    step: &'static str,
    field: String,
    message: String,
}

impl Refused {
    fn new(step: &'static str, field: impl Into<String>, error: &impl ToString) -> Self {
        Self {
            step,
            field: field.into(),
            message: error.to_string(),
        }
    }
}

fn answer(line: &Line, answer: &mut Answer) -> Result<(), Refused> {
    let base = TranslateOptions::nova();
    let options = TranslateOptions {
        pci_in_placement: line.pci_in_placement,
        pci_aliases: line.pci_aliases.clone(),
        numa_in_placement: line.numa_in_placement,
        ..base
    };
    let spec = &line.spec;
    let mut translation = translate(spec, &options)
        .map_err(|error| Refused::new("translate", error.field(), &error))?;
    answer.numa = translation.numa.as_ref().map(cells);
    let prefilters = line.prefilters.clone().unwrap_or_default();
    let additions = prefilter::apply(spec, &translation, &prefilters, line)
        .map_err(|error| Refused::new("prefilter", error.field().unwrap_or_default(), &error))?;
    additions.add_to(&mut translation);
    answer.applied = additions
        .applied
        .iter()
        .map(|name| format!("{name:?}"))
        .collect();
    answer.warnings = translation
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect();
    answer.rules = translation
        .rules
        .iter()
        .map(|rule| format!("{rule:?}"))
        .collect();
    let mut pointed = Ok(());
    let forms = [
        Some(&mut translation.request),
        translation.fallback.as_mut(),
    ];
    for request in forms.into_iter().flatten() {
        pointed = pointed.and(target::point(request, spec, |target| {
            line.compute_nodes(target)
        }));
    }
    if let Err(target::TargetRefusal::NoSuchHost { .. }) = &pointed {
        return Err(Refused::new(
            "target",
            "requested_destination",
            &"no such host",
        ));
    }
    answer.query = Some(translation.request.to_query_string());
    answer.fallback = translation
        .fallback
        .as_ref()
        .map(|form| form.to_query_string());
    pointed.map_err(|error| Refused::new("target", "group_policy", &error))?;
    translation
        .request
        .to_candidate_query()
        .map_err(|error| Refused::new("query", error.field(), &error))?;
    Ok(())
}

fn cells(guest: &GuestTopology) -> serde_json::Value {
    let cells = guest.cells.iter().map(|cell| {
        serde_json::json!({
            "shared": cell.shared_cpus,
            "dedicated": cell.dedicated_cpus,
            "memory_mb": cell.memory_mb,
        })
    });
    serde_json::json!({
        "cells": cells.collect::<Vec<_>>(),
        "page_size": guest.page_size.map(|size| format!("{size:?}")),
        "cpu_policy": guest.cpu_policy.map(|policy| format!("{policy:?}").to_lowercase()),
        "cpu_thread_policy":
            guest.cpu_thread_policy.map(|policy| format!("{policy:?}").to_lowercase()),
        "emulator_threads_policy":
            guest.emulator_threads_policy.map(|policy| format!("{policy:?}").to_lowercase()),
    })
}

fn main() -> std::io::Result<()> {
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    for text in std::io::stdin().lock().lines() {
        let text = text?;
        let mut found = Answer::default();
        let read = request::read::<Line, _>(&mut serde_json::Deserializer::from_str(&text));
        let outcome = match read {
            Ok(line) => answer(&line, &mut found),
            Err(error) => Err(Refused::new("read", error.field.clone(), &error)),
        };
        found.refused = outcome.err();
        serde_json::to_writer(&mut output, &found)?;
        output.write_all(b"\n")?;
    }
    output.flush()
}
