//! Server groups: affinity and anti-affinity of servers.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::{Bound, Command, GroupTopology, Refusal, ServerGroup};
use placewright_conductor::{ControlState, InstanceId};
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_scheduler::request::{GroupPolicy, ServerGroup as Request, TopologyRule};
use placewright_scheduler::select::rules::of_group;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error;
use crate::fields::{self, ObjectParser};
use crate::page;
use crate::routed_request::RoutedRequest;
use crate::slices::SliceResult;
use crate::topology;

/// The greatest number of members per host that a rule may allow.
const PER_HOST_MAX: i64 = i32::MAX as i64;

/// The group in the form that the scheduler needs.
pub(crate) fn for_scheduler(control: &ControlState, uuid: Uuid, row: &ServerGroup) -> Request {
    let topology = control.conductor.group_topologies().get(&uuid);
    let topology = topology.map(|one| one.rules.clone());
    Request {
        uuid,
        policy: policy(&row.policy),
        max_server_per_host: row.max_server_per_host,
        members: std::collections::BTreeSet::new(),
        hosts: std::collections::BTreeSet::new(),
        topology_rules: topology.unwrap_or_default(),
    }
}

fn policy(name: &str) -> Option<GroupPolicy> {
    Some(match name {
        "affinity" => GroupPolicy::Affinity,
        "anti-affinity" => GroupPolicy::AntiAffinity,
        "soft-affinity" => GroupPolicy::SoftAffinity,
        "soft-anti-affinity" => GroupPolicy::SoftAntiAffinity,
        _ => return None,
    })
}

fn shown(call: &RoutedRequest<'_>, control: &ControlState, uuid: Uuid, row: &ServerGroup) -> Value {
    let mappings = control.conductor.mappings();
    let is_there = |id: &&InstanceId| mappings.get(*id).is_some_and(|one| !one.is_deleting);
    let members: Vec<&InstanceId> = row.members.iter().filter(is_there).collect();
    let mut value = json!({"id": uuid, "name": row.name, "members": members});
    if call.version.since(64) {
        value["policy"] = json!(row.policy);
        value["rules"] = match row.max_server_per_host {
            Some(most) => json!({"max_server_per_host": most}),
            None => json!({}),
        };
        if let Some(topology) = control.conductor.group_topologies().get(&uuid) {
            value["rules"][topology::NAME] = json!(topology.rules);
        }
    } else {
        value["policies"] = json!([row.policy]);
        value["metadata"] = json!({});
    }
    if call.version.since(13) {
        value["project_id"] = json!(row.project);
        value["user_id"] = json!(row.user);
    }
    value
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::ServerGroupsIndex)?;
    if call.version.since(75) {
        call.query.only(&["all_projects", "limit", "offset"])?;
    }
    let wants_all = call.query.boolean("all_projects")?.unwrap_or(false);
    if wants_all {
        call.allow(Rule::ServerGroupsIndexAllProjects)?;
    }
    let offset = call.query.number("offset")?.unwrap_or(0);
    let limit = page::limit(call)?;
    let ids = call.read(|control, _| {
        let conductor = &control.conductor;
        if wants_all {
            let all = conductor.groups().keys().copied();
            return all.skip(offset).take(limit).collect::<Vec<_>>();
        }
        let own = conductor.listing().groups_of(call.project(), None);
        own.skip(offset).take(limit).collect()
    });
    let ids = ids.await;
    let groups = call.gather(|control, _, after: Option<&usize>| {
        let from = after.map_or(0, |after| after + 1);
        SliceResult::look(ids.iter().enumerate().skip(from), |_, uuid| {
            let row = control.conductor.groups().get(uuid)?;
            Some(shown(call, control, *uuid, row))
        })
    });
    Reply::value(200, &json!({"server_groups": groups.await}))
}

/// Finds the group of the path.
fn find<'s>(
    call: &RoutedRequest<'_>,
    control: &'s ControlState,
    rule: Rule,
) -> ApiResult<(Uuid, &'s ServerGroup)> {
    let text = call.parameter("server_group_id");
    let missing = || error::missing("server group", text);
    let uuid = Uuid::try_parse(text).map_err(|_| missing())?;
    let row = control.conductor.groups().get(&uuid).ok_or_else(missing)?;
    if row.project != call.project() && !call.sees_all_projects() {
        return Err(missing());
    }
    call.allow_on(rule, &row.project, &row.user)?;
    Ok((uuid, row))
}

pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let group = call.try_read(|control, _| {
        let (uuid, row) = find(call, control, Rule::ServerGroupsShow)?;
        Ok(shown(call, control, uuid, row))
    });
    Reply::value(200, &json!({"server_group": group.await?}))
}

pub(crate) async fn create(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::ServerGroupsCreate)?;
    let body = call.json()?;
    let mut fields = ObjectParser::of_body(&body)?;
    let mut parsed = fields.object("server_group")?;
    let name = parsed.name("name")?;
    let name = name.ok_or_else(|| parsed.wrong("name", "it is missing"))?;
    let (policy_name, per_host, rules) = if call.version.since(64) {
        read_policy(&mut parsed)?
    } else {
        (read_policies(&mut parsed)?, None, Vec::new())
    };
    let is_soft = policy_name.starts_with("soft-");
    let known = policy(policy_name).filter(|_| !is_soft || call.version.since(15));
    let known = known.ok_or_else(|| {
        let message = format!("there is no policy {policy_name:?}");
        parsed.wrong("policy", message)
    })?;
    parsed.finish()?;
    fields.finish()?;
    check_topology(call, &rules).await?;
    let uuid = Uuid::new_v4();
    call.note_created([uuid]);
    let request = Request {
        uuid,
        policy: Some(known),
        max_server_per_host: per_host,
        members: std::collections::BTreeSet::new(),
        hosts: std::collections::BTreeSet::new(),
        topology_rules: rules,
    };
    let row = ServerGroup {
        name: name.to_owned(),
        project: call.project().to_owned(),
        user: call.user().to_owned(),
        policy: policy_name.to_owned(),
        max_server_per_host: per_host,
        rules: of_group(&request),
        members: Vec::new(),
    };
    let rules = &request.topology_rules;
    let topology = (!rules.is_empty()).then(|| GroupTopology {
        rules: rules.clone(),
    });
    let most = call.core.limits().server_groups_max;
    let command = Command::Bounded {
        bounds: vec![Bound::Groups {
            project: row.project.clone(),
            most,
        }],
        command: Box::new(Command::SetGroup {
            group: uuid,
            row: Some(row.clone()),
            topology,
        }),
    };
    match call.submit(command).await? {
        Ok(_) => {}
        Err(Refusal::TooMany { .. }) => {
            return Err(ApiError::forbidden(format!(
                "The project has {most} server groups; compute.server_groups_max allows no more."
            )));
        }
        Err(refusal) => return Err(error::of_refusal(refusal)),
    }
    let group = call.read(|control, _| shown(call, control, uuid, &row));
    Reply::value(200, &json!({"server_group": group.await}))
}

/// Rejects topology rules that a group cannot have.
async fn check_topology(call: &RoutedRequest<'_>, rules: &[TopologyRule]) -> ApiResult<()> {
    let path = format!("server_group.rules.{}", topology::NAME);
    if let Some(place) = rules.iter().position(|rule| !rule.to.is_empty()) {
        let field = format!("{path}[{place}].to");
        let message = "the rules of a group are about its members";
        return Err(ApiError::field(&field, message));
    }
    call.try_read(|control, _| topology::check(call, control, &path, rules))
        .await
}

/// A group's policy, its limit of members per host, and its topology rules.
type Policy<'a> = (&'a str, Option<u32>, Vec<TopologyRule>);

/// Parses one policy with its rules, from version 2.64 on.
fn read_policy<'a>(parsed: &mut ObjectParser<'a>) -> ApiResult<Policy<'a>> {
    let policy = parsed.needed_text("policy", 1..=64)?;
    let Some(rules) = parsed.take("rules") else {
        return Ok((policy, None, Vec::new()));
    };
    let mut rules = ObjectParser::new(parsed.path_of("rules"), rules)?;
    let most = rules.integer("max_server_per_host", 1..=PER_HOST_MAX)?;
    let topology = match rules.take(topology::NAME) {
        Some(value) => topology::read(&rules.path_of(topology::NAME), value)?,
        None => Vec::new(),
    };
    rules.finish()?;
    if most.is_some() && policy != "anti-affinity" {
        let message = "only the policy anti-affinity has max_server_per_host";
        return Err(parsed.wrong("rules", message));
    }
    let most = most.and_then(|most| u32::try_from(most).ok());
    Ok((policy, most, topology))
}

/// Parses a list with one policy, before version 2.64.
fn read_policies<'a>(parsed: &mut ObjectParser<'a>) -> ApiResult<&'a str> {
    let value = parsed.need("policies")?;
    match value.as_array().map(Vec::as_slice) {
        Some([Value::String(policy)]) => Ok(policy),
        _ => {
            let path = parsed.path_of("policies");
            Err(fields::wrong(&path, "a list with one policy", value))
        }
    }
}

pub(crate) async fn delete(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let found = call.try_read(|control, _| {
        let (uuid, _) = find(call, control, Rule::ServerGroupsDelete)?;
        Ok(uuid)
    });
    let group = found.await?;
    call.carry_out(Command::SetGroup {
        group,
        row: None,
        topology: None,
    })
    .await?;
    Ok(Reply::empty(204))
}
