//! The limits and the usage of a project, and the list of extensions.

use placewright_auth::Rule;
use placewright_conductor::ControlState;
use placewright_conductor::quota::Resource;
use placewright_http::{ApiResult, Reply};
use serde_json::{Value, json};

use super::quotas::Quota;
use crate::error;
use crate::routed_request::RoutedRequest;

/// The limits and the usage of a project, as the API shows them.
fn absolute_limits(control: &ControlState, project: &str) -> Value {
    let quota = |resource| Quota::new(&control.conductor, Some(project), &resource);
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

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::LimitsShow)?;
    let other_project = request.query.get("tenant_id");
    if other_project.is_some() {
        request.authorize(Rule::LimitsOtherProject)?;
    }
    let project = other_project.unwrap_or_else(|| request.project());
    let mut absolute = request
        .read(|control, _| absolute_limits(control, project))
        .await;
    if !request.version.since(57) {
        for key in ["maxImageMeta", "maxPersonality", "maxPersonalitySize"] {
            absolute[key] = json!(if key == "maxImageMeta" { 128 } else { 0 });
        }
    }
    if !request.version.since(36) {
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
pub(crate) async fn extensions(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ExtensionsList)?;
    Reply::value(200, &json!({"extensions": []}))
}

/// Answers with 404, because there are no extensions.
pub(crate) async fn extension(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ExtensionsList)?;
    Err(error::missing("extension", request.parameter("alias")))
}
