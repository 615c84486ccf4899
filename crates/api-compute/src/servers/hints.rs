//! Scheduler hints: requests about a server's placement besides its zone and host.

use std::collections::BTreeMap;

use placewright_conductor::{ControlState, HardRule, InstanceId};
use placewright_http::{ApiError, ApiResult};
use placewright_placement::group::{self, Relation, RuleScope};
use placewright_scheduler::request::{RequestSpec, TopologyRule};
use serde_json::Value;
use uuid::Uuid;

use crate::admin::server_groups;
use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;
use crate::topology::{self, OTHERS_MAX};

/// The keys under which a body may have hints; errors name the first.
const KEYS: [&str; 2] = ["os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"];

/// The hints that name servers.
const OF_SERVERS: [&str; 2] = ["same_host", "different_host"];

/// The most servers or other values of a hint.
const VALUES_MAX: usize = OTHERS_MAX;

/// Hints for filters: the values by name.
type Texts = BTreeMap<String, Vec<String>>;

/// The parsed hints of a request.
pub(super) struct Hints {
    /// Hints for the scheduler's filters, as texts.
    texts: Texts,
    /// The UUID of the server group.
    pub(super) group: Option<Uuid>,
    /// Hard rules about other instances, which the claim has to satisfy.
    rules: Vec<HardRule>,
    topology: Vec<TopologyRule>,
}

impl Hints {
    /// Parses the hints of a request for `servers` servers. Hints about other instances also become
    /// rules of the claim.
    pub(super) fn read(
        call: &RoutedRequest<'_>,
        fields: &mut ObjectParser<'_>,
        servers: u32,
    ) -> ApiResult<Self> {
        let (texts, topology) = read_texts(call, fields)?;
        let group = uuids(&texts, "group")?.first().copied();
        let mut rules = Vec::new();
        let same = uuids(&texts, "same_host")?;
        // With several servers, being with one of them is enough, which only the filter can check.
        if same.len() == 1 {
            rules.push(on_host(Relation::Same, same));
        }
        let different = uuids(&texts, "different_host")?;
        if !different.is_empty() {
            rules.push(on_host(Relation::FewerThan(1), different));
        }
        let is_about_all = topology.iter().any(|rule| rule.to.is_empty());
        if is_about_all && group.is_none() && servers as usize > OTHERS_MAX {
            let message = format!(
                "a rule without \"to\" is about all servers of the request: for more than \
                 {OTHERS_MAX} make a server group"
            );
            return Err(ApiError::field(&topology_path(), message));
        }
        Ok(Self {
            texts,
            group,
            rules,
            topology,
        })
    }

    /// Looks up what the hints refer to, and adds it to the request.
    pub(super) fn look_up(
        &self,
        call: &RoutedRequest<'_>,
        control: &ControlState,
        request: &mut RequestSpec,
    ) -> ApiResult<()> {
        request.scheduler_hints.clone_from(&self.texts);
        for name in OF_SERVERS {
            for text in request.scheduler_hints.get_mut(name).into_iter().flatten() {
                if Uuid::try_parse(text).is_ok_and(|id| is_foreign(call, control, id)) {
                    *text = Uuid::nil().to_string();
                }
            }
        }
        topology::check(call, control, &topology_path(), &self.topology)?;
        request.topology_rules.clone_from(&self.topology);
        let Some(group) = self.group else {
            return Ok(());
        };
        let row = control.conductor.groups().get(&group);
        let row = row.filter(|row| row.project == call.project() || call.sees_all_projects());
        let row = row.ok_or_else(|| {
            let message = format!("there is no group {group}");
            ApiError::field("os:scheduler_hints.group", message)
        })?;
        request.instance_group = Some(server_groups::for_scheduler(control, group, row));
        Ok(())
    }

    /// The rules that the claim of each of these instances has to satisfy. Topology rules that name
    /// no servers concern the members of the group, or without one these instances.
    ///
    /// Servers that the caller may not see were removed from the request before, and are removed
    /// here too.
    pub(super) fn bind(
        &self,
        request: &mut RequestSpec,
        instances: &[InstanceId],
    ) -> Vec<HardRule> {
        let hints = OF_SERVERS
            .iter()
            .filter_map(|name| request.scheduler_hints.get(*name));
        let seen: Vec<Uuid> = hints
            .flatten()
            .filter_map(|text| Uuid::try_parse(text).ok())
            .collect();
        let mut rules = self.rules.clone();
        for other in rules.iter_mut().flat_map(|rule| &mut rule.others) {
            if !seen.contains(other) {
                *other = Uuid::nil();
            }
        }
        if self.group.is_none() && instances.len() > 1 {
            let about_all = request.topology_rules.iter_mut();
            for rule in about_all.filter(|rule| rule.to.is_empty()) {
                rule.to = instances.iter().map(|instance| instance.0).collect();
            }
        }
        let of_topology = topology::hard_rules(&request.topology_rules);
        rules.into_iter().chain(of_topology).collect()
    }
}

/// Parses the hints for filters and the topology rules.
fn read_texts(
    call: &RoutedRequest<'_>,
    fields: &mut ObjectParser<'_>,
) -> ApiResult<(Texts, Vec<TopologyRule>)> {
    let mut texts = BTreeMap::new();
    let mut topology = Vec::new();
    let (mut bytes, most) = (0, call.core.limits().hint_bytes_max);
    for key in KEYS {
        let Some(value) = fields.take(key) else {
            continue;
        };
        let map = value
            .as_object()
            .ok_or_else(|| fields::wrong(key, "an object", value))?;
        for (name, value) in map {
            if name == topology::NAME && !value.is_null() {
                topology = topology::read(&topology_path(), value)?;
                continue;
            }
            let of_hint = match value {
                Value::Null => continue,
                Value::String(text) => vec![text.clone()],
                Value::Array(_) => {
                    let path = || format!("{key}[{:?}]", shortened(name));
                    let all = fields::list(&path(), value, VALUES_MAX)?;
                    let text = |one: &Value| match one.as_str() {
                        Some(text) => text.to_owned(),
                        None => one.to_string(),
                    };
                    all.iter().map(text).collect()
                }
                other => vec![other.to_string()],
            };
            bytes += name.len() + of_hint.iter().map(String::len).sum::<usize>();
            if bytes > most {
                let message = format!(
                    "the hints have more than {most} bytes; compute.hint_bytes_max allows no more"
                );
                return Err(ApiError::field(key, message));
            }
            texts.insert(name.clone(), of_hint);
        }
    }
    Ok((texts, topology))
}

fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}

/// Whether a server is invisible to the caller. A hint that names one is treated as if it named a
/// missing server: no server has the nil UUID.
fn is_foreign(call: &RoutedRequest<'_>, control: &ControlState, id: Uuid) -> bool {
    let mapping = control.conductor.mappings().get(&InstanceId(id));
    mapping.is_some_and(|one| one.project != call.project() && !call.sees_all_projects())
}

fn topology_path() -> String {
    format!("{}.{}", KEYS[0], topology::NAME)
}

fn uuids(texts: &BTreeMap<String, Vec<String>>, name: &str) -> ApiResult<Vec<Uuid>> {
    let texts = texts.get(name).map_or(&[][..], Vec::as_slice);
    let ids = texts.iter().map(|text| {
        Uuid::try_parse(text).map_err(|_| {
            let path = format!("{}.{name}", KEYS[0]);
            ApiError::field(&path, format!("it must be a UUID, not {text:?}"))
        })
    });
    ids.collect()
}

fn on_host(relation: Relation, others: Vec<Uuid>) -> HardRule {
    HardRule {
        rule: group::Rule {
            scope: RuleScope::Host,
            relation,
        },
        others,
    }
}
