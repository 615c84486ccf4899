//! Server groups: affinity and anti-affinity of servers.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::{
    Command, GroupTopology, LimitCheck, Refusal, ServerGroup,
};
use placewright_conductor::{ControlState, InstanceId};
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_scheduler::request::{GroupPolicy, ServerGroup as RequestedGroup, TopologyRule};
use placewright_scheduler::select::rules::hard_group_rules;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error;
use crate::fields::{self, ObjectParser};
use crate::page;
use crate::routed_request::RoutedRequest;
use crate::slices::SliceResult;
use crate::topology;

/// The maximum value of `max_server_per_host`.
const SERVERS_PER_HOST_MAX: i64 = i32::MAX as i64;

/// The server group in the form of a request to the scheduler. Its members are left out, because placement
/// knows them.
pub(crate) fn for_scheduler(
    control: &ControlState,
    uuid: Uuid,
    group: &ServerGroup,
) -> RequestedGroup {
    let topology = control.conductor.group_topologies().get(&uuid);
    let topology_rules = topology.map(|topology| topology.rules.clone());
    RequestedGroup {
        uuid,
        policy: parse_policy(&group.policy),
        max_server_per_host: group.max_server_per_host,
        members: std::collections::BTreeSet::new(),
        hosts: std::collections::BTreeSet::new(),
        topology_rules: topology_rules.unwrap_or_default(),
    }
}

/// The policies of server groups, as [`parse_policy`] reads them.
pub(crate) const POLICIES: [&str; 4] = [
    "affinity",
    "anti-affinity",
    "soft-affinity",
    "soft-anti-affinity",
];

fn parse_policy(name: &str) -> Option<GroupPolicy> {
    Some(match name {
        "affinity" => GroupPolicy::Affinity,
        "anti-affinity" => GroupPolicy::AntiAffinity,
        "soft-affinity" => GroupPolicy::SoftAffinity,
        "soft-anti-affinity" => GroupPolicy::SoftAntiAffinity,
        _ => return None,
    })
}

fn group_json(
    request: &RoutedRequest<'_>,
    control: &ControlState,
    uuid: Uuid,
    group: &ServerGroup,
) -> Value {
    let mappings = control.conductor.mappings();
    let is_present = |id: &&InstanceId| {
        mappings
            .get(*id)
            .is_some_and(|mapping| !mapping.is_deleting)
    };
    let members: Vec<&InstanceId> = group.members.iter().filter(is_present).collect();
    let mut value = json!({"id": uuid, "name": group.name, "members": members});
    if request.version.since(64) {
        value["policy"] = json!(group.policy);
        value["rules"] = match group.max_server_per_host {
            Some(per_host) => json!({"max_server_per_host": per_host}),
            None => json!({}),
        };
        if let Some(topology) = control.conductor.group_topologies().get(&uuid) {
            value["rules"][topology::NAME] = json!(topology.rules);
        }
    } else {
        value["policies"] = json!([group.policy]);
        value["metadata"] = json!({});
    }
    if request.version.since(13) {
        value["project_id"] = json!(group.project);
        value["user_id"] = json!(group.user);
    }
    value
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ServerGroupsIndex)?;
    if request.version.since(75) {
        request
            .query
            .reject_unknown(&["all_projects", "limit", "offset"])?;
    }
    let wants_all_projects = request.query.boolean("all_projects")?.unwrap_or(false);
    if wants_all_projects {
        request.authorize(Rule::ServerGroupsIndexAllProjects)?;
    }
    let offset = request.query.number("offset")?.unwrap_or(0);
    let limit = page::limit(request)?;
    let ids = request.read(|control, _| {
        let conductor = &control.conductor;
        if wants_all_projects {
            let groups = conductor.groups().keys().copied();
            return groups.skip(offset).take(limit).collect::<Vec<_>>();
        }
        // The groups from the first one on.
        let after = None;
        let groups = conductor.listing().groups_of(request.project(), after);
        groups.skip(offset).take(limit).collect()
    });
    let ids = ids.await;
    // The groups are formatted in slices, so that the lock on the state is not held for the whole page.
    let groups = request.collect_slices(|control, _, after: Option<&usize>| {
        let start = after.map_or(0, |after| after + 1);
        SliceResult::collect(ids.iter().enumerate().skip(start), |_, uuid| {
            let group = control.conductor.groups().get(uuid)?;
            Some(group_json(request, control, *uuid, group))
        })
    });
    Reply::value(200, &json!({"server_groups": groups.await}))
}

/// Finds the group of the path, and checks a policy rule for it.
fn find<'s>(
    request: &RoutedRequest<'_>,
    control: &'s ControlState,
    rule: Rule,
) -> ApiResult<(Uuid, &'s ServerGroup)> {
    let text = request.parameter("server_group_id");
    let missing = || error::missing("server group", text);
    let uuid = Uuid::try_parse(text).map_err(|_| missing())?;
    let group = control.conductor.groups().get(&uuid).ok_or_else(missing)?;
    if group.project != request.project() && !request.sees_all_projects() {
        return Err(missing());
    }
    request.authorize_for(rule, &group.project, &group.user)?;
    Ok((uuid, group))
}

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let group = request.try_read(|control, _| {
        let (uuid, group) = find(request, control, Rule::ServerGroupsShow)?;
        Ok(group_json(request, control, uuid, group))
    });
    Reply::value(200, &json!({"server_group": group.await?}))
}

pub(crate) async fn create(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ServerGroupsCreate)?;
    let body = request.json()?;
    let mut body_parser = ObjectParser::of_body(&body)?;
    let mut parser = body_parser.object("server_group")?;
    let name = parser.name("name")?;
    let name = name.ok_or_else(|| parser.field_error("name", "it is missing"))?;
    let (policy_name, per_host, topology_rules) = if request.version.since(64) {
        parse_policy_fields(&mut parser)?
    } else {
        (parse_policies(&mut parser)?, None, Vec::new())
    };
    let is_soft = policy_name.starts_with("soft-");
    let policy = parse_policy(policy_name).filter(|_| !is_soft || request.version.since(15));
    let policy = policy.ok_or_else(|| {
        let message = format!("there is no policy {policy_name:?}");
        parser.field_error("policy", message)
    })?;
    parser.finish()?;
    body_parser.finish()?;
    check_topology(request, &topology_rules).await?;
    let uuid = Uuid::new_v4();
    request.note_created([uuid]);
    let requested_group = RequestedGroup {
        uuid,
        policy: Some(policy),
        max_server_per_host: per_host,
        members: std::collections::BTreeSet::new(),
        hosts: std::collections::BTreeSet::new(),
        topology_rules,
    };
    let group = ServerGroup {
        name: name.to_owned(),
        project: request.project().to_owned(),
        user: request.user().to_owned(),
        policy: policy_name.to_owned(),
        max_server_per_host: per_host,
        rules: hard_group_rules(&requested_group),
        members: Vec::new(),
    };
    let rules = &requested_group.topology_rules;
    let topology = (!rules.is_empty()).then(|| GroupTopology {
        rules: rules.clone(),
    });
    let groups_max = request.api_state.limits().server_groups_max;
    let command = Command::Limited {
        checks: vec![LimitCheck::Groups {
            project: group.project.clone(),
            max: groups_max,
        }],
        command: Box::new(Command::SetGroup {
            group: uuid,
            row: Some(group.clone()),
            topology,
        }),
    };
    match request.submit(command).await? {
        Ok(_) => {}
        Err(Refusal::TooMany { .. }) => {
            return Err(ApiError::forbidden(format!(
                "The project has {groups_max} server groups; compute.server_groups_max allows no more."
            )));
        }
        Err(refusal) => return Err(error::from_refusal(refusal)),
    }
    let group = request.read(|control, _| group_json(request, control, uuid, &group));
    Reply::value(200, &json!({"server_group": group.await}))
}

/// Rejects topology rules that a group cannot have.
async fn check_topology(request: &RoutedRequest<'_>, rules: &[TopologyRule]) -> ApiResult<()> {
    let path = format!("server_group.rules.{}", topology::NAME);
    request
        .try_read(|control, _| topology::check_rules(request, control, &path, rules))
        .await
}

/// The policy of a group, its maximum number of members per host, and its topology rules.
type ParsedPolicy<'a> = (&'a str, Option<u32>, Vec<TopologyRule>);

/// Parses one policy with its rules, from version 2.64 on.
fn parse_policy_fields<'a>(parser: &mut ObjectParser<'a>) -> ApiResult<ParsedPolicy<'a>> {
    let policy = parser.required_text("policy", 1..=64)?;
    let Some(rules) = parser.take("rules") else {
        return Ok((policy, None, Vec::new()));
    };
    let mut rules_parser = ObjectParser::new(parser.path_of("rules"), rules)?;
    let per_host = rules_parser.integer("max_server_per_host", 1..=SERVERS_PER_HOST_MAX)?;
    let topology_rules = match rules_parser.take(topology::NAME) {
        Some(value) => topology::parse_rules(&rules_parser.path_of(topology::NAME), value)?,
        None => Vec::new(),
    };
    rules_parser.finish()?;
    if per_host.is_some() && policy != "anti-affinity" {
        let message = "only the policy anti-affinity has max_server_per_host";
        return Err(parser.field_error("rules", message));
    }
    let per_host = per_host.and_then(|per_host| u32::try_from(per_host).ok());
    Ok((policy, per_host, topology_rules))
}

/// Parses a list with one policy, before version 2.64.
fn parse_policies<'a>(parser: &mut ObjectParser<'a>) -> ApiResult<&'a str> {
    let value = parser.take_required("policies")?;
    match value.as_array().map(Vec::as_slice) {
        Some([Value::String(policy)]) => Ok(policy),
        _ => {
            let path = parser.path_of("policies");
            Err(fields::type_error(&path, "a list with one policy", value))
        }
    }
}

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let uuid = request.try_read(|control, _| {
        let (uuid, _) = find(request, control, Rule::ServerGroupsDelete)?;
        Ok(uuid)
    });
    let group = uuid.await?;
    request
        .execute(Command::SetGroup {
            group,
            row: None,
            topology: None,
        })
        .await?;
    Ok(Reply::empty(204))
}
