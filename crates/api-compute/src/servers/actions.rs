//! `POST /servers/{server_id}/action`: dispatches to the action that a body names.

mod lock;
mod moves;
mod rebuild;

use placewright_auth::Rule;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::Value;

use super::{delete, find};
use crate::fields;
use crate::routed_request::RoutedRequest;

/// Actions of the compute API that have nothing to do with placement, and are not implemented.
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

pub(crate) async fn act(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = call.json()?;
    let map = body
        .as_object()
        .ok_or_else(|| fields::wrong("", "an object", &body))?;
    let mut actions = map.iter();
    let (Some((name, parsed)), None) = (actions.next(), actions.next()) else {
        let message = "The body must have the one action that is wanted.";
        return Err(ApiError::bad_request(message));
    };
    call.note_action(name);
    match name.as_str() {
        "resize" => moves::resize(call, parsed).await,
        "confirmResize" => moves::confirm(call).await,
        "revertResize" => moves::revert(call).await,
        "migrate" => moves::migrate(call, parsed).await,
        "os-migrateLive" => moves::live_migrate(call, parsed).await,
        "evacuate" => moves::evacuate(call, parsed).await,
        "shelve" => moves::shelve(call).await,
        "shelveOffload" => moves::shelve_offload(call).await,
        "unshelve" => moves::unshelve(call, parsed).await,
        "rebuild" => rebuild::rebuild(call, parsed).await,
        "lock" => lock::lock(call, parsed).await,
        "unlock" => lock::unlock(call).await,
        "forceDelete" => {
            delete::now(call, Rule::ServersForceDelete).await?;
            Ok(Reply::empty(202))
        }
        _ if NOT_OFFERED.contains(&name.as_str()) => not_offered(call, name).await,
        _ => {
            let message = format!("There is no action {name}.");
            Err(ApiError::bad_request(message))
        }
    }
}

/// Rejects an action with 501, or 404 if the server does not exist.
async fn not_offered(call: &RoutedRequest<'_>, name: &str) -> ApiResult<Reply> {
    let read =
        call.read(|control, views| find(call, control, views, Rule::ServersStart).map(|_| ()));
    read.await?;
    Err(ApiError::not_implemented(format!(
        "{name} is not offered: servers are placed, moved and shown here, no more."
    )))
}

/// The arguments of an action that may also be null or missing.
fn nullable(parsed: &Value) -> Value {
    match parsed {
        Value::Null => Value::Object(serde_json::Map::new()),
        other => other.clone(),
    }
}
