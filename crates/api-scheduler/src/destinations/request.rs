//! The body of `POST /v1/destinations`, and its validation.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use placewright_control::destinations::DestinationsRequest;
use placewright_scheduler::request::RequestSpec;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use uuid::Uuid;

use crate::error_response::{Answer, ErrorResponse};
use crate::shared::check_owner;

/// The most instances of one request.
const INSTANCES_MAX: usize = 1_000;
/// The most alternates of each instance.
const ALTERNATES_MAX: usize = 100;

/// The most hosts that an explanation is asked for by name, and the most bytes of a name.
const EXPLAIN_HOSTS_MAX: usize = 10;
const NAME_BYTES_MAX: usize = 255;

/// The body as it is parsed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskBody {
    request: RequestSpec,
    instances: Vec<Uuid>,
    #[serde(default)]
    alternates: usize,
    claim: bool,
    #[serde(default)]
    minimum: Minimum,
    #[serde(default)]
    explain: bool,
    #[serde(default)]
    explain_hosts: Vec<String>,
}

/// How many instances must find a host, as the body has it.
#[derive(Clone, Copy, Debug, Default)]
enum Minimum {
    #[default]
    All,
    AtLeast(usize),
}

/// Validates a body. The request comes with its instances: topology rules that name no servers
/// concern the others of them.
pub(super) fn check(body: AskBody) -> Answer<DestinationsRequest> {
    let count = body.instances.len();
    if !(1..=INSTANCES_MAX).contains(&count) {
        let detail = format!("instances: there are {count}, not 1 to {INSTANCES_MAX}");
        return Err(ErrorResponse::field("instances", detail));
    }
    let mut seen = HashSet::with_capacity(count);
    if let Some(index) = body.instances.iter().position(|uuid| !seen.insert(*uuid)) {
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
    check_explained(&body.explain_hosts)?;
    let minimum = match body.minimum {
        Minimum::All => count,
        Minimum::AtLeast(least) if (1..=count).contains(&least) => least,
        Minimum::AtLeast(least) => {
            let detail = format!("minimum: {least} is not 1 to {count}, nor \"all\"");
            return Err(ErrorResponse::field("minimum", detail));
        }
    };
    let mut request = body.request;
    let of_group = request.instance_group.iter();
    let of_group = of_group.flat_map(|group| &group.topology_rules);
    let mut rules = request.topology_rules.iter().chain(of_group);
    if count > 1 && rules.any(|rule| rule.to.is_empty()) {
        request.siblings = body.instances.iter().copied().collect();
    }
    if body.claim {
        check_owner("request.project_id", &request.project_id)?;
        check_owner("request.user_id", &request.user_id)?;
    }
    Ok(DestinationsRequest {
        request: Arc::new(request),
        instances: body.instances,
        alternates: body.alternates,
        claim: body.claim,
        least: minimum,
        explain: body.explain,
        explain_hosts: body.explain_hosts,
    })
}

/// Validates the names of hosts that are to be explained.
fn check_explained(hosts: &[String]) -> Answer<()> {
    if hosts.len() > EXPLAIN_HOSTS_MAX {
        let detail = format!("explain_hosts: at most {EXPLAIN_HOSTS_MAX}");
        return Err(ErrorResponse::field("explain_hosts", detail));
    }
    let is_name = |name: &String| (1..=NAME_BYTES_MAX).contains(&name.len());
    match hosts.iter().position(|name| !is_name(name)) {
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
        struct Form;
        impl Visitor<'_> for Form {
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
        deserializer.deserialize_any(Form)
    }
}
