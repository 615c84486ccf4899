//! The body of `POST /v1/destinations`, and its validation.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use placewright_control::destinations::DestinationsRequest;
use placewright_scheduler::request::{RequestSpec, TopologyRule};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use uuid::Uuid;

use crate::error_response::{ErrorResponse, HandlerResult};
use crate::shared::check_owner;

/// The maximum number of instances of one request.
pub(crate) const INSTANCES_MAX: usize = 1_000;
/// The maximum number of alternates of each instance.
pub(crate) const ALTERNATES_MAX: usize = 100;

/// The maximum number of hosts in `explain_hosts`.
pub(crate) const EXPLAIN_HOSTS_MAX: usize = 10;
/// The maximum length of a name in `explain_hosts`, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// The body of `POST /v1/destinations`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DestinationsBody {
    pub(super) request: RequestSpec,
    instances: Vec<Uuid>,
    /// The most alternates that each instance gets.
    #[serde(default)]
    alternates: usize,
    /// Whether the selected hosts are claimed.
    claim: bool,
    #[serde(default)]
    minimum: Minimum,
    /// Whether the response explains the selections.
    #[serde(default)]
    explain: bool,
    /// The names or UUIDs of further hosts to explain.
    #[serde(default)]
    explain_hosts: Vec<String>,
    /// Whether alternates come without their allocations.
    #[serde(default)]
    pub(super) brief: bool,
}

/// The field `minimum`: for how many instances a host must be found.
#[derive(Clone, Copy, Debug, Default)]
enum Minimum {
    #[default]
    All,
    AtLeast(usize),
}

/// Validates a body. A topology rule that names no servers concerns the other instances of the request. If
/// there is such a rule, the instances become siblings in the request spec.
pub(super) fn validate(body: DestinationsBody) -> HandlerResult<DestinationsRequest> {
    let count = body.instances.len();
    if !(1..=INSTANCES_MAX).contains(&count) {
        let detail = format!("instances: there are {count}, not 1 to {INSTANCES_MAX}");
        return Err(ErrorResponse::field("instances", detail));
    }
    let mut distinct = HashSet::with_capacity(count);
    if let Some(index) = body
        .instances
        .iter()
        .position(|uuid| !distinct.insert(*uuid))
    {
        let detail = format!(
            "instances[{index}]: {} is there twice",
            body.instances[index]
        );
        return Err(ErrorResponse::field(format!("instances[{index}]"), detail));
    }
    if body.alternates > ALTERNATES_MAX {
        let detail = format!("alternates: at most {ALTERNATES_MAX}");
        return Err(ErrorResponse::field("alternates", detail));
    }
    check_explain_hosts(&body.explain_hosts)?;
    let minimum = match body.minimum {
        Minimum::All => count,
        Minimum::AtLeast(minimum) if (1..=count).contains(&minimum) => minimum,
        Minimum::AtLeast(minimum) => {
            let detail = format!("minimum: {minimum} is not 1 to {count}, nor \"all\"");
            return Err(ErrorResponse::field("minimum", detail));
        }
    };
    let mut request = body.request;
    let group_rules = request.instance_group.iter();
    let group_rules = group_rules.flat_map(|group| &group.topology_rules);
    let mut rules = request.topology_rules.iter().chain(group_rules);
    if count > 1 && rules.any(TopologyRule::is_about_siblings) {
        request.siblings = body.instances.iter().copied().collect();
    }
    if body.claim {
        check_owner("request.project_id", &request.project_id)?;
        check_owner("request.user_id", &request.user_id)?;
    }
    Ok(DestinationsRequest {
        request_spec: Arc::new(request),
        instances: body.instances,
        alternate_count: body.alternates,
        with_claim: body.claim,
        least: minimum,
        explain: body.explain,
        explain_hosts: body.explain_hosts,
    })
}

/// Validates the names in `explain_hosts`.
fn check_explain_hosts(hosts: &[String]) -> HandlerResult<()> {
    if hosts.len() > EXPLAIN_HOSTS_MAX {
        let detail = format!("explain_hosts: at most {EXPLAIN_HOSTS_MAX}");
        return Err(ErrorResponse::field("explain_hosts", detail));
    }
    let is_valid = |name: &String| (1..=NAME_BYTES_MAX).contains(&name.len());
    match hosts.iter().position(|name| !is_valid(name)) {
        None => Ok(()),
        Some(index) => {
            let field = format!("explain_hosts[{index}]");
            let detail = format!("{field}: 1 to {NAME_BYTES_MAX} bytes");
            Err(ErrorResponse::field(field, detail))
        }
    }
}

impl<'de> Deserialize<'de> for Minimum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MinimumVisitor;
        impl Visitor<'_> for MinimumVisitor {
            type Value = Minimum;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("\"all\" or a number of instances")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Minimum, E> {
                match text {
                    "all" => Ok(Minimum::All),
                    other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
                }
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Minimum, E> {
                Ok(Minimum::AtLeast(
                    usize::try_from(number).unwrap_or(usize::MAX),
                ))
            }
        }
        deserializer.deserialize_any(MinimumVisitor)
    }
}
