//! Translates requests and writes the queries for placement. Input and output are one JSON object a
//! line.
//!
//! `echo '{"spec": {"flavor": {"vcpus": 1, "memory_mb": 512}}}' | cargo run --example translate`
//!
//! An input line has `spec` (see `placewright_scheduler::request`). Its environment can be given as
//! `aggregates`, `compute_nodes`, `segments` and `compute_version_min`, and its options as
//! `prefilters`, `pci_in_placement`, `pci_aliases` and `numa_in_placement`. The output line has
//! `query` and `fallback` as Nova would write them, or `refused` with the step, the field and the
//! message.

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
struct Input {
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

impl Environment for Input {
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
        let matches =
            |requested: Option<&str>, name: &str| requested.is_none_or(|text| text == name);
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
struct Output {
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Refusal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    numa: Option<serde_json::Value>,
    warnings: Vec<String>,
    rules: Vec<String>,
    applied: Vec<String>,
}

#[derive(Serialize)]
struct Refusal {
    step: &'static str,
    field: String,
    message: String,
}

impl Refusal {
    fn new(step: &'static str, field: impl Into<String>, error: &impl ToString) -> Self {
        Self {
            step,
            field: field.into(),
            message: error.to_string(),
        }
    }
}

fn translate_input(input: &Input, output: &mut Output) -> Result<(), Refusal> {
    let base = TranslateOptions::nova();
    let options = TranslateOptions {
        pci_in_placement: input.pci_in_placement,
        pci_aliases: input.pci_aliases.clone(),
        numa_in_placement: input.numa_in_placement,
        ..base
    };
    let spec = &input.spec;
    let mut translation = translate(spec, &options)
        .map_err(|error| Refusal::new("translate", error.field(), &error))?;
    output.numa = translation.numa.as_ref().map(topology_json);
    let prefilters = input.prefilters.clone().unwrap_or_default();
    let added = prefilter::apply(spec, &translation, &prefilters, input)
        .map_err(|error| Refusal::new("prefilter", error.field().unwrap_or_default(), &error))?;
    added.add_to(&mut translation);
    output.applied = added
        .applied
        .iter()
        .map(|name| format!("{name:?}"))
        .collect();
    output.warnings = translation
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect();
    output.rules = translation
        .rules
        .iter()
        .map(|rule| format!("{rule:?}"))
        .collect();
    let mut target_result = Ok(());
    let requests = [
        Some(&mut translation.request),
        translation.fallback.as_mut(),
    ];
    for request in requests.into_iter().flatten() {
        target_result = target_result.and(target::apply(request, spec, |target| {
            input.compute_nodes(target)
        }));
    }
    if let Err(target::TargetRefusal::NoSuchHost { .. }) = &target_result {
        return Err(Refusal::new(
            "target",
            "requested_destination",
            &"no such host",
        ));
    }
    output.query = Some(translation.request.to_query_string());
    output.fallback = translation
        .fallback
        .as_ref()
        .map(|request| request.to_query_string());
    target_result.map_err(|error| Refusal::new("target", "group_policy", &error))?;
    translation
        .request
        .to_candidate_query()
        .map_err(|error| Refusal::new("query", error.field(), &error))?;
    Ok(())
}

fn topology_json(guest: &GuestTopology) -> serde_json::Value {
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
    let mut writer = std::io::BufWriter::new(std::io::stdout().lock());
    for text in std::io::stdin().lock().lines() {
        let text = text?;
        let mut output = Output::default();
        let parsed = request::read::<Input, _>(&mut serde_json::Deserializer::from_str(&text));
        let outcome = match parsed {
            Ok(input) => translate_input(&input, &mut output),
            Err(error) => Err(Refusal::new("read", error.field.clone(), &error)),
        };
        output.refused = outcome.err();
        serde_json::to_writer(&mut writer, &output)?;
        writer.write_all(b"\n")?;
    }
    writer.flush()
}
