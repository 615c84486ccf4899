//! The history of a server: its actions, and their attempts on hosts.

use placewright_auth::Rule;
use placewright_conductor::{Action, ControlState, InstanceId};
use placewright_control::Views;
use placewright_http::{ApiResult, Reply};
use placewright_placement::Timestamp;
use serde_json::{Value, json};

use super::fault;
use super::find;
use super::server_view::ServerView;
use super::show::host_id;
use crate::routed_request::RoutedRequest;
use crate::{error, page, time};

/// The server of a list of actions, and the names of the hosts in the actions.
struct ActionContext {
    id: InstanceId,
    project: String,
    user: String,
    /// The creation of the server, while no cell has reported the server.
    pending_create: Option<Action>,
    /// The hosts on which the actions were attempted, each with its name. [`load_actions`] adds the hosts.
    hosts: Vec<(placewright_conductor::HostId, String)>,
}

/// An action with the request id that the API shows.
struct ActionWithId {
    request_id: String,
    action: Action,
}

/// The request id of a server's action. Actions are stored without request ids, so it is derived from the
/// server and the number of the action.
fn request_id(instance: InstanceId, number: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(instance.0.as_bytes());
    hasher.update(&(number as u64).to_le_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    format!(
        "req-{}",
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    )
}

fn action_context(
    request: &RoutedRequest<'_>,
    control: &ControlState,
    views: &Views,
    rule: Rule,
) -> ApiResult<ActionContext> {
    let server = find(request, control, views, rule)?;
    Ok(ActionContext {
        id: server.id,
        project: server.mapping.project.clone(),
        user: server.mapping.user.clone(),
        pending_create: pending_create(&server),
        hosts: Vec::new(),
    })
}

/// The creation of a server, if no cell has reported the server yet.
fn pending_create(server: &ServerView<'_>) -> Option<Action> {
    if server.view.is_some() {
        return None;
    }
    let fault = server.fault();
    Some(Action {
        name: "create".to_owned(),
        started_at: server.mapping.created_at,
        finished_at: fault.map(|fault| fault.at),
        attempts: Vec::new(),
        fault: fault.cloned(),
    })
}

/// All actions of the server in the path, the latest first.
async fn load_actions(
    request: &RoutedRequest<'_>,
    rule: Rule,
) -> ApiResult<(ActionContext, Vec<ActionWithId>)> {
    let mut context = request
        .read(|control, views| action_context(request, control, views, rule))
        .await?;
    let mut actions = match context.pending_create.take() {
        Some(create) => vec![create],
        None => {
            let actions = request.api_state.control.actions(context.id).await;
            actions.map_err(|error| request.link_error(&error))?
        }
    };
    let tried_hosts: Vec<_> = actions
        .iter()
        .flat_map(|action| &action.attempts)
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
    let actions = actions
        .drain(..)
        .enumerate()
        .map(|(number, action)| ActionWithId {
            request_id: request_id(context.id, number),
            action,
        });
    let mut actions: Vec<ActionWithId> = actions.collect();
    actions.reverse();
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
    entry: &ActionWithId,
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
/// attempts on hosts, the latest first. `sees_hosts` says whether the names of hosts and tracebacks are shown.
fn events(
    request: &RoutedRequest<'_>,
    context: &ActionContext,
    entry: &ActionWithId,
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
            let host = host.map_or("", |(_, name)| name.as_str());
            value["hostId"] = json!(host_id(&context.project, host));
            if sees_hosts {
                value["host"] = json!(host);
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

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn request_ids_of_actions_are_uuids_and_do_not_change() {
        let instance = InstanceId(Uuid::from_u128(7));
        let id = request_id(instance, 0);
        assert_eq!(id, request_id(instance, 0));
        assert_ne!(id, request_id(instance, 1));
        assert!(Uuid::try_parse(id.strip_prefix("req-").unwrap()).is_ok());
    }
}
