//! Evaluates filters and weighers for given hosts. Input and output are one JSON object a line.
//!
//! `cargo run --example nova_filters -- --list` writes the names, flags and default options.
//! Without `--list`, each input line has `config`, `aggregates`, `hosts`, `request`, `instance` and `all_filters`. Its
//! output line says of each host, in the order of the input, whether it passes each single filter (`filters`), whether
//! it passes all of `all_filters`, and whether `MetricsWeigher` does not exclude it (`measured`). It also has the
//! hosts' scores by each single weigher, and their scores and order by `config.weight_classes`.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use placewright_placement::Timestamp;
use placewright_scheduler::aggregate::Aggregate;
use placewright_scheduler::amounts::Amounts;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::host_state::{HostReport, HostUpdate};
use placewright_scheduler::host_table::HostTable;
use placewright_scheduler::policy::{FilterKind, Policy, UP};
use placewright_scheduler::request::{self, RequestSpec};
use placewright_scheduler::{filters, weighers};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

/// The time of the decision, in s. A host's last report is older by its `silent_s`.
const NOW_S: i64 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    config: SchedulerConfig,
    aggregates: BTreeMap<Uuid, BTreeMap<String, String>>,
    hosts: Vec<Host>,
    request: Value,
    instance: Uuid,
    all_filters: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    uuid: Uuid,
    report: HostReport,
    silent_s: f64,
    aggregates: Vec<Uuid>,
    ram_total_mb: i64,
    ram_free_mb: i64,
    disk_total_gb: i64,
    disk_free_mb: i64,
    disk_used_mb: i64,
    vcpus_total: i64,
    vcpus_used: i64,
    ram_ratio: f64,
    cpu_ratio: f64,
    disk_ratio: f64,
    devices_free: i64,
}

fn list() -> Value {
    let filters = filters::ALL.iter().map(|filter| {
        json!({
            "name": filter.name,
            "once": filter.is_once_per_request,
            "rebuild": filter.runs_on_rebuild,
        })
    });
    let weighers = weighers::ALL.iter().map(|weigher| {
        let (low, high) = (weigher.declared_low, weigher.declared_high);
        json!({"name": weigher.name, "low": low, "high": high})
    });
    json!({
        "filters": filters.collect::<Vec<_>>(),
        "weighers": weighers.collect::<Vec<_>>(),
        "config": SchedulerConfig::default(),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a few seconds in microseconds"
)]
fn table(input: &Input) -> HostTable {
    let mut hosts = HostTable::new(&input.config);
    let aggregates = input.aggregates.iter().map(|(uuid, metadata)| {
        let aggregate = Aggregate {
            name: uuid.to_string(),
            metadata: metadata.clone(),
        };
        (*uuid, aggregate)
    });
    hosts.aggregates_mut().put(aggregates);
    for (slot, host) in (0..).zip(&input.hosts) {
        let heard_at = Timestamp(NOW_S * 1_000_000 - (host.silent_s * 1e6) as i64);
        let report = HostUpdate::Full(Box::new(host.report.clone()));
        assert!(
            hosts.apply(host.uuid, heard_at, &report),
            "full reports are taken"
        );
        hosts.bind_to_slot(host.uuid, slot);
        let amounts = Amounts {
            ram_total_mb: host.ram_total_mb,
            ram_free_mb: host.ram_free_mb,
            disk_total_gb: host.disk_total_gb,
            disk_free_mb: host.disk_free_mb,
            disk_used_mb: host.disk_used_mb,
            vcpus_total: host.vcpus_total,
            vcpus_used: host.vcpus_used,
            ram_ratio: host.ram_ratio,
            cpu_ratio: host.cpu_ratio,
            disk_ratio: host.disk_ratio,
            devices_free: host.devices_free,
        };
        hosts.set_amounts(slot, amounts);
        let members = host.aggregates.iter().copied();
        hosts.aggregates_mut().set_membership(slot, members);
    }
    hosts.advance(Timestamp::from_seconds(NOW_S));
    hosts
}

fn policy(config: SchedulerConfig) -> Policy {
    Policy::new(config).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// Says of each host whether it passes the filters and none of the weighers excludes it; or why the request is refused.
fn passing(
    input: &Input,
    hosts: &HostTable,
    request: &RequestSpec,
    filters: Vec<String>,
    weighers: &[&str],
) -> Value {
    let policy = policy(SchedulerConfig {
        enabled_filters: filters,
        weight_classes: weighers.iter().map(|name| (*name).to_owned()).collect(),
        ..input.config.clone()
    });
    let compiled = match policy.compile(request, hosts, input.instance) {
        Err(error) => return json!({"refused": error.to_string()}),
        Ok(compiled) => compiled.filters,
    };
    let slots = 0..u32::try_from(input.hosts.len()).expect("few hosts");
    let verdicts = slots.map(|slot| {
        let kinds = [FilterKind::ForClass, FilterKind::ForSingleRequest];
        let masks = kinds.map(|kind| compiled.word(slot as usize / 64, kind));
        let by_masks = (masks[0] & masks[1]) >> (slot % 64) & 1 == 1;
        let passes = compiled.passes(slot);
        let by_masks_and_predicates = by_masks
            && kinds
                .iter()
                .all(|kind| compiled.passes_predicates(slot, *kind));
        assert_eq!(
            by_masks_and_predicates, passes,
            "masks and predicates agree with `passes`"
        );
        assert_eq!(compiled.rejecting_filter(slot).is_none(), passes);
        // Nova has no restriction to hosts that are up beside its ComputeFilter.
        let mut filters = compiled.filters().iter();
        filters.all(|filter| filter.name == UP || filter.verdict.passes(slot))
            && hosts.slots().contains(slot)
    });
    verdicts.collect()
}

fn weights(
    input: &Input,
    hosts: &HostTable,
    request: &RequestSpec,
    names: Vec<String>,
) -> Vec<f64> {
    let policy = policy(SchedulerConfig {
        enabled_filters: Vec::new(),
        weight_classes: names,
        ..input.config.clone()
    });
    let compiled = policy.compile(request, hosts, input.instance);
    let slots: Vec<u32> = (0..u32::try_from(input.hosts.len()).expect("few hosts")).collect();
    compiled
        .expect("no weigher refuses a request")
        .weighers
        .scores(&slots)
}

fn evaluate(input: &Input) -> Value {
    let request: RequestSpec = match request::read(&input.request) {
        Err(error) => return json!({"refused": error.to_string()}),
        Ok(request) => request,
    };
    let hosts = table(input);
    // A filter is evaluated without the request's restrictions by host name.
    let unrestricted = RequestSpec {
        ignore_hosts: Vec::new(),
        force_hosts: Vec::new(),
        force_nodes: Vec::new(),
        requested_destination: None,
        ..request.clone()
    };
    let filters = filters::ALL.iter().map(|filter| {
        let single = vec![filter.name.to_owned()];
        (
            filter.name,
            passing(input, &hosts, &unrestricted, single, &[]),
        )
    });
    let weighers = weighers::ALL.iter().map(|weigher| {
        let single = vec![weigher.name.to_owned()];
        (weigher.name, weights(input, &hosts, &request, single))
    });
    let weights = weights(input, &hosts, &request, input.config.weight_classes.clone());
    json!({
        "filters": filters.collect::<BTreeMap<_, _>>(),
        "all_filters": passing(input, &hosts, &request, input.all_filters.clone(), &[]),
        "measured": passing(input, &hosts, &unrestricted, Vec::new(), &["MetricsWeigher"]),
        "weighers": weighers.collect::<BTreeMap<_, _>>(),
        "order": weighers::rank(&weights),
        "weights": weights,
    })
}

fn main() -> std::io::Result<()> {
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    if std::env::args().nth(1).as_deref() == Some("--list") {
        return writeln!(output, "{}", list());
    }
    for text in std::io::stdin().lock().lines() {
        let input: Input = serde_json::from_str(&text?).unwrap_or_else(|error| panic!("{error}"));
        writeln!(output, "{}", evaluate(&input))?;
        output.flush()?;
    }
    Ok(())
}
