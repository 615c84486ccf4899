//! Scheduler hints: requirements on the placement of a server besides its zone and host.

use std::collections::BTreeMap;

use placewright_conductor::{ControlState, HardRule, InstanceId};
use placewright_http::{ApiError, ApiResult};
use placewright_placement::group::{self, Relation, RuleScope};
use placewright_scheduler::request::rule_text::RULE_SERVERS_MAX;
use placewright_scheduler::request::{RequestSpec, TopologyRule};
use serde_json::Value;
use uuid::Uuid;

use crate::admin::server_groups;
use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;
use crate::topology::{self, flavor_rules};

/// The keys under which a body may have hints. An error in the shape or the size of the hints names the key that the
/// body has; an error in a topology rule, a UUID or the group names the first key.
const KEYS: [&str; 2] = ["os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"];

/// The hints whose values are servers.
const SERVER_HINTS: [&str; 2] = ["same_host", "different_host"];

/// The maximum number of values of a hint.
const VALUES_MAX: usize = RULE_SERVERS_MAX;

/// Hints for filters: the values of each hint, by its name.
type FilterHints = BTreeMap<String, Vec<String>>;

/// The parsed hints of a request.
pub(super) struct Hints {
    /// The hints for filters.
    filter_hints: FilterHints,
    /// The UUID of the server group.
    pub(super) group: Option<Uuid>,
    /// The hard rules of the hints `same_host` and `different_host`, which the claim has to satisfy.
    host_rules: Vec<HardRule>,
    /// The topology rules, hard and soft.
    topology_rules: Vec<TopologyRule>,
}

impl Hints {
    /// Parses the hints of a request for `server_count` servers. Hints whose values are servers
    /// also become rules of the claim.
    pub(super) fn parse(
        request: &RoutedRequest<'_>,
        parser: &mut ObjectParser<'_>,
        server_count: u32,
    ) -> ApiResult<Self> {
        let (filter_hints, topology_rules) = parse_hints(request, parser)?;
        let group = parse_uuids(&filter_hints, "group")?.first().copied();
        let mut host_rules = Vec::new();
        let same_host = parse_uuids(&filter_hints, "same_host")?;
        // If the hint has several servers, the host of any of them is allowed, which only the filter can
        // check.
        if same_host.len() == 1 {
            host_rules.push(host_rule(Relation::Same, same_host));
        }
        let different_hosts = parse_uuids(&filter_hints, "different_host")?;
        if !different_hosts.is_empty() {
            // Fewer than one of these servers may be on the host, that is, none.
            host_rules.push(host_rule(Relation::FewerThan(1), different_hosts));
        }
        let is_about_siblings = topology_rules.iter().any(TopologyRule::is_about_siblings);
        if is_about_siblings && group.is_none() && server_count as usize > RULE_SERVERS_MAX {
            let message = format!(
                "a rule without \"to\" is about all servers of the request: for more than \
                 {RULE_SERVERS_MAX} make a server group"
            );
            return Err(ApiError::field(&topology_path(), message));
        }
        Ok(Self {
            filter_hints,
            group,
            host_rules,
            topology_rules,
        })
    }

    /// Adds the hints to the scheduler's request, with the objects that they refer to.
    pub(super) fn look_up(
        &self,
        request: &RoutedRequest<'_>,
        control: &ControlState,
        request_spec: &mut RequestSpec,
    ) -> ApiResult<()> {
        request_spec.scheduler_hints.clone_from(&self.filter_hints);
        for name in SERVER_HINTS {
            for text in request_spec
                .scheduler_hints
                .get_mut(name)
                .into_iter()
                .flatten()
            {
                if Uuid::try_parse(text).is_ok_and(|id| is_invisible(request, control, id)) {
                    // No server has the nil UUID, so the hint has the same effect as one that names a missing server.
                    *text = Uuid::nil().to_string();
                }
            }
        }
        topology::check_rules(request, control, &topology_path(), &self.topology_rules)?;
        request_spec.topology_rules.clone_from(&self.topology_rules);
        if let Some(group) = self.group {
            add_group(request, control, group, request_spec)?;
        }
        flavor_rules::add(control, "server.flavorRef", request_spec)
    }

    /// Returns the hard rules that the claim of each of these instances has to satisfy. Topology rules that
    /// name no servers concern the members of the server group; without a group, these instances are added
    /// to such rules of `request_spec`, if there are several instances.
    ///
    /// In the hints of `request_spec`, [`Self::look_up`] has replaced servers that the caller may not see by the
    /// nil UUID. This method replaces the same servers in the returned rules.
    pub(super) fn resolve_rules(
        &self,
        request_spec: &mut RequestSpec,
        instances: &[InstanceId],
    ) -> Vec<HardRule> {
        let hints = SERVER_HINTS
            .iter()
            .filter_map(|name| request_spec.scheduler_hints.get(*name));
        let visible: Vec<Uuid> = hints
            .flatten()
            .filter_map(|text| Uuid::try_parse(text).ok())
            .collect();
        let mut host_rules = self.host_rules.clone();
        for server in host_rules.iter_mut().flat_map(|rule| &mut rule.others) {
            if !visible.contains(server) {
                *server = Uuid::nil();
            }
        }
        if self.group.is_none() && instances.len() > 1 {
            let topology_rules = request_spec.topology_rules.iter_mut();
            for rule in topology_rules.filter(|rule| rule.is_about_siblings()) {
                rule.to = instances.iter().map(|instance| instance.0).collect();
            }
        }
        let hard_topology_rules = topology::hard_rules(&request_spec.topology_rules);
        host_rules.into_iter().chain(hard_topology_rules).collect()
    }
}

/// Adds a server group, with its rules, to the scheduler's request.
fn add_group(
    request: &RoutedRequest<'_>,
    control: &ControlState,
    group: Uuid,
    request_spec: &mut RequestSpec,
) -> ApiResult<()> {
    let group_row = control.conductor.groups().get(&group);
    let group_row = group_row
        .filter(|group_row| group_row.project == request.project() || request.sees_all_projects());
    let group_row = group_row.ok_or_else(|| {
        let message = format!("there is no group {group}");
        ApiError::field("os:scheduler_hints.group", message)
    })?;
    let mut group = server_groups::for_scheduler(control, group, group_row);
    // A rule that names servers is no rule between the members of the group. The new server gets such a rule as one of
    // its own.
    let (about_others, about_members) =
        (group.topology_rules.into_iter()).partition(|rule| !rule.to.is_empty());
    group.topology_rules = about_members;
    let about_others: Vec<TopologyRule> = about_others;
    request_spec.topology_rules.extend(about_others);
    request_spec.instance_group = Some(group);
    Ok(())
}

/// Parses a request's hints: those for filters, and the topology rules.
fn parse_hints(
    request: &RoutedRequest<'_>,
    parser: &mut ObjectParser<'_>,
) -> ApiResult<(FilterHints, Vec<TopologyRule>)> {
    let mut filter_hints = BTreeMap::new();
    let mut topology_rules = Vec::new();
    let (mut bytes, bytes_max) = (0, request.api_state.limits().hint_bytes_max);
    for key in KEYS {
        let Some(value) = parser.take(key) else {
            continue;
        };
        let map = value
            .as_object()
            .ok_or_else(|| fields::type_error(key, "an object", value))?;
        for (name, value) in map {
            if name == topology::NAME && !value.is_null() {
                topology_rules = topology::parse_rules(&topology_path(), value)?;
                continue;
            }
            let values = match value {
                Value::Null => continue,
                Value::String(text) => vec![text.clone()],
                Value::Array(_) => {
                    let path = || format!("{key}[{:?}]", shorten(name));
                    let items = fields::parse_list(&path(), value, VALUES_MAX)?;
                    let text = |item: &Value| match item.as_str() {
                        Some(text) => text.to_owned(),
                        None => item.to_string(),
                    };
                    items.iter().map(text).collect()
                }
                other => vec![other.to_string()],
            };
            bytes += name.len() + values.iter().map(String::len).sum::<usize>();
            if bytes > bytes_max {
                let message = format!(
                    "the hints have more than {bytes_max} bytes; compute.hint_bytes_max allows no more"
                );
                return Err(ApiError::field(key, message));
            }
            filter_hints.insert(name.clone(), values);
        }
    }
    Ok((filter_hints, topology_rules))
}

fn shorten(name: &str) -> String {
    name.chars().take(64).collect()
}

/// Whether the caller may not see a server. A hint with such a server is treated like one with a
/// server that does not exist: its UUID is replaced by the nil UUID, which no server has.
fn is_invisible(request: &RoutedRequest<'_>, control: &ControlState, id: Uuid) -> bool {
    let mapping = control.conductor.mappings().get(&InstanceId(id));
    mapping
        .is_some_and(|mapping| mapping.project != request.project() && !request.sees_all_projects())
}

fn topology_path() -> String {
    format!("{}.{}", KEYS[0], topology::NAME)
}

fn parse_uuids(filter_hints: &FilterHints, name: &str) -> ApiResult<Vec<Uuid>> {
    let values = filter_hints.get(name).map_or(&[][..], Vec::as_slice);
    let ids = values.iter().map(|text| {
        Uuid::try_parse(text).map_err(|_| {
            let path = format!("{}.{name}", KEYS[0]);
            ApiError::field(&path, format!("it must be a UUID, not {text:?}"))
        })
    });
    ids.collect()
}

fn host_rule(relation: Relation, others: Vec<Uuid>) -> HardRule {
    HardRule {
        rule: group::Rule {
            scope: RuleScope::Host,
            relation,
        },
        others,
    }
}
