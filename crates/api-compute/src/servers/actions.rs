//! `POST /servers/{server_id}/action`: runs the action that the body names.

mod lock;
mod moves;
mod rebuild;

use placewright_auth::Rule;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::Value;

use super::{action_records, delete, find};
use crate::fields;
use crate::routed_request::RoutedRequest;

/// Actions of the compute API that do not affect placement, and are not implemented. Some are names of Nova's former
/// API v3, which old clients still send.
const NOT_OFFERED: [&str; 33] = [
    "addFixedIp",
    "addFloatingIp",
    "addSecurityGroup",
    "changePassword",
    "createBackup",
    "createImage",
    "injectNetworkInfo",
    "os-getConsoleOutput",
    "os-getRDPConsole",
    "os-getSPICEConsole",
    "os-getSerialConsole",
    "os-getVNCConsole",
    "os-resetState",
    "os-start",
    "os-stop",
    "pause",
    "reboot",
    "removeFixedIp",
    "removeFloatingIp",
    "removeSecurityGroup",
    "rescue",
    "resetNetwork",
    "restore",
    "resume",
    "suspend",
    "swap_volume_attachment",
    "trigger_crash_dump",
    "unpause",
    "unrescue",
    "os-getMKSConsole",
    "get_console_output",
    "attach",
    "detach",
];

/// The actions that are implemented.
pub(crate) const OFFERED: [&str; 13] = [
    "confirmResize",
    "evacuate",
    "forceDelete",
    "lock",
    "migrate",
    "os-migrateLive",
    "rebuild",
    "resize",
    "revertResize",
    "shelve",
    "shelveOffload",
    "unlock",
    "unshelve",
];

/// Actions that leave a record in the history of their server, which the `Location` of the answer leads to.
pub(crate) const RECORDED: [&str; 9] = [
    "confirmResize",
    "evacuate",
    "migrate",
    "os-migrateLive",
    "rebuild",
    "resize",
    "revertResize",
    "shelve",
    "unshelve",
];

pub(crate) async fn run_action(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json()?;
    let map = body
        .as_object()
        .ok_or_else(|| fields::type_error("", "an object", &body))?;
    let mut actions = map.iter();
    let (Some((name, arguments)), None) = (actions.next(), actions.next()) else {
        let message = "The body must have the one action that is wanted.";
        return Err(ApiError::bad_request(message));
    };
    request.note_action(name);
    let mut reply = run_named(request, name, arguments).await?;
    if RECORDED.contains(&name.as_str()) && reply.location.is_none() {
        reply.location = Some(action_records::link(request, request.request_uuid));
    }
    Ok(reply)
}

async fn run_named(request: &RoutedRequest<'_>, name: &str, arguments: &Value) -> ApiResult<Reply> {
    match name {
        "resize" => moves::resize(request, arguments).await,
        "confirmResize" => moves::confirm(request).await,
        "revertResize" => moves::revert(request).await,
        "migrate" => moves::migrate(request, arguments).await,
        "os-migrateLive" => moves::live_migrate(request, arguments).await,
        "evacuate" => moves::evacuate(request, arguments).await,
        "shelve" => moves::shelve(request).await,
        "shelveOffload" => moves::shelve_offload(request).await,
        "unshelve" => moves::unshelve(request, arguments).await,
        "rebuild" => rebuild::rebuild(request, arguments).await,
        "lock" => lock::lock(request, arguments).await,
        "unlock" => lock::unlock(request).await,
        "forceDelete" => {
            delete::delete_server(request, Rule::ServersForceDelete).await?;
            Ok(Reply::empty(202))
        }
        _ if NOT_OFFERED.contains(&name) => not_offered(request, name).await,
        _ => {
            let message = format!("There is no action {name}.");
            Err(ApiError::bad_request(message))
        }
    }
}

/// Rejects an action that is not implemented with 501. Callers who may not use the server get the error of [`find`].
async fn not_offered(request: &RoutedRequest<'_>, name: &str) -> ApiResult<Reply> {
    // The policy rule of `os-start` stands for those of all these actions.
    let reading = request
        .read(|control, views| find(request, control, views, Rule::ServersStart).map(|_| ()));
    reading.await?;
    Err(ApiError::not_implemented(format!(
        "{name} is not offered: servers are placed, moved and shown here, no more."
    )))
}

/// The arguments of an action whose body may be null instead of an object.
fn object_or_empty(arguments: &Value) -> Value {
    match arguments {
        Value::Null => Value::Object(serde_json::Map::new()),
        other => other.clone(),
    }
}
