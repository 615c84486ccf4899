//! The limits of a project with what it uses of them, and the list of extensions.

use placewright_auth::Rule;
use placewright_conductor::ControlState;
use placewright_conductor::quota::Resource;
use placewright_http::{ApiResult, Reply};
use serde_json::{Value, json};

use super::quotas::Quota;
use crate::error;
use crate::routed_request::RoutedRequest;

/// The limits of a project, and its usage.
fn absolute(control: &ControlState, project: &str) -> Value {
    let quota = |resource| Quota::of(&control.conductor, Some(project), &resource);
    let (instances, cores) = (quota(Resource::Instances), quota(Resource::Cores));
    let (ram, groups) = (quota(Resource::Ram), quota(Resource::ServerGroups));
    json!({
        "maxServerMeta": 128,
        "maxTotalInstances": instances.limit,
        "maxTotalKeypairs": quota(Resource::KeyPairs).limit,
        "maxTotalCores": cores.limit,
        "maxTotalRAMSize": ram.limit,
        "maxServerGroups": groups.limit,
        "maxServerGroupMembers": quota(Resource::ServerGroupMembers).limit,
        "totalInstancesUsed": instances.used,
        "totalCoresUsed": cores.used,
        "totalRAMUsed": ram.used,
        "totalServerGroupsUsed": groups.used,
    })
}

pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::LimitsShow)?;
    let other = call.query.get("tenant_id");
    if other.is_some() {
        call.allow(Rule::LimitsOtherProject)?;
    }
    let project = other.unwrap_or_else(|| call.project());
    let mut absolute = call.read(|control, _| absolute(control, project)).await;
    if !call.version.since(57) {
        for key in ["maxImageMeta", "maxPersonality", "maxPersonalitySize"] {
            absolute[key] = json!(if key == "maxImageMeta" { 128 } else { 0 });
        }
    }
    if !call.version.since(36) {
        for key in [
            "maxSecurityGroups",
            "maxSecurityGroupRules",
            "maxTotalFloatingIps",
        ] {
            absolute[key] = json!(-1);
        }
        for key in ["totalSecurityGroupsUsed", "totalFloatingIpsUsed"] {
            absolute[key] = json!(0);
        }
    }
    Reply::value(200, &json!({"limits": {"rate": [], "absolute": absolute}}))
}

/// The list of extensions, by which old clients detect features; it is empty.
pub(crate) async fn extensions(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::ExtensionsList)?;
    Reply::value(200, &json!({"extensions": []}))
}

pub(crate) async fn extension(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::ExtensionsList)?;
    Err(error::missing("extension", call.parameter("alias")))
}
