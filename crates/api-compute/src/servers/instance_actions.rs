//! The history of a server: its actions, and the attempts on hosts.

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

/// What is known of a server besides its actions.
struct ServerContext {
    id: InstanceId,
    project: String,
    user: String,
    /// The action that control itself reports while no cell has the server.
    own: Option<Action>,
    hosts: Vec<(placewright_conductor::HostId, String)>,
}

/// An action with its request id.
struct ActionWithId {
    id: String,
    action: Action,
}

/// The request id of an action, derived so that it is always the same.
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

fn about(
    call: &RoutedRequest<'_>,
    control: &ControlState,
    views: &Views,
    rule: Rule,
) -> ApiResult<ServerContext> {
    let seen = find(call, control, views, rule)?;
    Ok(ServerContext {
        id: seen.id,
        project: seen.mapping.project.clone(),
        user: seen.mapping.user.clone(),
        own: own(&seen),
        hosts: Vec::new(),
    })
}

/// The creation of a server of which no cell has reported yet.
fn own(seen: &ServerView<'_>) -> Option<Action> {
    if seen.view.is_some() {
        return None;
    }
    let fault = seen.fault();
    Some(Action {
        name: "create".to_owned(),
        started_at: seen.mapping.created_at,
        finished_at: fault.map(|fault| fault.at),
        tries: Vec::new(),
        fault: fault.cloned(),
    })
}

/// All actions of the server in the path, the latest first.
async fn all(
    call: &RoutedRequest<'_>,
    rule: Rule,
) -> ApiResult<(ServerContext, Vec<ActionWithId>)> {
    let mut about = call
        .read(|control, views| about(call, control, views, rule))
        .await?;
    let mut actions = match about.own.take() {
        Some(own) => vec![own],
        None => {
            let actions = call.core.conductor.actions(about.id).await;
            actions.map_err(|error| call.of_link(&error))?
        }
    };
    let tried: Vec<_> = actions
        .iter()
        .flat_map(|action| &action.tries)
        .map(|one| one.host)
        .collect();
    about.hosts = call
        .read(|control, _| {
            let hosts = control.conductor.hosts();
            let named = tried
                .iter()
                .filter_map(|host| Some((*host, hosts.get(host)?.name.clone())));
            named.collect()
        })
        .await;
    let actions = actions
        .drain(..)
        .enumerate()
        .map(|(number, action)| ActionWithId {
            id: request_id(about.id, number),
            action,
        });
    let mut actions: Vec<ActionWithId> = actions.collect();
    actions.reverse();
    Ok((about, actions))
}

fn changed_at(action: &Action) -> Timestamp {
    let tried = action.tries.last().map(|one| one.finished_at);
    action.finished_at.or(tried).unwrap_or(action.started_at)
}

fn shown(call: &RoutedRequest<'_>, about: &ServerContext, one: &ActionWithId) -> Value {
    let action = &one.action;
    let mut value = json!({
        "action": action.name,
        "instance_uuid": about.id,
        "request_id": one.id,
        "user_id": about.user,
        "project_id": about.project,
        "start_time": time::micros(action.started_at),
        "message": action.fault.as_ref().map(|fault| match call.sees_all_projects() {
            true => fault.message.clone(),
            false => fault::for_owner(fault),
        }),
    });
    if call.version.since(58) {
        value["updated_at"] = json!(time::micros(changed_at(action)));
    }
    value
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let (about, mut actions) = all(call, Rule::InstanceActionsList).await?;
    if call.version.since(58) {
        let since = call.query.time("changes-since")?;
        let before = match call.version.since(66) {
            true => call.query.time("changes-before")?,
            false => None,
        };
        actions.retain(|one| {
            let at = changed_at(&one.action);
            since.is_none_or(|since| at >= since) && before.is_none_or(|before| at <= before)
        });
        actions = page::cut(call, actions, |one, marker| one.id == marker)?;
    }
    let values: Vec<Value> = actions.iter().map(|one| shown(call, &about, one)).collect();
    let mut body = json!({"instanceActions": values});
    if call.version.since(58) {
        let path = format!("/servers/{}/os-instance-actions", about.id);
        let last = actions.last().map_or("", |one| one.id.as_str());
        if let Some(links) = page::next(call, &path, actions.len(), last)? {
            body["links"] = links;
        }
    }
    Reply::value(200, &body)
}

pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let (about, actions) = all(call, Rule::InstanceActionsShow).await?;
    let wanted = call.parameter("request_id");
    let found = actions.iter().find(|one| one.id == wanted);
    let found = found.ok_or_else(|| error::missing("action", wanted))?;
    let mut value = shown(call, &about, found);
    let sees_all = call.is_allowed(Rule::InstanceActionsEvents);
    if sees_all || call.version.since(51) {
        value["events"] = events(call, &about, found, sees_all);
    }
    Reply::value(200, &json!({"instanceAction": value}))
}

/// The events of an action: the search for a host, then the steps of hosts.
fn events(
    call: &RoutedRequest<'_>,
    about: &ServerContext,
    one: &ActionWithId,
    sees_all: bool,
) -> Value {
    let action = &one.action;
    let sees_details =
        call.version.since(84) && call.is_allowed(Rule::InstanceActionsEventsDetails);
    let event = |name: String, from, until: Option<Timestamp>, failure: Option<&str>| {
        let result = match (until, failure) {
            (_, Some(_)) => Some("Error"),
            (Some(_), None) => Some("Success"),
            (None, None) => None,
        };
        let mut value = json!({
            "event": name,
            "start_time": time::micros(from),
            "finish_time": until.map(time::micros),
            "result": result,
        });
        if sees_all {
            value["traceback"] = json!(failure);
        }
        if sees_details {
            value["details"] = json!(failure);
        }
        value
    };
    let mut values = Vec::new();
    for (place, attempt) in action.tries.iter().enumerate() {
        let name = format!(
            "compute_{}_try_{}",
            action.name.replace('-', "_"),
            place + 1
        );
        let failure = attempt.failure.as_deref();
        let mut value = event(name, attempt.started_at, Some(attempt.finished_at), failure);
        if call.version.since(62) {
            let host = about.hosts.iter().find(|(id, _)| *id == attempt.host);
            let host = host.map_or("", |(_, name)| name.as_str());
            value["hostId"] = json!(host_id(&about.project, host));
            if sees_all {
                value["host"] = json!(host);
            }
        }
        values.push(value);
    }
    if action.tries.is_empty() || action.fault.is_some() {
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
        if call.version.since(62) {
            value["hostId"] = json!("");
            if sees_all {
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
    fn ids_of_actions_are_uuids_and_stay() {
        let instance = InstanceId(Uuid::from_u128(7));
        let id = request_id(instance, 0);
        assert_eq!(id, request_id(instance, 0));
        assert_ne!(id, request_id(instance, 1));
        assert!(Uuid::try_parse(id.strip_prefix("req-").unwrap()).is_ok());
    }
}
