//! The history of a server: its actions, and their attempts on hosts.

use placewright_auth::Rule;
use placewright_conductor::{Action, ControlState, InstanceId};
use placewright_control::Views;
use placewright_http::{ApiResult, Reply};
use placewright_placement::Timestamp;
use serde_json::{Value, json};

use super::action_records::{ActionRecord, ControlRecords};
use super::fault;
use super::find;
use super::show::host_id;
use crate::routed_request::RoutedRequest;
use crate::{error, page, time};

/// The server of a list of actions, and the names of the hosts in the actions.
struct ActionContext {
    id: InstanceId,
    project: String,
    user: String,
    /// The hosts on which the actions were attempted, each with its name. [`load_actions`] adds the hosts.
    hosts: Vec<(placewright_conductor::HostId, String)>,
}

fn action_context(
    request: &RoutedRequest<'_>,
    control: &ControlState,
    views: &Views,
    rule: Rule,
) -> ApiResult<(ActionContext, ControlRecords)> {
    let server = find(request, control, views, rule)?;
    let context = ActionContext {
        id: server.id,
        project: server.mapping.project.clone(),
        user: server.mapping.user.clone(),
        hosts: Vec::new(),
    };
    Ok((context, ControlRecords::of_server(&server)))
}

/// All actions of the server in the path, the latest first.
async fn load_actions(
    request: &RoutedRequest<'_>,
    rule: Rule,
) -> ApiResult<(ActionContext, Vec<ActionRecord>)> {
    let (mut context, mut of_control) = request
        .read(|control, views| action_context(request, control, views, rule))
        .await?;
    let recorded = match of_control.pending_create.take() {
        Some(create) => vec![create],
        None => {
            let actions = request.api_state.control.actions(context.id).await;
            actions.map_err(|error| request.link_error(&error))?
        }
    };
    let mut actions = of_control.combine(recorded);
    actions.reverse();
    let tried_hosts: Vec<_> = actions
        .iter()
        .flat_map(|entry| &entry.action.attempts)
        .map(|attempt| attempt.host)
        .collect();
    context.hosts = request
        .read(|control, _| {
            let hosts = control.conductor.hosts();
            let names = tried_hosts
                .iter()
                .filter_map(|host| Some((*host, hosts.get(host)?.name.clone())));
            names.collect()
        })
        .await;
    Ok((context, actions))
}

fn changed_at(action: &Action) -> Timestamp {
    let last_attempt_at = action.attempts.last().map(|attempt| attempt.finished_at);
    action
        .finished_at
        .or(last_attempt_at)
        .unwrap_or(action.started_at)
}

fn action_json(
    request: &RoutedRequest<'_>,
    context: &ActionContext,
    entry: &ActionRecord,
) -> Value {
    let action = &entry.action;
    let mut value = json!({
        "action": action.name,
        "instance_uuid": context.id,
        "request_id": entry.request_id,
        "user_id": context.user,
        "project_id": context.project,
        "start_time": time::format_micros(action.started_at),
        "message": action.fault.as_ref().map(|fault| match request.sees_all_projects() {
            true => fault.message.clone(),
            false => fault::for_owner(fault),
        }),
    });
    if request.version.since(58) {
        value["updated_at"] = json!(time::format_micros(changed_at(action)));
    }
    value
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let (context, mut actions) = load_actions(request, Rule::InstanceActionsList).await?;
    if request.version.since(58) {
        let changed_since = request.query.time("changes-since")?;
        let changed_before = match request.version.since(66) {
            true => request.query.time("changes-before")?,
            false => None,
        };
        actions.retain(|entry| {
            let time = changed_at(&entry.action);
            changed_since.is_none_or(|since| time >= since)
                && changed_before.is_none_or(|before| time <= before)
        });
        actions = page::paginate(request, actions, |entry, marker| entry.request_id == marker)?;
    }
    let values: Vec<Value> = actions
        .iter()
        .map(|entry| action_json(request, &context, entry))
        .collect();
    let mut body = json!({"instanceActions": values});
    if request.version.since(58) {
        let path = format!("/servers/{}/os-instance-actions", context.id);
        let last_id = actions.last().map_or("", |entry| entry.request_id.as_str());
        if let Some(links) = page::next_link(request, &path, actions.len(), last_id)? {
            body["links"] = links;
        }
    }
    Reply::value(200, &body)
}

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let (context, actions) = load_actions(request, Rule::InstanceActionsShow).await?;
    let wanted_id = request.parameter("request_id");
    let entry = actions.iter().find(|entry| entry.request_id == wanted_id);
    let entry = entry.ok_or_else(|| error::missing("action", wanted_id))?;
    let mut value = action_json(request, &context, entry);
    // From version 2.51 on everybody sees the events, but without hosts and tracebacks.
    let sees_hosts = request.is_allowed(Rule::InstanceActionsEvents);
    if sees_hosts || request.version.since(51) {
        value["events"] = events(request, &context, entry, sees_hosts);
    }
    Reply::value(200, &json!({"instanceAction": value}))
}

/// The events of an action: first the search for a host, if there was no attempt or the action failed; then the
/// attempts on hosts, the latest first. `sees_hosts` is whether the names of hosts and tracebacks are shown.
fn events(
    request: &RoutedRequest<'_>,
    context: &ActionContext,
    entry: &ActionRecord,
    sees_hosts: bool,
) -> Value {
    let action = &entry.action;
    let sees_details =
        request.version.since(84) && request.is_allowed(Rule::InstanceActionsEventsDetails);
    let event = |name: String, from, until: Option<Timestamp>, failure: Option<&str>| {
        let result = match (until, failure) {
            (_, Some(_)) => Some("Error"),
            (Some(_), None) => Some("Success"),
            (None, None) => None,
        };
        let mut value = json!({
            "event": name,
            "start_time": time::format_micros(from),
            "finish_time": until.map(time::format_micros),
            "result": result,
        });
        if sees_hosts {
            value["traceback"] = json!(failure);
        }
        if sees_details {
            value["details"] = json!(failure);
        }
        value
    };
    let mut values = Vec::new();
    for (index, attempt) in action.attempts.iter().enumerate() {
        let name = format!(
            "compute_{}_try_{}",
            action.name.replace('-', "_"),
            index + 1
        );
        let failure = attempt.failure.as_deref();
        let mut value = event(name, attempt.started_at, Some(attempt.finished_at), failure);
        if request.version.since(62) {
            let host = context.hosts.iter().find(|(id, _)| *id == attempt.host);
            let id = host.map_or_else(String::new, |(_, name)| host_id(&context.project, name));
            value["hostId"] = json!(id);
            if sees_hosts {
                value["host"] = json!(host.map_or("", |(_, name)| name.as_str()));
            }
        }
        values.push(value);
    }
    if action.attempts.is_empty() || action.fault.is_some() {
        let name = format!("conductor_{}", action.name.replace('-', "_"));
        let failure = action
            .fault
            .as_ref()
            .map(|fault| match fault.details.as_str() {
                "" => fault.message.clone(),
                details => format!("{} {details}", fault.message),
            });
        let mut value = event(
            name,
            action.started_at,
            action.finished_at,
            failure.as_deref(),
        );
        if request.version.since(62) {
            value["hostId"] = json!("");
            if sees_hosts {
                value["host"] = json!(null);
            }
        }
        values.push(value);
    }
    values.reverse();
    Value::Array(values)
}
