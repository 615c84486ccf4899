//! Limits of the numbers, texts and lists of an update of a host.
//!
//! Whoever takes such an update from outside of its process checks it before anything is changed. Updates come from
//! agents, from clients of the scheduler API, and from other replicas.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::BadRequest;
use crate::host_state::{
    HostFacts, HostReport, HostUpdate, InstanceReport, Metric, NumberedUpdate,
};

/// The exclusive upper bound of the numbers that roles send each other (sessions, claims,
/// updates); numbers below it can always be incremented.
pub const NUMBER_END: u64 = 1 << 62;
/// Bytes of the name of a host, resource class, property or topology level.
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes of a message for people, or of a property's value.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Items of one message: hosts, guests, instances or events.
pub const LIST_MAX: usize = 100_000;
/// Items of one object: metrics, properties, amounts or rules.
pub const PARTS_MAX: usize = 10_000;
/// How far a session number may be above the present time in nanoseconds since 1970: ten years.
/// Agents use counters, or times in micro- or nanoseconds, as session numbers. The limit prevents a
/// peer from using the highest numbers for a host, after which its agent could start no session.
pub const SESSION_AHEAD_MAX: u64 = 315_576_000_000_000_000;

/// The greatest number of a session that may begin at `now`, if it may be `ahead_max` above the time.
#[must_use]
pub fn session_max(now: SystemTime, ahead_max: u64) -> u64 {
    let since_epoch = now.duration_since(UNIX_EPOCH);
    let now_ns = since_epoch.map_or(0, |since_epoch| {
        u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
    });
    now_ns.saturating_add(ahead_max).min(NUMBER_END - 1)
}

impl NumberedUpdate {
    /// Checks that all fields are within their limits, at the time `now`.
    ///
    /// # Errors
    ///
    /// The first field that is not within its limits, as JSON has it.
    pub fn check_limits(&self, now: SystemTime) -> Result<(), BadRequest> {
        let incarnation_max = session_max(now, SESSION_AHEAD_MAX);
        check_max("incarnation", self.incarnation, incarnation_max)
            .and_then(|()| check_max("sequence", self.sequence, NUMBER_END - 1))
            .and_then(|()| check_update(&self.update).map_err(|error| error.within("update")))
            .map_err(|exceeded| BadRequest::invalid(exceeded.field, exceeded.reason))
    }
}

/// A value beyond its limits.
struct Exceeded {
    field: String,
    reason: String,
}

impl Exceeded {
    /// The same error with the field named as a part of `parent`.
    fn within(self, parent: &str) -> Self {
        // An item of a list is named by the list and its index.
        let separator = if self.field.starts_with('[') { "" } else { "." };
        Self {
            field: format!("{parent}{separator}{}", self.field),
            ..self
        }
    }

    /// The same error for the item at `index` of a list whose items are the checked values.
    fn at(self, index: usize) -> Self {
        Self {
            field: format!("[{index}]"),
            ..self
        }
    }
}

fn check_update(update: &HostUpdate) -> Result<(), Exceeded> {
    match update {
        HostUpdate::Full(report) => check_report(report).map_err(|error| error.within("full")),
        HostUpdate::Facts(facts) => check_facts(facts).map_err(|error| error.within("facts")),
        HostUpdate::Metrics(metrics) => check_metrics(metrics),
        HostUpdate::InstanceCame(instance, _) => {
            check_instance(instance).map_err(|error| error.within("instance_came[0]"))
        }
        HostUpdate::Disabled(reason) => check_text("disabled", reason.as_deref(), TEXT_BYTES_MAX),
        HostUpdate::Load(_)
        | HostUpdate::InstanceWent(..)
        | HostUpdate::Alive
        | HostUpdate::ForcedDown(_)
        | HostUpdate::Gone => Ok(()),
    }
}

fn check_report(report: &HostReport) -> Result<(), Exceeded> {
    check_facts(&report.facts).map_err(|error| error.within("facts"))?;
    check_metrics(&report.metrics)?;
    check_each("instances", &report.instances, LIST_MAX, check_instance)?;
    check_text("disabled", report.disabled.as_deref(), TEXT_BYTES_MAX)
}

fn check_facts(facts: &HostFacts) -> Result<(), Exceeded> {
    let (names, platform) = (&facts.names, &facts.platform);
    for (field, text) in [
        ("names.service_host", Some(&names.service_host)),
        ("names.node", Some(&names.node)),
        ("names.ip", names.ip.as_ref()),
        (
            "names.hypervisor_hostname",
            names.hypervisor_hostname.as_ref(),
        ),
        (
            "platform.hypervisor_type",
            platform.hypervisor_type.as_ref(),
        ),
    ] {
        check_text(field, text.map(String::as_str), NAME_BYTES_MAX)?;
    }
    let cpu_info = platform.cpu_info.as_deref();
    check_text("platform.cpu_info", cpu_info, TEXT_BYTES_MAX)?;
    let supported = &platform.supported_instances;
    check_each(
        "platform.supported_instances",
        supported,
        PARTS_MAX,
        |kind| {
            // A part has no name: `at` names it by its index.
            for (index, part) in kind.iter().enumerate() {
                check_text("", Some(part), NAME_BYTES_MAX).map_err(|error| error.at(index))?;
            }
            Ok(())
        },
    )?;
    check_pairs("stats", facts.stats.iter())
}

fn check_metrics(metrics: &[Metric]) -> Result<(), Exceeded> {
    check_each("metrics", metrics, PARTS_MAX, |metric| {
        check_text("name", Some(&metric.name), NAME_BYTES_MAX)?;
        if metric.value.is_finite() {
            return Ok(());
        }
        Err(Exceeded {
            field: "value".to_owned(),
            reason: format!("{} is no number", metric.value),
        })
    })
}

fn check_instance(instance: &InstanceReport) -> Result<(), Exceeded> {
    check_pairs("image_properties", instance.image_properties.iter())
}

/// Checks the number of pairs, and the lengths of their names and values.
fn check_pairs<'a>(
    field: &str,
    pairs: impl ExactSizeIterator<Item = (&'a String, &'a String)>,
) -> Result<(), Exceeded> {
    check_count(field, pairs.len(), PARTS_MAX)?;
    for (name, value) in pairs {
        check_text(field, Some(name), NAME_BYTES_MAX)?;
        check_text(field, Some(value), TEXT_BYTES_MAX)?;
    }
    Ok(())
}

fn check_each<T>(
    field: &str,
    list: &[T],
    max: usize,
    check: impl Fn(&T) -> Result<(), Exceeded>,
) -> Result<(), Exceeded> {
    check_count(field, list.len(), max)?;
    for (index, item) in list.iter().enumerate() {
        check(item).map_err(|error| error.within(&format!("{field}[{index}]")))?;
    }
    Ok(())
}

fn check_text(field: &str, text: Option<&str>, max: usize) -> Result<(), Exceeded> {
    let bytes = text.map_or(0, str::len);
    check(field, bytes <= max, format_args!("{bytes} bytes"), max)
}

fn check_count(field: &str, count: usize, max: usize) -> Result<(), Exceeded> {
    check(field, count <= max, format_args!("{count} of them"), max)
}

fn check_max(field: &str, number: u64, max: u64) -> Result<(), Exceeded> {
    check(field, number <= max, number, max)
}

/// Fails unless a value is within its limit. `actual` describes the value, for the message.
fn check(
    field: &str,
    is_within: bool,
    actual: impl fmt::Display,
    limit: impl fmt::Display,
) -> Result<(), Exceeded> {
    if is_within {
        return Ok(());
    }
    Err(Exceeded {
        field: field.to_owned(),
        reason: format!("{actual}, and at most {limit} is allowed"),
    })
}
