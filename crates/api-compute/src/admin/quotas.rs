//! Quotas of projects and of the quota class `default`.

use placewright_auth::Rule;
use placewright_conductor::quota::{Limits, QuotaScope, Resource, UNLIMITED};
use placewright_conductor::super_conductor::{Command, DEFAULT_QUOTA_CLASS, Refusal};
use placewright_conductor::{ControlState, super_conductor};
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use crate::error;
use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;
use crate::version::Version;

/// The largest limit, as in Nova.
const LIMIT_MAX: i64 = i32::MAX as i64;

/// Quotas of things that this service does not have, or does not count. Their limit is constant.
struct ConstantQuotas {
    names: &'static [&'static str],
    /// The limit of each project.
    limit: i64,
    /// The microversion that removed the quotas; `None` if none did.
    removed_in: Option<u16>,
}

impl ConstantQuotas {
    fn exist_in(&self, version: Version) -> bool {
        self.removed_in
            .is_none_or(|removed_in| !version.since(removed_in))
    }
}

const CONSTANT_QUOTAS: [ConstantQuotas; 3] = [
    ConstantQuotas {
        names: &["metadata_items"],
        limit: 128,
        removed_in: None,
    },
    ConstantQuotas {
        names: &[
            "injected_files",
            "injected_file_content_bytes",
            "injected_file_path_bytes",
        ],
        limit: 0,
        removed_in: Some(57),
    },
    ConstantQuotas {
        names: &[
            "fixed_ips",
            "floating_ips",
            "security_groups",
            "security_group_rules",
        ],
        limit: UNLIMITED,
        removed_in: Some(36),
    },
];

/// The resources of which each project has a quota, in the order in which they are shown.
const RESOURCES: [Resource; 6] = [
    Resource::Instances,
    Resource::Cores,
    Resource::Ram,
    Resource::KeyPairs,
    Resource::ServerGroups,
    Resource::ServerGroupMembers,
];

/// The limit of a resource, and how much of it is in use.
pub(super) struct Quota {
    pub(super) limit: i64,
    pub(super) used: u64,
}

impl Quota {
    /// The quota of a project; without a project, the default limit with a usage of 0.
    pub(super) fn new(
        state: &super_conductor::State,
        project: Option<&str>,
        resource: &Resource,
    ) -> Self {
        // Unified limits name resource classes. As in Nova, cores and RAM are VCPU and MEMORY_MB then.
        let resource = match resource {
            Resource::Cores if state.has_unified_limits() => &Resource::Class("VCPU".into()),
            Resource::Ram if state.has_unified_limits() => &Resource::Class("MEMORY_MB".into()),
            other => other,
        };
        Self {
            limit: state.quota_limit(project, resource),
            used: project.map_or(0, |project| state.used(project, resource)),
        }
    }

    fn limit_json(&self) -> Value {
        json!(self.limit)
    }

    fn detail_json(&self) -> Value {
        json!({"limit": self.limit, "in_use": self.used, "reserved": 0})
    }
}

/// The quotas of a project; without a project, the default quotas. `quota_json` formats each of them.
fn quota_set(
    request: &RoutedRequest<'_>,
    control: &ControlState,
    project: Option<&str>,
    quota_json: fn(&Quota) -> Value,
) -> Value {
    let state = &control.conductor;
    let mut set = json!({});
    let limits = state.quota_limits(project);
    let resource_classes = limits
        .keys()
        .filter(|resource| matches!(resource, Resource::Class(_)));
    for resource in RESOURCES.iter().chain(resource_classes) {
        set[&*resource.name()] = quota_json(&Quota::new(state, project, resource));
    }
    for quotas in CONSTANT_QUOTAS {
        if quotas.exist_in(request.version) {
            let quota = Quota {
                limit: quotas.limit,
                used: 0,
            };
            for name in quotas.names {
                set[*name] = quota_json(&quota);
            }
        }
    }
    set
}

async fn quota_set_response(
    request: &RoutedRequest<'_>,
    project: Option<&str>,
    quota_json: fn(&Quota) -> Value,
) -> ApiResult<Reply> {
    let set = request.read(|control, _| quota_set(request, control, project, quota_json));
    let mut set = set.await;
    set["id"] = json!(request.parameter("project_id"));
    Reply::value(200, &json!({"quota_set": set}))
}

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let project = request.parameter("project_id");
    request.authorize_for(Rule::QuotasShow, project, request.user())?;
    quota_set_response(request, Some(project), Quota::limit_json).await
}

pub(crate) async fn defaults(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::QuotasDefaults)?;
    quota_set_response(request, None, Quota::limit_json).await
}

pub(crate) async fn detail(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let project = request.parameter("project_id");
    request.authorize_for(Rule::QuotasDetail, project, request.user())?;
    quota_set_response(request, Some(project), Quota::detail_json).await
}

pub(crate) async fn update(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let project = request.parameter("project_id");
    request.authorize_for(Rule::QuotasUpdate, project, request.user())?;
    check_settable(request).await?;
    let body = request.json()?;
    let (limits, force) = parse_limits(request, &body, "quota_set")?;
    set_quota(
        request,
        QuotaScope::Project(project.to_owned()),
        limits,
        force,
    )
    .await?;
    let set =
        request.read(|control, _| quota_set(request, control, Some(project), Quota::limit_json));
    Reply::value(200, &json!({"quota_set": set.await}))
}

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let project = request.parameter("project_id");
    request.authorize_for(Rule::QuotasDelete, project, request.user())?;
    check_settable(request).await?;
    // Without limits of its own the project has the default ones.
    let sets = vec![(QuotaScope::Project(project.to_owned()), None)];
    request.execute(Command::ReplaceQuotas { sets }).await?;
    Ok(Reply::empty(202))
}

/// The quotas of a quota class: the default quotas, whatever the name of the class.
fn class_set(request: &RoutedRequest<'_>, control: &ControlState) -> Value {
    let mut set = quota_set(request, control, None, Quota::limit_json);
    let Some(quotas) = set.as_object_mut() else {
        return set;
    };
    if !request.version.since(50) {
        for resource in [Resource::ServerGroups, Resource::ServerGroupMembers] {
            quotas.remove(&*resource.name());
        }
    }
    set
}

pub(crate) async fn show_class(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::QuotaClassesShow)?;
    let mut set = request.read(|control, _| class_set(request, control)).await;
    set["id"] = json!(request.parameter("quota_class"));
    Reply::value(200, &json!({"quota_class_set": set}))
}

pub(crate) async fn update_class(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::QuotaClassesUpdate)?;
    let class = request.parameter("quota_class");
    if class != DEFAULT_QUOTA_CLASS {
        return Err(ApiError::bad_request(format!(
            "The only quota class is {DEFAULT_QUOTA_CLASS}, not {class}."
        )));
    }
    check_settable(request).await?;
    let body = request.json()?;
    let (limits, _) = parse_limits(request, &body, "quota_class_set")?;
    // The usage of projects is not compared with the limits of a class.
    let force = true;
    let scope = QuotaScope::Class(class.to_owned());
    set_quota(request, scope, limits, force).await?;
    let set = request.read(|control, _| class_set(request, control)).await;
    Reply::value(200, &json!({"quota_class_set": set}))
}

/// Refuses to set the quota of a user, because only projects have quotas. Refuses to set any quota while the
/// limits are Keystone's.
async fn check_settable(request: &RoutedRequest<'_>) -> ApiResult<()> {
    if request.query.get("user_id").is_some() {
        let message = "projects have quotas, users have none of their own";
        return Err(ApiError::field("user_id", message));
    }
    let is_unified = |control: &ControlState, _: &_| control.conductor.has_unified_limits();
    if request.read(is_unified).await {
        return Err(ApiError::bad_request(
            "The limits are Keystone's (compute.quota_driver is unified): set them there.",
        ));
    }
    Ok(())
}

/// Sets the limits of a scope. Unless `force` is set, limits lower than the usage are refused.
async fn set_quota(
    request: &RoutedRequest<'_>,
    scope: QuotaScope,
    limits: Limits,
    force: bool,
) -> ApiResult<()> {
    let command = Command::SetQuota {
        scope,
        limits,
        force,
    };
    match request.submit(command).await? {
        Ok(_) => Ok(()),
        Err(Refusal::BelowUse {
            resource,
            limit,
            used,
        }) => Err(ApiError::bad_request(format!(
            "Quota limit {limit} for {resource} must be greater than or equal to already used and \
             reserved {used}."
        ))),
        Err(refusal) => Err(error::from_refusal(refusal)),
    }
}

/// Parses the limits in a body, and the field `force`: whether the limits may be lower than the usage. `key` is the
/// field of the body that has the limits; only `quota_set` has `force`.
fn parse_limits(
    request: &RoutedRequest<'_>,
    body: &Value,
    key: &'static str,
) -> ApiResult<(Limits, bool)> {
    let mut body_parser = ObjectParser::of_body(body)?;
    let mut parser = body_parser.object(key)?;
    let force = match key {
        "quota_set" => parser.boolean("force")?.unwrap_or(false),
        _ => false,
    };
    let mut limits = Limits::new();
    let names = body[key].as_object().into_iter().flat_map(|map| map.keys());
    for name in names.filter(|name| !(key == "quota_set" && *name == "force")) {
        let constant = CONSTANT_QUOTAS
            .iter()
            .find(|quotas| quotas.names.contains(&name.as_str()));
        let resource = Resource::parse(name);
        if constant.is_none() && resource.is_none() {
            // `parser.finish` rejects fields that were not taken.
            continue;
        }
        let value = parser.take_required(name)?;
        let limit = parse_limit(value).ok_or_else(|| {
            let message = format!("it must be a whole number from -1 to {LIMIT_MAX}");
            parser.field_error(name, message)
        })?;
        match (constant, resource) {
            (Some(constant), _) => {
                if !constant.exist_in(request.version) || limit != constant.limit {
                    let message =
                        format!("there is no such quota; only {} can be set", constant.limit);
                    return Err(parser.field_error(name, message));
                }
            }
            (None, Some(resource)) => drop(limits.insert(resource, limit)),
            (None, None) => {}
        }
    }
    parser.finish()?;
    body_parser.finish()?;
    Ok((limits, force))
}

/// Parses a limit: a number, or a text with a number.
fn parse_limit(value: &Value) -> Option<i64> {
    let limit = match value {
        Value::Number(number) => number.as_i64()?,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    (UNLIMITED..=LIMIT_MAX).contains(&limit).then_some(limit)
}
