use std::collections::BTreeMap;

use placewright_placement::Timestamp;
use uuid::Uuid;

use super::*;
use crate::config::SchedulerConfig;
use crate::flavor::Flavor;
use crate::hosts::amounts::Amounts;
use crate::hosts::state::{HostReport, HostUpdate, Load, Metric};
use crate::hosts::table::HostTable;
use crate::policy::Policy;
use crate::request::RequestSpec;

fn filter(source: &str) -> ExpressionConfig {
    ExpressionConfig {
        name: "Mine".to_owned(),
        filter: Some(source.to_owned()),
        ..ExpressionConfig::default()
    }
}

fn weigher(source: &str) -> ExpressionConfig {
    ExpressionConfig {
        name: "Mine".to_owned(),
        weigher: Some(source.to_owned()),
        ..ExpressionConfig::default()
    }
}

/// Hosts `host0` to `host3`; number n has n busy instances, n GiB of free memory, n / 2 as the metric
/// `cpu.percent` and, if n is odd, n as the statistic `rank`.
fn hosts() -> HostTable {
    let mut hosts = HostTable::new(&SchedulerConfig::default());
    for slot in 0..4u32 {
        let mut report = HostReport::default();
        report.facts.names.service_host = format!("host{slot}");
        report.load = Load {
            io_ops: slot,
            ..Load::default()
        };
        if slot % 2 == 1 {
            let rank = ("rank".to_owned(), slot.to_string());
            report.facts.stats = BTreeMap::from([rank]);
        }
        report.metrics = vec![Metric {
            name: "cpu.percent".to_owned(),
            value: f64::from(slot) / 2.0,
        }];
        let uuid = Uuid::from_u128(u128::from(slot) + 1);
        hosts.apply(
            uuid,
            Timestamp::default(),
            &HostUpdate::Full(Box::new(report)),
        );
        hosts.bind_to_slot(uuid, slot);
        hosts.set_amounts(
            slot,
            Amounts {
                ram_free_mb: i64::from(slot) * 1024,
                ..Amounts::default()
            },
        );
    }
    hosts
}

fn request() -> RequestSpec {
    let mut request = RequestSpec::new(Flavor {
        memory_mb: 1024,
        extra_specs: BTreeMap::from([("rank".to_owned(), "3".to_owned())]),
        ..Flavor::default()
    });
    let hosts = vec!["host1".to_owned(), "host2".to_owned()];
    request.scheduler_hints = BTreeMap::from([("near".to_owned(), hosts)]);
    request
}

fn policy(expression: ExpressionConfig) -> Policy {
    let config = SchedulerConfig {
        enabled_filters: Vec::new(),
        weight_classes: Vec::new(),
        expressions: vec![expression],
        ..SchedulerConfig::default()
    };
    Policy::new(config).expect("valid")
}

/// The hosts that pass an expression.
fn passing(source: &str) -> Vec<u32> {
    let (hosts, request) = (hosts(), request());
    let policy = policy(filter(source));
    let compiled = policy.compile(&request, &hosts, Uuid::nil());
    let filters = compiled.expect("good request").filters;
    (0..4).filter(|slot| filters.passes(*slot)).collect()
}

/// The scores of the four hosts by an expression alone: its values, normalised to 0 to 1.
fn scores(source: &str) -> Vec<f64> {
    let (hosts, request) = (hosts(), request());
    let policy = policy(weigher(source));
    let compiled = policy.compile(&request, &hosts, Uuid::nil());
    compiled
        .expect("good request")
        .weighers
        .scores(&[0, 1, 2, 3])
}

#[test]
fn filters_see_hosts_and_the_request() {
    assert_eq!(passing("host.io_ops < 2"), [0, 1]);
    assert_eq!(passing("host.ram_free_mb >= 2 * request.memory_mb"), [2, 3]);
    assert_eq!(passing("host.stats.rank == request.extra_specs.rank"), [3]);
    assert_eq!(
        passing("has(host.stats.rank) && int(host.stats['rank']) > 0"),
        [1, 3]
    );
    assert_eq!(passing("!('rank' in host.stats)"), [0, 2]);
    assert_eq!(passing("host.name in request.hints.near"), [1, 2]);
    assert_eq!(
        passing("request.hints.near.exists(name, name.endsWith('2')) && host.io_ops > 2"),
        [3]
    );
    assert_eq!(
        passing("host.metrics['cpu.percent'] > 0.7 ? host.io_ops == 2 : true"),
        [0, 1, 2]
    );
    assert_eq!(passing("request.memory_mb == 1024"), [0, 1, 2, 3]);
    assert_eq!(passing("request.vcpus > 100"), [] as [u32; 0]);
    assert_eq!(
        passing("host.zone == '' && host.is_enabled && host.uuid != ''"),
        [0, 1, 2, 3]
    );
}

#[test]
fn weighers_give_numbers_and_zero_for_hosts_without_a_value() {
    assert_eq!(scores("host.io_ops"), [0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0]);
    assert_eq!(
        scores("-host.metrics['cpu.percent']"),
        [1.0, 2.0 / 3.0, 1.0 / 3.0, 0.0]
    );
    assert_eq!(
        scores("double(host.stats.rank)"),
        [0.0, 1.0 / 3.0, 0.0, 1.0]
    );
    assert_eq!(scores("host.io_ops > 1"), [0.0, 0.0, 1.0, 1.0]);
    // The values are 0, -1024, none because of a division by 0, and 3072.
    assert_eq!(
        scores("host.ram_free_mb / (host.io_ops - 2)"),
        [0.25, 0.0, 0.25, 1.0]
    );
}

#[test]
fn errors_are_found_at_load_with_their_position() {
    for (source, position, words) in [
        ("host.io_ops <", (1, 14), ""),
        (
            "true &&\n  host.colour == 'red'",
            (2, 7),
            "no field \"colour\"",
        ),
        ("hots.io_ops < 3", (1, 1), "no variable \"hots\""),
        ("size(host) > 0", (1, 6), "followed by the name of a field"),
        (
            "host.name.matches('a+')",
            (1, 18),
            "no function \"matches\"",
        ),
        ("{'a': 1}['a'] == 1", (1, 1), "maps"),
        ("host.name < 3", (1, 1), "no matching overload"),
        ("host.io_ops", (1, 1), "not to a bool"),
        ("has(host.io_ops)", (1, 4), "every host has"),
    ] {
        let error = Expression::load(&filter(source)).expect_err(source);
        assert!(error.message.contains(words), "{source}: {}", error.message);
        assert_eq!(
            (error.line, error.column),
            position,
            "{source}: {}",
            error.message
        );
    }
    let error = Expression::load(&weigher("host.name")).expect_err("a text");
    assert!(error.message.contains("not to a number"), "{error}");
    let filter_and_weigher = ExpressionConfig {
        weigher: Some("1".to_owned()),
        ..filter("true")
    };
    assert!(Expression::load(&filter_and_weigher).is_err());
    let with_bad_name = ExpressionConfig {
        name: "a b".to_owned(),
        ..filter("true")
    };
    assert!(Expression::load(&with_bad_name).is_err());
}

#[test]
fn costs_are_bounded_before_anything_is_evaluated() {
    let nested = "request.hints.a.all(a, request.hints.b.all(b, request.hints.c.all(c, a == b)))";
    let growing = format!("['x']{}.size() > 0", ".map(x, x + x + x + x)".repeat(12));
    let deep = format!("{}true{}", "(".repeat(2000), ")".repeat(2000));
    let long = format!("true{}", " && true".repeat(600));
    for source in [nested, &growing, &deep, &long] {
        assert!(Expression::load(&filter(source)).is_err(), "{source:.60}");
    }
    let affordable = "request.hints.a.exists(a, request.hints.b.exists(b, a == b))";
    assert!(
        Expression::load(&filter(affordable)).is_ok(),
        "{:?}",
        Expression::load(&filter(affordable))
    );
}

#[test]
fn an_aggregate_overrides_the_multiplier_and_a_taken_name_is_refused() {
    let with_taken_name = ExpressionConfig {
        name: "RAMWeigher".to_owned(),
        ..weigher("1")
    };
    let config = SchedulerConfig {
        expressions: vec![with_taken_name],
        ..SchedulerConfig::default()
    };
    assert!(Policy::new(config).is_err());

    let mut hosts = hosts();
    let aggregate = crate::hosts::aggregate::Aggregate {
        name: "few".to_owned(),
        metadata: BTreeMap::from([("Mine_weight_multiplier".to_owned(), "-2".to_owned())]),
    };
    let uuid = Uuid::from_u128(99);
    hosts.aggregates_mut().put([(uuid, aggregate)]);
    hosts
        .aggregates_mut()
        .set_membership(3, std::iter::once(uuid));
    let (policy, request) = (policy(weigher("host.io_ops")), request());
    let compiled = policy
        .compile(&request, &hosts, Uuid::nil())
        .expect("good request");
    assert_eq!(compiled.weighers.scores(&[0, 3]), [0.0, -2.0]);
}
