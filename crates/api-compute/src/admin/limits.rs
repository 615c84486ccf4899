//! Limits and quotas: all are unlimited, and usage is counted.

use placewright_auth::Rule;
use placewright_conductor::ControlState;
use placewright_http::{ApiResult, Reply};
use serde_json::{Value, json};

use crate::call::RoutedRequest;
use crate::error;

/// The usage of a project.
#[derive(Default)]
struct Used {
    servers: usize,
    groups: usize,
    cores: u64,
    ram_mb: u64,
}

impl Used {
    fn of(control: &ControlState, project: &str) -> Self {
        let conductor = &control.conductor;
        let listing = conductor.listing();
        let mut used = Self {
            servers: listing.count(Some(project)),
            groups: listing.groups(project),
            ..Self::default()
        };
        let placement = &control.placement;
        for consumer in placement.project_consumers(project) {
            for held in &consumer.allocations {
                match placement.class_name(held.class) {
                    "VCPU" | "PCPU" => used.cores += u64::from(held.amount),
                    "MEMORY_MB" => used.ram_mb += u64::from(held.amount),
                    _ => {}
                }
            }
        }
        used
    }
}

pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::LimitsShow)?;
    let other = call.query.get("tenant_id");
    if other.is_some() {
        call.allow(Rule::LimitsOtherProject)?;
    }
    let project = other.unwrap_or_else(|| call.project());
    let used = call.read(|control, _| Used::of(control, project)).await;
    let mut absolute = json!({
        "maxServerMeta": 128,
        "maxTotalInstances": -1,
        "maxTotalKeypairs": -1,
        "maxTotalCores": -1,
        "maxTotalRAMSize": -1,
        "maxServerGroups": -1,
        "maxServerGroupMembers": -1,
        "totalInstancesUsed": used.servers,
        "totalCoresUsed": used.cores,
        "totalRAMUsed": used.ram_mb,
        "totalServerGroupsUsed": used.groups,
    });
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

/// The quotas of the request's version, each as `show` formats its limit and usage.
fn quota_set(
    call: &RoutedRequest<'_>,
    project: &str,
    used: &Used,
    show: fn(limit: i64, used: u64) -> Value,
) -> Value {
    let mut set = json!({
        "id": project,
        "instances": show(-1, used.servers as u64),
        "cores": show(-1, used.cores),
        "ram": show(-1, used.ram_mb),
        "metadata_items": show(128, 0),
        "key_pairs": show(-1, 0),
        "server_groups": show(-1, used.groups as u64),
        "server_group_members": show(-1, 0),
    });
    if !call.version.since(57) {
        for key in [
            "injected_files",
            "injected_file_content_bytes",
            "injected_file_path_bytes",
        ] {
            set[key] = show(0, 0);
        }
    }
    if !call.version.since(36) {
        for key in [
            "fixed_ips",
            "floating_ips",
            "security_groups",
            "security_group_rules",
        ] {
            set[key] = show(-1, 0);
        }
    }
    json!({"quota_set": set})
}

pub(crate) async fn quotas(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let project = call.parameter("project_id");
    call.allow_on(Rule::QuotasShow, project, call.user())?;
    Reply::value(
        200,
        &quota_set(call, project, &Used::default(), |limit, _| json!(limit)),
    )
}

pub(crate) async fn default_quotas(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::QuotasDefaults)?;
    let project = call.parameter("project_id");
    Reply::value(
        200,
        &quota_set(call, project, &Used::default(), |limit, _| json!(limit)),
    )
}

pub(crate) async fn detailed_quotas(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let project = call.parameter("project_id");
    call.allow_on(Rule::QuotasDetail, project, call.user())?;
    let used = call.read(|control, _| Used::of(control, project)).await;
    let detail = |limit, used| json!({"limit": limit, "in_use": used, "reserved": 0});
    Reply::value(200, &quota_set(call, project, &used, detail))
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
