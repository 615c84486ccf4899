//! Quotas of projects and of the quota class `default`.

use placewright_auth::Rule;
use placewright_conductor::quota::{Limits, QuotaScope, Resource, UNLIMITED};
use placewright_conductor::super_conductor::{Command, DEFAULT_CLASS, Refusal};
use placewright_conductor::{ControlState, super_conductor};
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use crate::error;
use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;

/// The largest limit, as in Nova.
const LIMIT_MAX: i64 = i32::MAX as i64;

/// What this API calls quotas but does not keep: the version up to which there are such, their
/// names, and the limit that all projects have.
const CONSTANT: [(u16, &[&str], i64); 3] = [
    (u16::MAX, &["metadata_items"], 128),
    (
        56,
        &[
            "injected_files",
            "injected_file_content_bytes",
            "injected_file_path_bytes",
        ],
        0,
    ),
    (
        35,
        &[
            "fixed_ips",
            "floating_ips",
            "security_groups",
            "security_group_rules",
        ],
        UNLIMITED,
    ),
];

/// The resources of which each project has a limit, in the order in which they are shown.
const KEPT: [Resource; 6] = [
    Resource::Instances,
    Resource::Cores,
    Resource::Ram,
    Resource::KeyPairs,
    Resource::ServerGroups,
    Resource::ServerGroupMembers,
];

/// The limit of a resource for a project, or for all, and what the project holds of it.
pub(super) struct Quota {
    pub(super) limit: i64,
    pub(super) used: u64,
}

impl Quota {
    pub(super) fn of(
        state: &super_conductor::State,
        project: Option<&str>,
        resource: &Resource,
    ) -> Self {
        // Keystone limits classes where this API has names of its own, as Nova maps them.
        let resource = match resource {
            Resource::Cores if state.has_unified_limits() => &Resource::Class("VCPU".into()),
            Resource::Ram if state.has_unified_limits() => &Resource::Class("MEMORY_MB".into()),
            other => other,
        };
        Self {
            limit: state.quota(project, resource),
            used: project.map_or(0, |project| state.used(project, resource)),
        }
    }

    fn limit_only(&self) -> Value {
        json!(self.limit)
    }

    fn detail(&self) -> Value {
        json!({"limit": self.limit, "in_use": self.used, "reserved": 0})
    }
}

/// The quotas of a project, or those of projects by default, as `show` formats each.
fn quota_set(
    call: &RoutedRequest<'_>,
    control: &ControlState,
    project: Option<&str>,
    show: fn(&Quota) -> Value,
) -> Value {
    let state = &control.conductor;
    let mut set = json!({});
    let limited = state.quotas_of(project);
    let classes = limited
        .keys()
        .filter(|one| matches!(one, Resource::Class(_)));
    for resource in KEPT.iter().chain(classes) {
        set[&*resource.name()] = show(&Quota::of(state, project, resource));
    }
    for (until, names, limit) in CONSTANT {
        if !call.version.since(until.saturating_add(1)) {
            for name in names {
                set[*name] = show(&Quota { limit, used: 0 });
            }
        }
    }
    set
}

async fn show_set(
    call: &RoutedRequest<'_>,
    project: Option<&str>,
    show: fn(&Quota) -> Value,
) -> ApiResult<Reply> {
    let set = call.read(|control, _| quota_set(call, control, project, show));
    let mut set = set.await;
    set["id"] = json!(call.parameter("project_id"));
    Reply::value(200, &json!({"quota_set": set}))
}

pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let project = call.parameter("project_id");
    call.allow_on(Rule::QuotasShow, project, call.user())?;
    show_set(call, Some(project), Quota::limit_only).await
}

pub(crate) async fn defaults(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::QuotasDefaults)?;
    show_set(call, None, Quota::limit_only).await
}

pub(crate) async fn detail(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let project = call.parameter("project_id");
    call.allow_on(Rule::QuotasDetail, project, call.user())?;
    show_set(call, Some(project), Quota::detail).await
}

pub(crate) async fn update(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let project = call.parameter("project_id");
    call.allow_on(Rule::QuotasUpdate, project, call.user())?;
    can_be_set(call).await?;
    let body = call.json()?;
    let (limits, force) = read(call, &body, "quota_set")?;
    set(call, QuotaScope::Project(project.to_owned()), limits, force).await?;
    let set = call.read(|control, _| quota_set(call, control, Some(project), Quota::limit_only));
    Reply::value(200, &json!({"quota_set": set.await}))
}

pub(crate) async fn delete(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let project = call.parameter("project_id");
    call.allow_on(Rule::QuotasDelete, project, call.user())?;
    can_be_set(call).await?;
    let sets = vec![(QuotaScope::Project(project.to_owned()), None)];
    call.carry_out(Command::ReplaceQuotas { sets }).await?;
    Ok(Reply::empty(202))
}

/// The quotas of a class: `default`, which are those of every project without its own. A class of
/// another name has the same.
fn class_set(call: &RoutedRequest<'_>, control: &ControlState) -> Value {
    let mut set = quota_set(call, control, None, Quota::limit_only);
    let Some(fields) = set.as_object_mut() else {
        return set;
    };
    if !call.version.since(50) {
        for resource in [Resource::ServerGroups, Resource::ServerGroupMembers] {
            fields.remove(&*resource.name());
        }
    }
    set
}

pub(crate) async fn show_class(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::QuotaClassesShow)?;
    let mut set = call.read(|control, _| class_set(call, control)).await;
    set["id"] = json!(call.parameter("quota_class"));
    Reply::value(200, &json!({"quota_class_set": set}))
}

pub(crate) async fn update_class(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::QuotaClassesUpdate)?;
    let class = call.parameter("quota_class");
    if class != DEFAULT_CLASS {
        return Err(ApiError::bad_request(format!(
            "The only quota class is {DEFAULT_CLASS}, not {class}."
        )));
    }
    can_be_set(call).await?;
    let body = call.json()?;
    let (limits, _) = read(call, &body, "quota_class_set")?;
    set(call, QuotaScope::Class(class.to_owned()), limits, true).await?;
    let set = call.read(|control, _| class_set(call, control)).await;
    Reply::value(200, &json!({"quota_class_set": set}))
}

/// Whether limits are set here, and not in Keystone.
async fn can_be_set(call: &RoutedRequest<'_>) -> ApiResult<()> {
    if call.query.get("user_id").is_some() {
        let message = "projects have quotas, users have none of their own";
        return Err(ApiError::field("user_id", message));
    }
    let is_unified = |control: &ControlState, _: &_| control.conductor.has_unified_limits();
    if call.read(is_unified).await {
        return Err(ApiError::bad_request(
            "The limits are Keystone's (compute.quota_driver is unified): set them there.",
        ));
    }
    Ok(())
}

async fn set(
    call: &RoutedRequest<'_>,
    scope: QuotaScope,
    limits: Limits,
    force: bool,
) -> ApiResult<()> {
    let command = Command::SetQuota {
        scope,
        limits,
        force,
    };
    match call.submit(command).await? {
        Ok(_) => Ok(()),
        Err(Refusal::BelowUse {
            resource,
            limit,
            used,
        }) => Err(ApiError::bad_request(format!(
            "Quota limit {limit} for {resource} must be greater than or equal to already used and \
             reserved {used}."
        ))),
        Err(refusal) => Err(error::of_refusal(refusal)),
    }
}

/// Parses the limits of a body, and whether they may be less than what is in use.
fn read(call: &RoutedRequest<'_>, body: &Value, key: &'static str) -> ApiResult<(Limits, bool)> {
    let mut fields = ObjectParser::of_body(body)?;
    let mut parsed = fields.object(key)?;
    let force = match key {
        "quota_set" => parsed.boolean("force")?.unwrap_or(false),
        _ => false,
    };
    let mut limits = Limits::new();
    let names = body[key].as_object().into_iter().flat_map(|map| map.keys());
    for name in names.filter(|name| !(key == "quota_set" && *name == "force")) {
        let constant = CONSTANT
            .iter()
            .find(|(_, names, _)| names.contains(&name.as_str()));
        let resource = Resource::parse(name);
        if constant.is_none() && resource.is_none() {
            continue;
        }
        let value = parsed.need(name)?;
        let limit = read_limit(value).ok_or_else(|| {
            let message = format!("it must be a whole number from -1 to {LIMIT_MAX}");
            parsed.wrong(name, message)
        })?;
        match (constant, resource) {
            (Some((until, _, kept)), _) => {
                let is_there = !call.version.since(until.saturating_add(1));
                if !is_there || limit != *kept {
                    let message = format!("there is no such quota; only {kept} can be set");
                    return Err(parsed.wrong(name, message));
                }
            }
            (None, Some(resource)) => drop(limits.insert(resource, limit)),
            (None, None) => {}
        }
    }
    parsed.finish()?;
    fields.finish()?;
    Ok((limits, force))
}

/// A limit: a number, or its text.
fn read_limit(value: &Value) -> Option<i64> {
    let limit = match value {
        Value::Number(number) => number.as_i64()?,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    (UNLIMITED..=LIMIT_MAX).contains(&limit).then_some(limit)
}
